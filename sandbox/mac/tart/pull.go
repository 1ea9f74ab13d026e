package tart

import (
	"bytes"
	"context"
	"crypto/md5" // tart names its resumable directory so; nothing is protected by it
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// pullSteps is how many times a download reports, and can be resumed.
const pullSteps = 10

// How a full disk shows in a pull, which writes, and in a clone, which has macOS copy.
var (
	errNoSpace     = errors.New(`NSPOSIXErrorDomain Code=28 "No space left on device"`)
	errNoCopySpace = errors.New("“disk.img” couldn’t be copied to “tmp” because there isn’t enough space")
)

func (c images) pull(ctx context.Context, args []string) error {
	a := newArguments("pull <remote-name> [--insecure] [--concurrency <n>]")
	a.ignore([]string{"insecure", "deduplicate"}, []string{"concurrency"})
	words, err := a.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if _, err := c.home.local(words[0]); err == nil {
		c.printf("%q is a local image already\n", words[0])
		return nil
	}
	ref, ok := parseReference(words[0])
	if !ok {
		return runtimeError("failed to parse remote name: " + words[0])
	}
	return c.fetch(ctx, ref)
}

// fetch caches an image and points its tag to it.
func (c images) fetch(ctx context.Context, ref reference) error {
	c.printf("pulling manifest...\n")
	image, err := c.manifest(ref)
	if err != nil {
		return err
	}
	lock, err := c.lockRegistry(ref.host)
	if err != nil {
		return err
	}
	defer lock.close()
	cached := c.home.dir(ref.byDigest(image.digest))
	if c.home.whole(cached) {
		c.printf("%s image is already cached!\n", ref.byDigest(image.digest))
	} else if err := c.download(ctx, ref, image, cached); err != nil {
		return err
	}
	return c.home.name(ref, cached)
}

// lockRegistry lets one pull run for each registry host.
func (c images) lockRegistry(host string) (flocked, error) {
	dir := c.home.registry(host)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return flocked{}, fmt.Errorf("preparing the image cache: %w", err)
	}
	lock, taken, err := tryFlock(dir)
	if err != nil || taken {
		return lock, err
	}
	c.printf("waiting for lock...\n")
	return flock(dir)
}

// download transfers in steps. A pull that was killed resumes where it stood, as long as
// nobody collects what it has; SIGINT has it throw that away.
func (c images) download(ctx context.Context, ref reference, image Image, to vmDir) error {
	dir, release, err := c.home.lockedTemporary(fmt.Sprintf("%x", md5.Sum([]byte(ref.String()))))
	if err != nil {
		return err
	}
	if err := c.plan.strikes(PullNoSpace, ref.String(), errNoSpace); err != nil {
		return err
	}
	c.journal.note(EventDownload, ref.byDigest(image.digest).String())
	c.printf("pulling disk...\n")
	if err := c.transferAll(ctx, ref, image, dir); err != nil {
		if ctx.Err() != nil {
			release()
		}
		return err
	}
	defer release()
	if err := c.unpack(image, dir); err != nil {
		return err
	}
	return c.home.place(dir, string(to))
}

// transferAll makes a file longer with each step, by which the next pull sees how far
// this one came.
func (c images) transferAll(ctx context.Context, ref reference, image Image, dir vmDir) error {
	const block = 4096
	partial := filepath.Join(string(dir), "partial")
	start := 0
	if st, err := os.Stat(partial); err == nil {
		start = int(st.Size() / block)
	}
	for step := start; step < pullSteps; step++ {
		c.progress(step*100/pullSteps, step == start)
		if err := c.transfer(ctx, ref, image, step); err != nil {
			return err
		}
		if err := os.WriteFile(partial, bytes.Repeat([]byte("x"), (step+1)*block), 0o644); err != nil {
			return fmt.Errorf("writing what has come: %w", err)
		}
	}
	c.progress(100, start == pullSteps)
	if err := os.Remove(partial); err != nil {
		return fmt.Errorf("finishing a pull: %w", err)
	}
	return nil
}

// progress is a line of its own for each step with CI set. Without it, wherever the output
// goes, each line but the first is written over the one before.
func (c images) progress(percent int, first bool) {
	if first || c.env.Getenv("CI") != "" {
		c.printf("%d%%\n", percent)
		return
	}
	c.printf("\x1b[1A\r\x1b[J%d%%\n", percent)
}

// transfer is one step of a download; the faults strike half way.
func (c images) transfer(ctx context.Context, ref reference, image Image, step int) error {
	if step == pullSteps/2 {
		err := c.plan.strikes(PullInterrupted, ref.String(), errors.New("NSURLErrorDomain Code=-1005 \"The network connection was lost.\""))
		if err != nil {
			return err
		}
		stalls, err := c.plan.fires(PullStalls, ref.String())
		if err != nil {
			return err
		}
		if stalls {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	whole := time.Duration(c.plan.PullDelay)
	if c.plan.PullBytesPerSecond > 0 {
		whole += time.Duration(float64(image.Bytes) / float64(c.plan.PullBytesPerSecond) * float64(time.Second))
	}
	return pause(ctx, whole/pullSteps)
}
