package macostest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// System is what a Mac in memory says of itself.
type System struct {
	FileVault, VirtualMachine, Intel bool
	// FreeBytes on its disk.
	FreeBytes int64
	// RebootAsked: a reboot was asked for that did not happen yet. A test makes it
	// happen with Mac.Reboot.
	RebootAsked bool
}

type system struct{ m *Mac }

var _ macos.System = system{}

func (s system) FileVault(context.Context) (bool, error)      { return s.m.System.FileVault, nil }
func (s system) VirtualMachine(context.Context) (bool, error) { return s.m.System.VirtualMachine, nil }
func (s system) AppleSilicon(context.Context) (bool, error)   { return !s.m.System.Intel, nil }

func (s system) FreeBytes(context.Context, string) (int64, error) {
	return s.m.System.FreeBytes, nil
}

func (s system) Reboot(context.Context) error {
	if err := s.m.change("reboot"); err != nil {
		return err
	}
	s.m.System.RebootAsked = true
	return nil
}

// logLineFields: path, owner, mode, count, size, when and flags.
const logLineFields = 7

func (s system) LogRotation(_ context.Context, name string) error {
	data, found := s.m.Get(name)
	if !found {
		return missing("open", name)
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if n := len(strings.Fields(line)); n != 0 && line[0] != '#' && n < logLineFields {
			return errors.New("newsyslog: exit 1: malformed line (missing fields)")
		}
	}
	return nil
}

const (
	runDir    = "/var/run"
	bootTakes = 90 * time.Second
)

// Reboot loses what a boot loses (processes, sessions, guests, local sockets) and
// comes back as macOS does: volumes, launchd's jobs, then the console.
func (m *Mac) Reboot() {
	m.boots++
	m.Boot = "5C1B6E0E-0000-4000-8000-" + strings.Repeat("0", 11) + string(rune('1'+m.boots%9))
	m.System.RebootAsked = false
	m.sealIfDue()
	m.LogOut()
	m.now = m.now.Add(bootTakes)
	clear(m.cached) // signatures are kept of inodes in memory
	m.drop(runDir)
	m.PF.forget()
	for _, f := range m.files {
		f.locked = false
	}
	for _, v := range m.volumes {
		if v.Mount == "" {
			m.mount(v)
		}
	}
	m.bootDaemons()
	if !m.Console.NeedsRestart {
		m.loginwindow()
	}
}

// drop removes what is below a folder without recording a change.
func (m *Mac) drop(dir string) {
	for name := range m.files {
		if strings.HasPrefix(name, dir+"/") {
			delete(m.files, name)
		}
	}
}
