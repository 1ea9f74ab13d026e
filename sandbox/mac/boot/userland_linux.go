package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// mountUserland lends the programs of this machine to the guests of the Mac, where
// nobody else on it looks: a simulated guest is a Linux system. Links stay links, as
// most systems have /bin as one.
func mountUserland(c wire.Config) error {
	dir := filepath.Join(c.Root, wire.UserlandDir)
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
		return fmt.Errorf("making %s: %w", wire.UserlandDir, err)
	}
	for _, name := range []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc/alternatives"} {
		if err := lend("/"+name, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	extra := filepath.Join(dir, wire.GuestPrograms)
	if err := os.MkdirAll(extra, 0o755); err != nil {
		return fmt.Errorf("making room for programs of guests: %w", err)
	}
	for _, program := range c.GuestPrograms {
		if err := lendFile(program, filepath.Join(extra, filepath.Base(program))); err != nil {
			return err
		}
	}
	return nil
}

// lendFile shows one program.
func lendFile(from, to string) error {
	if err := os.WriteFile(to, nil, 0o755); err != nil {
		return fmt.Errorf("making room for %s: %w", from, err)
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s: %w", from, err)
	}
	return nil
}

func lend(from, to string) error {
	target, err := os.Readlink(from)
	if err == nil {
		return os.Symlink(target, to)
	}
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return fmt.Errorf("making room for %s: %w", from, err)
	}
	// With all that is mounted below it, which cannot be left out by those who did not
	// mount it.
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("binding %s: %w", from, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("making %s read-only: %w", from, err)
	}
	return nil
}
