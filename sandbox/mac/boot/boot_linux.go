// Package boot turns the first process of a fresh set of namespaces into one
// that lives in a Mac's tree: it mounts what has to be there, makes the tree
// root, and lets go of everything outside. What then runs in the tree is left
// to package supervisor.
package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// devices are the only device files a Mac has; each is the real one.
func devices() []string { return []string{"null", "zero", "random", "urandom", "tty"} }

// Enter makes c.Root the root of the calling process, which must be alone in a
// new user, mount and pid namespace.
func Enter(c wire.Config) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount(c.Root, c.Root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding the tree: %w", err)
	}
	for _, step := range []func(wire.Config) error{mountHidden, mountUserland, mountShell, mountDevices, mountProc} {
		if err := step(c); err != nil {
			return err
		}
	}
	return pivot(c.Root)
}

// mountHidden brings in the programs and the twins, read-only, beside a place
// for the shims' socket.
func mountHidden(c wire.Config) error {
	dir := filepath.Join(c.Root, wire.HiddenDir)
	if err := mountTmpfs(dir, "mode=0755,size=1m"); err != nil {
		return err
	}
	for _, program := range []string{wire.Binary, wire.Shim} {
		if err := bindFile(filepath.Join(c.Programs, program), filepath.Join(dir, program)); err != nil {
			return err
		}
	}
	twins := filepath.Join(c.Root, wire.TwinDir)
	if err := os.Mkdir(twins, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", wire.TwinDir, err)
	}
	return bind(c.TwinDir, twins)
}

func mountShell(c wire.Config) error {
	for _, f := range c.Shell.Files {
		if err := bindFile(f, filepath.Join(c.Root, f)); err != nil {
			return err
		}
	}
	return bindFile(c.Shell.Path, filepath.Join(c.Root, "bin/sh"))
}

func mountDevices(c wire.Config) error {
	dir := filepath.Join(c.Root, "dev")
	if err := mountTmpfs(dir, "mode=0755,size=64k"); err != nil {
		return err
	}
	for _, name := range devices() {
		target := filepath.Join(dir, name)
		if err := touch(target); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("binding /dev/%s: %w", name, err)
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("linking /dev/%s: %w", name, err)
		}
	}
	pts := filepath.Join(dir, "pts")
	if err := os.Mkdir(pts, 0o755); err != nil {
		return fmt.Errorf("making /dev/pts: %w", err)
	}
	if err := unix.Mount("devpts", pts, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("mounting /dev/pts: %w", err)
	}
	return touch(filepath.Join(dir, "console"))
}

// mountProc mounts what no Mac has and a Linux program cannot do without: a
// twin finds itself, and identities are mapped, through /proc.
func mountProc(c wire.Config) error {
	dir := filepath.Join(c.Root, "proc")
	if err := unix.Mount("proc", dir, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return nil
}

func mountTmpfs(dir, options string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID, options); err != nil {
		return fmt.Errorf("mounting %s: %w", filepath.Base(dir), err)
	}
	return nil
}

func bindFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("making room for %s: %w", from, err)
	}
	if err := touch(to); err != nil {
		return err
	}
	return bind(from, to)
}

func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return fmt.Errorf("making a mount point: %w", err)
	}
	return f.Close()
}

// bind mounts from on to, read-only. The kernel demands that flags the source
// mount has are kept when a less privileged namespace remounts it.
func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s: %w", from, err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(to, &st); err != nil {
		return fmt.Errorf("reading the mount of %s: %w", from, err)
	}
	flags := unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | keptFlags(st.Flags)
	if err := unix.Mount("", to, "", flags, ""); err != nil {
		return fmt.Errorf("making %s read-only: %w", from, err)
	}
	return nil
}

func keptFlags(statfs int64) uintptr {
	var flags uintptr
	for st, ms := range map[int64]uintptr{
		unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV, unix.ST_NOEXEC: unix.MS_NOEXEC,
		unix.ST_NOATIME: unix.MS_NOATIME, unix.ST_NODIRATIME: unix.MS_NODIRATIME, unix.ST_RELATIME: unix.MS_RELATIME,
	} {
		if statfs&st != 0 {
			flags |= ms
		}
	}
	return flags
}

// pivot stacks the old root under the new one and detaches it, after which
// nothing outside the tree has a name any more.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("entering the tree: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("making the tree root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("entering the new root: %w", err)
	}
	if os.Getpid() != 1 {
		return errors.New("not the first process of a pid namespace")
	}
	return nil
}
