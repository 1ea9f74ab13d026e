package tart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Pull runs `tart pull`, which does nothing when the digest is already here.
func (d *Driver) Pull(ctx context.Context, ref string, o vm.PullOptions) (string, error) {
	if _, err := d.imageLink(ref); err != nil {
		return "", err
	}
	// With CI set tart prints its progress line by line. Interrupted, it would throw away
	// what has come.
	c := command{args: []string{"pull", ref}, env: []string{"CI=1"}, watch: &percents{tell: o.Progress}, abrupt: true}
	if o.Credential != nil {
		host, _, _ := strings.Cut(ref, "/")
		c.env = append(
			c.env,
			"TART_REGISTRY_HOSTNAME="+host,
			"TART_REGISTRY_USERNAME="+o.Credential.Username,
			"TART_REGISTRY_PASSWORD="+o.Credential.Password,
		)
		c.secrets = []string{o.Credential.Password, o.Credential.Username}
	}
	if err := d.resume(ctx, ref, c); err != nil {
		return "", fmt.Errorf("pulling %s: %w", ref, err)
	}
	return d.Digest(ctx, ref)
}

// resume runs a pull. By digest it goes on from what the last one left, and what it leaves
// itself is kept, unless the volume is full or the registry has no such image. A tag may
// have moved since: tart writes the new image over what there is of the old one, and
// leaves out what is zero.
func (d *Driver) resume(ctx context.Context, ref string, pull command) error {
	host, _, _ := strings.Cut(ref, "/")
	name, pinned := leftoverName(ref), strings.Contains(ref, "@")
	if !pinned {
		d.leftovers.remove(name)
	}
	var waits sync.WaitGroup
	running, ended := context.WithCancel(ctx)
	if lock := d.leftovers.take(name); lock != nil {
		waits.Go(func() { releaseFor(running, lock, registryDir(d.home, host)) })
	}
	_, err := d.run(ctx, pull)
	ended()
	waits.Wait()
	d.leftovers.takeBack(name)
	if !pinned || errors.Is(err, vm.ErrNoSpace) || errors.Is(err, vm.ErrImageNotFound) {
		d.leftovers.remove(name)
	}
	return err
}

var percentPattern = regexp.MustCompile(`\b(\d{1,3})(?:\.\d+)?\s?%`)

// lineLimit bounds what is kept of a line that does not end, in bytes.
const lineLimit = 4 << 10

// percents reads progress out of lines.
type percents struct {
	tell func(int)
	rest []byte
}

func (p *percents) Write(data []byte) (int, error) {
	if p.tell == nil {
		return len(data), nil
	}
	p.rest = append(p.rest, data...)
	for {
		end := bytes.IndexAny(p.rest, "\r\n")
		if end < 0 {
			break
		}
		p.line(p.rest[:end])
		p.rest = p.rest[end+1:]
	}
	if len(p.rest) > lineLimit {
		p.rest = nil
	}
	return len(data), nil
}

func (p *percents) line(line []byte) {
	m := percentPattern.FindSubmatch(line)
	if m == nil {
		return
	}
	if n, err := strconv.Atoi(string(m[1])); err == nil && n <= 100 {
		p.tell(n)
	}
}

var _ io.Writer = (*percents)(nil)
