package converge

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
)

func TestUnfitMachineIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(*fixture)
		detail  string
	}{
		"FileVault":       {func(f *fixture) { f.mac.System.FileVault = true }, "FileVault is on"},
		"virtual machine": {func(f *fixture) { f.mac.System.VirtualMachine = true }, "virtual machine"},
		"Intel":           {func(f *fixture) { f.mac.System.Intel = true }, "no Apple silicon"},
		"full disk":       {func(f *fixture) { f.mac.System.FreeBytes = 19e9 }, "19.0 GB are free"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.arrange(f)
			f.refused("fitness", document.Human, c.detail)
			f.nothingDone()
		})
	}
}

// TestDiskFullAtEveryWrite has the disk fill up at each write of a fresh converge
// in turn. The run says so, and the next one, with room again, mends everything.
func TestDiskFullAtEveryWrite(t *testing.T) {
	prepare := func(t *testing.T) *fixture {
		f := newFixture(t)
		f.desired.Mac.GuestQuotaBytes = 100e9
		f.wantTart("2.28.6", nil)
		return f
	}
	undisturbed := prepare(t)
	undisturbed.converge()
	for i, call := range undisturbed.mac.Changes {
		verb, name, _ := strings.Cut(call, " ")
		// The report of a run that could not be kept is tested with reports.
		if (verb != "write" && verb != "mkdir") || name == document.ReportFile {
			continue
		}
		t.Run(fmt.Sprintf("%d %s", i, call), func(t *testing.T) {
			f := prepare(t)
			n := 0
			f.mac.Fail = func(string) error {
				n++
				if n == i+1 {
					return &fs.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
				}
				return nil
			}
			s, failed := f.run(f.options()).FailedStep()
			if !failed || s.Class != document.Reinstall || !strings.Contains(s.Detail, "no space") {
				t.Errorf("step %q: %s (%s): %s", s.Name, s.Outcome, s.Class, s.Detail)
			}
			f.mac.Fail = nil
			f.converge()
			if r := f.converge(); r.Exit != document.ExitUnchanged {
				t.Errorf("a third run still changes: %v", outcomes(r))
			}
		})
	}
}
