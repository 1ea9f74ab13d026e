package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// Supported says whether this system has what guests are made of.
func Supported() bool { return true }

// Attributes put a process into the namespaces of a guest, where it is root and pid 1.
// With a network of its own nothing but its own processes reach it, and it nobody.
func Attributes(ownNetwork bool) *syscall.SysProcAttr {
	flags := uintptr(syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC)
	if ownNetwork {
		flags |= syscall.CLONE_NEWNET
	}
	return &syscall.SysProcAttr{
		Cloneflags:  flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Setsid:      true, // commands share it, and no terminal of the Mac's is theirs
	}
}

// Inside is a guest seen from its pid 1.
type Inside struct {
	table      *table
	ownNetwork bool
	grace      time.Duration               // of a shutdown
	server     atomic.Pointer[grpc.Server] // the agent, once it is up
}

// Enter makes the calling process, alone in its namespaces, pid 1 of the system.
func Enter(s System) (*Inside, error) {
	if os.Getpid() != 1 {
		return nil, fmt.Errorf("entering the guest: process %d is not the first of its namespace", os.Getpid())
	}
	if s.OwnNetwork {
		if err := raiseLoopback(); err != nil {
			return nil, fmt.Errorf("entering the guest: %w", err)
		}
	}
	if err := s.assemble(); err != nil {
		return nil, fmt.Errorf("entering the guest: %w", err)
	}
	// A signal that is ignored stays so in every command; one that is handled does not.
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGINT, syscall.SIGHUP)
	os.Clearenv()
	for name, value := range map[string]string{
		"HOME": home, "USER": "admin", "LOGNAME": "admin", "SHELL": "/bin/sh", "TMPDIR": "/tmp",
		// As the images' agents have it: without /sbin.
		"PATH": "/bin:/usr/bin:/usr/sbin:/usr/local/bin:/opt/homebrew/bin", "TERM": "xterm-256color",
	} {
		_ = os.Setenv(name, value) // names and values are well-formed
	}
	return &Inside{table: newTable(), ownNetwork: s.OwnNetwork, grace: s.ShutdownGrace}, nil
}

// ShutDown asks all processes to end and waits a moment for them. Who asked for it, and
// all who wait for a command's end, are answered first.
func (i *Inside) ShutDown() {
	if data, err := os.ReadFile(askedFile); err == nil {
		_ = os.Remove(askedFile) // the next shutdown may come from elsewhere
		if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			i.table.awaitEnd(pid, i.grace/2)
		}
	}
	i.table.drain(i.grace)
	server := i.server.Load()
	if server == nil {
		return
	}
	told := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(i.grace / 2):
	}
}

// writable are the places of the disk that the guest may change, as on a Mac whose
// system volume is sealed.
func writable() []string { return []string{"Users", "private", "opt", "Volumes"} }

// assemble mounts the guest's root and makes it the root of the process.
func (s System) assemble() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return refused("making mounts private", err)
	}
	if err := unix.Mount("tmpfs", s.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return refused("mounting the root", err)
	}
	if err := os.Chdir(s.Root); err != nil {
		return err
	}
	for _, step := range []func() error{s.mountUserland, s.mountDisk, s.mountShares, mountDevices, mountProc, seal, pivot} {
		if err := step(); err != nil {
			return err
		}
	}
	return os.Chdir(home)
}

// mountUserland shows the host's programs, with ours laid over them.
func (s System) mountUserland() error {
	if err := writeTools(tools); err != nil {
		return err
	}
	if err := s.hideInSbin(tools); err != nil {
		return err
	}
	programs, err := s.programs()
	if err != nil {
		return err
	}
	for at := range programs {
		if err := writePlaceholder(filepath.Join(tools, at)); err != nil {
			return err
		}
	}
	for _, name := range []string{"usr", "bin", "lib", "lib32", "lib64", "libx32"} {
		from := filepath.Join(s.Userland, name)
		st, err := os.Lstat(from)
		switch {
		case os.IsNotExist(err):
			continue
		case err != nil:
			return err
		case st.Mode()&os.ModeSymlink != 0:
			err = copyLink(from, name)
		case exists(filepath.Join(tools, name)):
			err = layOver(filepath.Join(tools, name), from, name)
		default:
			err = bind(from, name, true)
		}
		if err != nil {
			return err
		}
	}
	for at, from := range programs {
		if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
			return unbound(from, err)
		}
	}
	return s.mountSbin()
}

func copyLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(target, to)
}

// layOver shows two directories in one, read-only. Paths are relative to the root or
// free of what separates the options.
func layOver(upper, lower, at string) error {
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	options := "lowerdir=" + upper + ":" + lower
	if err := unix.Mount("overlay", at, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return refused("laying tools over /"+at, err)
	}
	return nil
}

// mountDisk brings in what the guest may write, and macOS' links into it.
func (s System) mountDisk() error {
	for _, name := range writable() {
		if err := bind(filepath.Join(s.Disk, name), name, false); err != nil {
			return err
		}
	}
	for _, name := range []string{"tmp", "var", "etc"} {
		if err := os.Symlink("private/"+name, name); err != nil {
			return err
		}
	}
	alternatives := filepath.Join(s.Userland, "etc/alternatives") // some of a host's programs are links into it
	if !exists(alternatives) {
		return nil
	}
	return bind(alternatives, "private/etc/alternatives", true)
}

func (s System) mountShares() error {
	for _, share := range s.Shares {
		if err := bind(share.Path, filepath.Join("Volumes", "My Shared Files", share.Name), share.ReadOnly); err != nil {
			return fmt.Errorf("sharing %s: %w", share.Path, err)
		}
	}
	return nil
}

// bind shows from at to with everything mounted below it, which the kernel demands of
// a namespace with fewer rights than the one that mounted it.
func bind(from, to string, readOnly bool) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return refused("binding "+from, err)
	}
	if !readOnly {
		return nil
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, &attr); err != nil {
		return refused("making "+from+" read-only", err)
	}
	return nil
}

// mountDevices makes a file system of its own: a Mac's takes links from root, so that the
// seal is not for it. Files it does not take on a Mac, which nothing here may rely on.
func mountDevices() error {
	if err := os.Mkdir("dev", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
		return refused("mounting /dev", err)
	}
	for _, name := range []string{"null", "zero", "random", "urandom", "tty"} {
		at := filepath.Join("dev", name)
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, at, "", unix.MS_BIND, ""); err != nil {
			return refused("binding /dev/"+name, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join("dev", name)); err != nil {
			return err
		}
	}
	if err := os.Mkdir("dev/pts", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("devpts", "dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return refused("mounting /dev/pts", err)
	}
	return nil
}

func mountProc() error {
	if err := os.Mkdir("proc", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return refused("mounting /proc", err)
	}
	return nil
}

// seal makes the root read-only, as the system volume of a Mac is.
func seal() error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, ".", 0, &attr); err != nil {
		return refused("sealing the root", err)
	}
	return nil
}

// pivot leaves nothing outside the guest with a name.
func pivot() error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return refused("making the root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return refused("letting go of the host", err)
	}
	return nil
}

// unbound tells of a program of ours that could not be shown.
func unbound(from string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("binding %s: %w (the sandbox's program was removed or replaced since the Mac booted: start the sandbox again)", from, err)
	}
	return refused("binding "+from, err)
}

// refused adds what to do about a kernel that does not let go on. What is missing was not
// refused, and its name says all.
func refused(step string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", step, err)
	}
	return fmt.Errorf("%s: %w (a guest needs user, mount and pid namespaces, an overlay file system and an unmasked /proc: "+
		"allow them, in a container by its security options)", step, err)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
