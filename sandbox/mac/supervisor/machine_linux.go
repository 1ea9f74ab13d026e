package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/launchd"
	"github.com/macfleet/macfleet/sandbox/mac/process"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// errOwnership is what launchd calls a property list it must not trust.
var errOwnership = errors.New("path had bad ownership or permissions")

// machine is pid 1 as launchd sees it.
type machine pid1

var _ launchd.System = (*machine)(nil)

// Spawn starts a job's process with its log files opened once, to append.
func (m *machine) Spawn(s launchd.Spawn, exited func(launchd.Status)) (int, error) {
	p := (*pid1)(m)
	uid, err := p.uid(s.UserName)
	if err != nil {
		return 0, err
	}
	files, err := p.jobFiles(s, uid)
	defer closeFiles(files[:])
	if err != nil {
		return 0, err
	}
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	proc, err := p.table.Start(process.Spec{
		Path: s.Path, Argv: s.Argv, Env: p.jobEnv(s, uid), Dir: dir, UID: uid, Files: files,
	})
	if err != nil {
		p.notExecuted(s.Argv, uid, err)
		return 0, err
	}
	go func() {
		status := proc.Wait()
		end := launchd.Status{Code: status.ExitStatus()}
		if status.Signaled() {
			end = launchd.Status{Signal: status.Signal(), Reason: proc.Killed}
		}
		exited(end)
	}()
	return proc.PID, nil
}

func (p *pid1) uid(name string) (int, error) {
	switch name {
	case "", "root":
		return wire.RootUID, nil
	case p.cfg.Username:
		return wire.UserUID, nil
	}
	return 0, fmt.Errorf("no user %q", name)
}

// jobEnv adds what launchd sets for a job that runs as a user.
func (p *pid1) jobEnv(s launchd.Spawn, uid int) []string {
	if uid == wire.UserUID {
		for k, v := range p.accountEnv() {
			if _, ok := s.Env[k]; !ok {
				s.Env[k] = v
			}
		}
	}
	env := make([]string, 0, len(s.Env))
	for k, v := range s.Env {
		env = append(env, k+"="+v)
	}
	return env
}

func (p *pid1) accountEnv() map[string]string {
	return map[string]string{
		"HOME": "/Users/" + p.cfg.Username, "USER": p.cfg.Username, "LOGNAME": p.cfg.Username, "SHELL": "/bin/sh",
	}
}

func (p *pid1) jobFiles(s launchd.Spawn, uid int) ([3]*os.File, error) {
	var files [3]*os.File
	for i, path := range []string{s.Stdin, s.Stdout, s.Stderr} {
		flags := os.O_RDONLY
		if i > 0 {
			flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE
		}
		if path == "" {
			path = "/dev/null"
		}
		f, err := p.openOwned(path, flags, uid)
		if err != nil {
			return files, err
		}
		files[i] = f
	}
	return files, nil
}

// openOwned opens a file and, when that made it, records whose it is.
func (p *pid1) openOwned(path string, flags, uid int) (*os.File, error) {
	_, err := os.Lstat(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a job's file: %w", err)
	}
	if fresh && uid == wire.UserUID {
		if inode, err := wire.InodeOf(path); err == nil {
			err = p.state.setOwner(inode, wire.Owner{UID: uid, GID: wire.StaffGID})
			if err != nil {
				p.log(err.Error())
			}
		}
	}
	return f, nil
}

// Signal implements launchd.System.
func (m *machine) Signal(pid int, sig syscall.Signal) { _ = unix.Kill(pid, sig) }

// SignalGroup implements launchd.System.
func (m *machine) SignalGroup(pid int, sig syscall.Signal) { _ = unix.Kill(-pid, sig) }

// ReadPlist implements launchd.System: a property list must be a plain file of
// root's that nobody else can write.
func (m *machine) ReadPlist(path string) ([]byte, error) {
	p := (*pid1)(m)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("finding it: %w", err)
	}
	info, err := os.Lstat(real)
	if err != nil {
		return nil, fmt.Errorf("reading its mode: %w", err)
	}
	inode, err := wire.InodeOf(real)
	if err != nil {
		return nil, err
	}
	owner := p.state.owner(wire.OwnerCall{Inode: inode, Path: real})
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || owner.UID != wire.RootUID {
		return nil, errOwnership
	}
	return os.ReadFile(real)
}

// SaveOverrides implements launchd.System.
func (m *machine) SaveOverrides(o map[string]bool) {
	p := (*pid1)(m)
	if err := p.state.setOverrides(o); err != nil {
		p.log(err.Error())
	}
}

// Log implements launchd.System.
func (m *machine) Log(text string) { (*pid1)(m).log(text) }

// Unmodelled implements launchd.System.
func (m *machine) Unmodelled(what string) {
	(*pid1)(m).record(wire.Execution{Argv: []string{"launchd"}, Unmodelled: what})
}
