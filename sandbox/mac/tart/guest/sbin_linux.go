package guest

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// inSbin are programs that macOS has in /sbin, where the PATH of the guest agent does not
// lead. Linux has them in other places, or links /sbin to one of these.
func inSbin() []string {
	return []string{"dmesg", "fsck", "halt", "ifconfig", "md5", "mknod", "mount", "ping", "ping6", "reboot", "route", "shutdown", "umount"}
}

// hideInSbin makes the host's other places seem not to have these programs, in a tree to
// lay over them.
func (s System) hideInSbin(tree string) error {
	for _, dir := range []string{"usr/bin", "usr/sbin", "bin"} {
		if isLink(filepath.Join(s.Userland, dir)) {
			continue
		}
		for _, name := range inSbin() {
			if !exists(filepath.Join(s.Userland, dir, name)) {
				continue
			}
			if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
				return err
			}
			// What an overlay takes for a file that was removed.
			if err := unix.Mknod(filepath.Join(tree, dir, name), unix.S_IFCHR, 0); err != nil {
				return refused("hiding /"+filepath.Join(dir, name), err)
			}
		}
	}
	return nil
}

// mountSbin makes a /sbin as macOS has it, of the host's programs and of ours.
func (s System) mountSbin() error {
	if err := os.Mkdir("sbin", 0o755); err != nil {
		return err
	}
	for _, name := range inSbin() {
		at := filepath.Join("sbin", name)
		if own := filepath.Join(tools, at); exists(own) {
			data, err := os.ReadFile(own)
			if err == nil {
				err = os.WriteFile(at, data, 0o755)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := s.bindProgram(name, at); err != nil {
			return err
		}
	}
	return nil
}

// bindProgram shows one of the host's programs, if it has that.
func (s System) bindProgram(name, at string) error {
	for _, dir := range []string{"sbin", "usr/sbin", "bin", "usr/bin"} {
		from, err := filepath.EvalSymlinks(filepath.Join(s.Userland, dir, name))
		if err != nil {
			continue
		}
		if err := os.WriteFile(at, nil, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
			return refused("binding "+from, err)
		}
		return nil
	}
	return nil
}

func isLink(path string) bool {
	for dir := path; ; dir = filepath.Dir(dir) {
		st, err := os.Lstat(dir)
		if err == nil && st.Mode()&os.ModeSymlink != 0 {
			return true
		}
		if dir == filepath.Dir(dir) || !strings.Contains(dir, "/") {
			return false
		}
	}
}
