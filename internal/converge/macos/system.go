package macos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// localSystem is what else this Mac says of itself.
type localSystem struct{}

var _ System = localSystem{}

const (
	fdesetupCommand  = "/usr/bin/fdesetup"
	dfCommand        = "/bin/df"
	shutdownCommand  = "/sbin/shutdown"
	newsyslogCommand = "/usr/sbin/newsyslog"
)

// FileVault implements System.
func (localSystem) FileVault(ctx context.Context) (bool, error) {
	out, err := run(ctx, fdesetupCommand, "status")
	if err != nil {
		return false, err
	}
	on, known := document.FileVaultOn(out)
	if !known {
		return false, fmt.Errorf("fdesetup says %q", firstLine(out))
	}
	return on, nil
}

// VirtualMachine implements System.
func (localSystem) VirtualMachine(ctx context.Context) (bool, error) {
	return sysctlFlag(ctx, "kern.hv_vmm_present")
}

// AppleSilicon implements System.
func (localSystem) AppleSilicon(ctx context.Context) (bool, error) {
	return sysctlFlag(ctx, "hw.optional.arm64")
}

// sysctlFlag reads a variable that is 1 or 0; one that the Mac does not know, which
// the command says with an exit code, is 0.
func sysctlFlag(ctx context.Context, name string) (bool, error) {
	out, err := run(ctx, sysctlCommand, "-n", name)
	if _, ok := errors.AsType[*commandError](err); ok {
		return false, nil
	}
	return strings.TrimSpace(out) == "1", err
}

// FreeBytes implements System.
func (localSystem) FreeBytes(ctx context.Context, path string) (int64, error) {
	out, err := run(ctx, dfCommand, "-k", path)
	if err != nil {
		return 0, err
	}
	return parseFree(out)
}

// parseFree reads the fourth field of df's second line, in KiB.
func parseFree(text string) (int64, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 2 {
		return 0, fmt.Errorf("df says %q", firstLine(text))
	}
	fields := strings.Fields(lines[1])
	if len(fields) < 4 {
		return 0, fmt.Errorf("df says %q", firstLine(lines[1]))
	}
	kib, err := strconv.ParseInt(fields[3], 10, 53)
	if err != nil || kib < 0 {
		return 0, fmt.Errorf("df says that %.32q KiB are free", fields[3])
	}
	return kib << 10, nil
}

// Reboot implements System. "now" has shutdown ask launchd itself, and it returns after
// that: launchd may have ended all by then.
func (localSystem) Reboot(ctx context.Context) error {
	_, err := run(ctx, shutdownCommand, "-r", "now")
	return err
}

// LogRotation implements System. newsyslog complains about a line that it cannot
// use and exits with 0 all the same, so its complaints count.
func (localSystem) LogRotation(ctx context.Context, file string) error {
	out, err := run(ctx, newsyslogCommand, "-nvv", "-f", file)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(out, "\n") {
		if strings.Contains(line, "malformed") || strings.Contains(line, "error in config") {
			return fmt.Errorf("newsyslog: %s", firstLine(line))
		}
	}
	return nil
}
