package hostos

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Facts do not change while the host is up.
type Facts struct {
	CPUs        int
	MemoryBytes int64
	// BootSession is another one after each boot (kern.bootsessionuuid).
	BootSession string
	// OSImage is product and build, e.g. macOS 26.0 (25A354).
	OSImage string
	// Kernel release, as uname -r has it.
	Kernel string
	// PlatformUUID names the board and outlives a reinstall.
	PlatformUUID string
}

// ReadFacts asks the host. It fails with the first thing that is missing, as a
// Node with made-up facts helps nobody.
func ReadFacts(ctx context.Context, r Runner) (Facts, error) {
	var f Facts
	var errs [4]error
	errs[0] = f.readSysctl(ctx, r)
	f.OSImage, errs[1] = osImage(ctx, r)
	f.Kernel, errs[2] = line(ctx, r, "uname", "-r")
	f.PlatformUUID, errs[3] = platformUUID(ctx, r)
	if err := errors.Join(errs[:]...); err != nil {
		return Facts{}, fmt.Errorf("reading facts of the host: %w", err)
	}
	return f, nil
}

func (f *Facts) readSysctl(ctx context.Context, r Runner) error {
	out, err := r.Run(ctx, "sysctl", "-n", "hw.ncpu", "hw.memsize", "kern.bootsessionuuid")
	if err != nil {
		return err
	}
	fields := strings.Fields(out)
	if len(fields) != 3 {
		return fmt.Errorf("sysctl printed %d values, want 3", len(fields))
	}
	if f.CPUs, err = strconv.Atoi(fields[0]); err != nil || f.CPUs < 1 {
		return fmt.Errorf("hw.ncpu is %q", fields[0])
	}
	if f.MemoryBytes, err = strconv.ParseInt(fields[1], 10, 64); err != nil || f.MemoryBytes < 1 {
		return fmt.Errorf("hw.memsize is %q", fields[1])
	}
	f.BootSession = fields[2]
	return nil
}

func osImage(ctx context.Context, r Runner) (string, error) {
	out, err := r.Run(ctx, "sw_vers")
	if err != nil {
		return "", err
	}
	values := map[string]string{}
	for l := range strings.Lines(out) {
		if name, value, ok := strings.Cut(l, ":"); ok {
			values[name] = strings.TrimSpace(value)
		}
	}
	if values["ProductVersion"] == "" {
		return "", errors.New("sw_vers tells no ProductVersion")
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s (%s)", values["ProductName"], values["ProductVersion"], values["BuildVersion"])), nil
}

var platformUUIDPattern = regexp.MustCompile(`"IOPlatformUUID"\s*=\s*"([0-9A-Fa-f-]+)"`)

func platformUUID(ctx context.Context, r Runner) (string, error) {
	out, err := r.Run(ctx, "ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
	if err != nil {
		return "", err
	}
	m := platformUUIDPattern.FindStringSubmatch(out)
	if m == nil {
		return "", errors.New("ioreg tells no IOPlatformUUID")
	}
	return m[1], nil
}

func line(ctx context.Context, r Runner, name string, args ...string) (string, error) {
	out, err := r.Run(ctx, name, args...)
	return strings.TrimSpace(out), err
}

// Disk is the volume that holds a path.
type Disk struct{ TotalBytes, FreeBytes int64 }

// ReadDisk asks df for the volume of path.
func ReadDisk(ctx context.Context, r Runner, path string) (Disk, error) {
	out, err := r.Run(ctx, "df", "-k", path)
	if err != nil {
		return Disk{}, err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	// Filesystem, 1024-blocks, Used, Available, Capacity, …
	if len(lines) < 2 || len(fields) < 5 {
		return Disk{}, fmt.Errorf("df printed no line for %s", path)
	}
	total, err1 := strconv.ParseInt(fields[1], 10, 64)
	free, err2 := strconv.ParseInt(fields[3], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return Disk{}, fmt.Errorf("reading df's numbers for %s: %w", path, err)
	}
	const kibibyte = 1 << 10
	return Disk{TotalBytes: total * kibibyte, FreeBytes: free * kibibyte}, nil
}
