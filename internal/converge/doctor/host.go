package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/internal/converge"
)

const (
	swVers   = "/usr/bin/sw_vers"
	oldestOS = 14
	gigabyte = 1e9
	// tightDisk is what one image and one guest of common size take.
	tightDisk = 100 * gigabyte
	dataDisk  = "/System/Volumes/Data"
	// leastMemory is what a guest and macOS share at the very least, in bytes.
	leastMemory = 8 << 30
)

// system is the first check: whether this is a Mac at all.
func system() check {
	return check{id: "system", title: "A supported macOS", look: func(ctx context.Context, x *exam) Finding {
		if x.foreign(ctx) {
			return problem("this is not macOS: there is no "+swVers+kernel(ctx, x),
				"nothing else was looked at", "run it on the Mac")
		}
		text, err := x.output(ctx, swVers)
		if err != nil {
			return unseen(err)
		}
		return judgeSystem(text)
	}}
}

// foreign reports that this is another system than macOS.
func (x *exam) foreign(ctx context.Context) bool { return x.missing(ctx, swVers) }

func kernel(ctx context.Context, x *exam) string {
	for _, path := range []string{"/usr/bin/uname", "/bin/uname"} {
		if name, err := x.output(ctx, path, "-s"); err == nil {
			return "; the kernel is " + strings.TrimSpace(name)
		}
	}
	return ""
}

func judgeSystem(text string) Finding {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			values[name] = strings.TrimSpace(value)
		}
	}
	version := values["ProductVersion"]
	first, _, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		return unknown("sw_vers tells no version")
	}
	seen := values["ProductName"] + " " + version + " (" + values["BuildVersion"] + ")"
	if major < oldestOS {
		return warning(seen,
			"nobody tries releases this old any more", "have the Mac reinstalled with a newer macOS")
	}
	return well("%s", seen)
}

func hardware(ctx context.Context, x *exam) Finding {
	silicon, err := x.Mac.System.AppleSilicon(ctx)
	if err != nil {
		return unseen(err)
	}
	guest, err := x.Mac.System.VirtualMachine(ctx)
	if err != nil {
		return unseen(err)
	}
	model, _ := x.output(ctx, "/usr/sbin/sysctl", "-n", "hw.model")
	memory, _ := x.output(ctx, "/usr/sbin/sysctl", "-n", "hw.memsize")
	bytes, _ := strconv.ParseInt(strings.TrimSpace(memory), 10, 64)
	switch {
	case !silicon:
		return problem("no Apple silicon: "+model,
			"macOS guests cannot run", "take another Mac")
	case guest:
		return problem("this is a virtual machine",
			"guests cannot run in a guest", "run it on the Mac itself")
	case bytes > 0 && bytes < leastMemory:
		return warning("memory: "+strings.TrimSpace(memory)+" bytes",
			"there is hardly room for one guest", "take a Mac with more memory")
	}
	return well("%s, %d GiB", strings.TrimSpace(model), bytes>>30)
}

func fileVault(ctx context.Context, x *exam) Finding {
	on, err := x.Mac.System.FileVault(ctx)
	switch {
	case err != nil:
		return unseen(err)
	case on:
		return problem("FileVault is on, or comes with the next login",
			"after each boot the Mac waits for somebody to type a password, without SSH and without guests", "turn it off: sudo fdesetup disable, and remove an MDM profile that asks for it")
	}
	return well("FileVault is off")
}

func integrity(ctx context.Context, x *exam) Finding {
	text, err := x.output(ctx, "/usr/bin/csrutil", "status")
	return judgeSwitch(text, err, "enabled", Finding{
		Verdict: Problem, Consequence: "a program that becomes root can change macOS itself", Remedy: "turn it on from the recovery system: csrutil enable",
	})
}

func gatekeeper(ctx context.Context, x *exam) Finding {
	text, err := x.output(ctx, "/usr/sbin/spctl", "--status")
	return judgeSwitch(text, err, "enabled", Finding{
		Verdict: Warning, Consequence: "programs that nobody signed may run", Remedy: "turn it on: sudo spctl --master-enable",
	})
}

// judgeSwitch is well when the text holds the word, and the other finding when it
// says anything else.
func judgeSwitch(text string, err error, word string, other Finding) Finding {
	text = strings.TrimSpace(text)
	switch {
	case strings.Contains(text, word):
		return well("%s", text)
	case strings.Contains(text, "disabled"):
		other.Evidence = text
		return other
	case err != nil:
		return unseen(err)
	}
	return unknown("it says %q", text)
}

func disk(ctx context.Context, x *exam) Finding {
	path := dataDisk
	if x.missing(ctx, path) {
		path = "/"
	}
	free, err := x.Mac.System.FreeBytes(ctx, path)
	if err != nil {
		return unseen(err)
	}
	seen := strconv.FormatInt(free/gigabyte, 10) + " GB free"
	remedy := "remove images and guests that nobody uses (tart list, tart delete), or have the Mac reinstalled"
	switch {
	case free < converge.MinFree:
		return problem(seen,
			"macOS itself runs out of room, and converge refuses to begin", remedy)
	case free < tightDisk:
		return warning(seen,
			"there may be no room for the next image", remedy)
	}
	return well("%s", seen)
}

func timeKept(ctx context.Context, x *exam) Finding {
	job, loaded, err := x.printJob(ctx, "com.apple.timed")
	switch {
	case err != nil:
		return unseen(err)
	case !loaded:
		return warning("launchd does not know com.apple.timed", "a clock that runs off makes certificates and tokens invalid",
			"sudo systemsetup -setusingnetworktime on")
	}
	return well("com.apple.timed is %s", job.State)
}

// read reads a file of a size that people can read.
func (x *exam) read(path string) ([]byte, error) {
	const limit = 1 << 20
	f, err := x.Mac.Files.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readAll(f, limit)
}

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
