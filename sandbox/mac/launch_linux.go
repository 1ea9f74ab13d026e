package mac

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// launch starts pid 1 in namespaces of its own. It dies with this process, by
// the parent-death signal and by the end of the socket.
func (r *running) launch(binary string) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	cmd := exec.Command(binary, "init")
	cmd.Env = []string{"GOMAXPROCS=2", "GOGC=50"} // hundreds of these share a machine
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = namespaces()
	started := make(chan error)
	go r.hold(cmd, started)
	err = <-started
	_ = theirs.Close()
	if err != nil {
		_ = ours.Close()
		return refused(err)
	}
	r.control = ours
	r.kill = func() { _ = cmd.Process.Kill() }
	return nil
}

// hold starts and reaps pid 1 from one thread: the parent-death signal fires
// when the thread that started a child ends, not only its process.
func (r *running) hold(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = cmd.Wait() // its exit code says nothing the socket has not said
	close(r.exited)
}

func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making the control socket: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	f := os.NewFile(uintptr(fds[0]), "control")
	defer f.Close()
	ours, err := net.FileConn(f)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("making the control socket: %w", err)
	}
	return ours, theirs, nil
}

// Supported reports whether simulated Macs can run here: nil, or a
// *RefusedError with what to do about it, or the lack of a shell.
func Supported() error {
	shell, err := findShell()
	if err != nil {
		return err
	}
	// AppArmor's restriction lets the namespace be made and then takes its
	// rights away, so it has to be read rather than tried.
	if os.Getuid() != 0 && kernelSwitch("kernel/apparmor_restrict_unprivileged_userns") == "1" {
		return &RefusedError{Err: syscall.EPERM, Remedy: remedy()}
	}
	cmd := exec.Command(shell.Path, "-c", ":")
	cmd.SysProcAttr = namespaces()
	if err := cmd.Run(); err != nil {
		return refused(err)
	}
	return nil
}

func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Setsid:      true, // a Ctrl-C meant for the sandbox is not for its Macs
		Pdeathsig:   syscall.SIGKILL,
	}
}

// refused recognises the ways a kernel says no to namespaces.
func refused(err error) error {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.EACCES, syscall.ENOSPC, syscall.EUSERS, syscall.EINVAL} {
		if errors.Is(err, errno) {
			return &RefusedError{Err: errno, Remedy: remedy()}
		}
	}
	return fmt.Errorf("starting pid 1: %w", err)
}

// remedy names the switch that is off on this machine.
func remedy() string {
	switch {
	case kernelSwitch("kernel/unprivileged_userns_clone") == "0":
		return "allow them with: sudo sysctl -w kernel.unprivileged_userns_clone=1"
	case kernelSwitch("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "allow them with: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case kernelSwitch("user/max_user_namespaces") == "0":
		return "allow them with: sudo sysctl -w user.max_user_namespaces=10000"
	}
	return "in a container, start it with a seccomp profile that allows unshare and mount (and an unmasked /proc)"
}

func kernelSwitch(name string) string {
	data, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
