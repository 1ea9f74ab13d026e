package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/launchd"
	"github.com/macfleet/macfleet/sandbox/mac/prefs"
	loginwindow "github.com/macfleet/macfleet/sandbox/mac/session"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const (
	kcpassword       = "/private/etc/kcpassword"
	loginwindowPlist = "/Library/Preferences/com.apple.loginwindow.plist"
)

// startConsole makes the preferences and loginwindow of this boot.
func (p *pid1) startConsole() {
	p.prefs = prefs.New(prefs.Options{
		Username: p.cfg.Username, PlatformUUID: p.cfg.Facts.PlatformUUID,
		Fresh: func() bool { return p.quirk().FreshPreferences }, Own: p.own,
	})
	p.console = loginwindow.New(loginwindow.Options{
		Look: p.lookAtConsole, Seal: sealKcpassword, End: endGuests, Log: p.log, Scale: p.cfg.TimeScale,
	})
}

func (p *pid1) quirk() wire.Quirks {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quirks
}

// own records whose a file is that pid 1 wrote for somebody.
func (p *pid1) own(path string, uid int) error {
	inode, err := wire.InodeOf(path)
	if err != nil {
		return err
	}
	owner := wire.Owner{UID: wire.RootUID, GID: wire.WheelGID}
	if uid != wire.RootUID {
		owner = wire.Owner{UID: uid, GID: wire.StaffGID}
	}
	return p.state.setOwner(inode, owner)
}

func (p *pid1) lookAtConsole() loginwindow.Mac {
	facts, quirk := p.world().Facts, p.quirk()
	return loginwindow.Mac{
		AutoLoginUser: p.prefs.String(loginwindowPlist, "autoLoginUser"), Kcpassword: p.kcpassword(),
		Username: p.cfg.Username, Password: p.cfg.Password, FileVault: facts.FileVault,
		Never: quirk.NoSession || facts.NoConsole, IgnoredAtBoot: quirk.NeedsKick, Delay: quirk.SessionDelay,
	}
}

// kcpassword is the file's content if it is root's alone.
func (p *pid1) kcpassword() []byte {
	info, err := os.Lstat(kcpassword)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil
	}
	inode, err := wire.InodeOf(kcpassword)
	if err != nil || p.state.owner(wire.OwnerCall{Inode: inode, Path: kcpassword}).UID != wire.RootUID {
		return nil
	}
	data, err := os.ReadFile(kcpassword)
	if err != nil {
		return nil
	}
	return data
}

// sealKcpassword overwrites the file, which stays the file it was.
func sealKcpassword() error {
	if err := os.WriteFile(kcpassword, loginwindow.Sealed(), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sealing kcpassword: %w", err)
	}
	return nil
}

// endGuests kills every virtual machine: what runs one needs the session.
func endGuests() {
	for pid, args := range processes() {
		if len(args) > 1 && filepath.Base(args[0]) == "tart" && args[1] == "run" {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// processes are the arguments of all processes of the Mac by pid.
func processes() map[int][]string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	all := map[int][]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && len(line) > 0 {
			all[pid] = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		}
	}
	return all
}

// kickLoginwindow is kickstart of loginwindow. As of macOS 14.4 launchd restarts no
// critical process of the system.
func (p *pid1) kickLoginwindow(restart bool) int {
	if restart && !olderThan(p.world().Facts.OSVersion, 14, 4) {
		return notPermittedRC
	}
	p.console.Kick(restart)
	return 0
}

// notPermittedRC is launchctl's exit code for what launchd does not permit.
const notPermittedRC = 1

func olderThan(version string, major, minor int) bool {
	var hasMajor, hasMinor int
	_, _ = fmt.Sscanf(version, "%d.%d", &hasMajor, &hasMinor)
	return hasMajor < major || hasMajor == major && hasMinor < minor
}

// killall ends loginwindow, the one process here that has no program.
func (p *pid1) killall(uid int) wire.Answer {
	if uid != wire.RootUID || !p.console.Kill() {
		return wire.Answer{RC: 1}
	}
	return wire.Answer{}
}

// builtIn are the jobs of macOS' own that somebody may kick.
func (p *pid1) builtIn() map[string]launchd.BuiltIn {
	return map[string]launchd.BuiltIn{
		"com.apple.loginwindow": {
			Path: "/System/Library/LaunchDaemons/com.apple.loginwindow.plist",
			Kick: p.kickLoginwindow, Running: p.console.Running,
		},
		// Each connection has a server of its own and so nothing to restart: launchd
		// itself has the port, and opens it anew with the job.
		"com.openssh.sshd": {
			Path: "/System/Library/LaunchDaemons/ssh.plist",
			Kick: func(bool) int { return 0 }, Loaded: p.door.load,
		},
	}
}
