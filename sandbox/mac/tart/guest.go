package tart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guest"
)

const (
	// guestCommand makes the binary a guest. It is nothing a user would type.
	guestCommand = "__guest"

	// guestBroken is the exit code of a guest that could not be set up; what it printed
	// says why. No guest that runs ends with it.
	guestBroken = 70

	// guestPanicked is that of one whose system crashed.
	guestPanicked = 1

	sharedFiles = "Volumes/My Shared Files" // where macOS mounts shared directories
)

// guestProcess is a guest as `run` sees it.
type guestProcess struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // to be read when it has ended
	power  io.WriteCloser
	ended  chan error // gets one value: nil after a shutdown, the cause after a crash
}

// startGuest starts a process of this executable as a guest. Closing its stdin cuts its
// power, and the kernel does that too when run is killed.
func startGuest(program string, spec guestSpec) (*guestProcess, error) {
	if err := spec.prepareRoot(); err != nil {
		return nil, err
	}
	self, err := executable(program)
	if err != nil {
		return nil, err
	}
	spec.Program, spec.OwnNetwork = self, true
	g, err := begin(self, program, spec)
	if err != nil && refusedByKernel(err) {
		// Namespaces for networks may be fewer than others, or none. Guests then share
		// the network of this machine, as far as it has one.
		spec.OwnNetwork = false
		g, err = begin(self, program, spec)
	}
	if err != nil {
		return nil, unstartable(err)
	}
	line, err := json.Marshal(spec)
	if err != nil {
		g.cutPower()
		return nil, fmt.Errorf("describing the guest: %w", err)
	}
	// Its own number in its own namespace would be of no use to anybody.
	werr := os.WriteFile(filepath.Join(spec.Root, "pid"), []byte(strconv.Itoa(g.cmd.Process.Pid)+"\n"), 0o644)
	if werr == nil {
		_, werr = g.power.Write(append(line, '\n'))
	}
	go func() { g.ended <- g.cmd.Wait() }()
	if werr != nil {
		g.cutPower()
		return nil, fmt.Errorf("starting the guest: %w", werr)
	}
	return g, nil
}

// begin starts the process of a guest, which waits to be told what it is.
func begin(self, program string, spec guestSpec) (*guestProcess, error) {
	g := &guestProcess{cmd: exec.Command(self), ended: make(chan error, 1)}
	g.cmd.Args = []string{program, guestCommand, spec.Name}
	g.cmd.Dir = spec.Root
	g.cmd.Stderr = &g.stderr
	g.cmd.Env = runtimeEnv()
	// Like the process of the virtualization framework, a guest is not reached by
	// signals to the process group of run.
	g.cmd.SysProcAttr = guest.Attributes(spec.OwnNetwork)
	power, err := g.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting the guest: %w", err)
	}
	g.power = power
	return g, g.cmd.Start()
}

// runtimeEnv is what the Go runtime reads. Anything else would show in the guest.
func runtimeEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return !strings.HasPrefix(kv, "GO") })
}

// unstartable names what a kernel refuses.
func unstartable(err error) error {
	if refusedByKernel(err) {
		return fmt.Errorf("starting the guest: %w: this kernel refuses new user, mount or pid namespaces; "+
			"allow them (user.max_user_namespaces, AppArmor's restriction, or the container's security options)", err)
	}
	return fmt.Errorf("starting the guest: %w", err)
}

// refusedByKernel tells the ways a kernel says no to namespaces.
func refusedByKernel(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{syscall.EPERM, syscall.EACCES, syscall.ENOSPC, syscall.EUSERS, syscall.EINVAL},
		func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}

// executable finds this binary where /proc has been taken away.
func executable(program string) (string, error) {
	if self, err := os.Executable(); err == nil {
		return self, nil
	}
	self, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("finding this executable: %w", err)
	}
	return filepath.Abs(self)
}

func (g *guestProcess) askToStop() { _ = g.cmd.Process.Signal(syscall.SIGTERM) }

// cutPower ends the guest and, as it is pid 1 of its namespace, all that runs in it.
func (g *guestProcess) cutPower() {
	_ = g.cmd.Process.Kill()
	_ = g.power.Close()
}

// broken is the reason of a guest that could not be set up.
func (g *guestProcess) broken(how error) error {
	var exit *exec.ExitError
	if errors.As(how, &exit) && exit.ExitCode() == guestBroken {
		return errors.New(strings.TrimSpace(g.stderr.String()))
	}
	return nil
}

// prepareRoot keeps what an earlier run of the guest wrote, but for its traces of life.
func (s guestSpec) prepareRoot() error {
	for _, name := range []string{"shutdown", "pid", "disk/private/tmp", "disk/private/var/run", "disk/" + sharedFiles} {
		if err := os.RemoveAll(filepath.Join(s.Root, name)); err != nil {
			return fmt.Errorf("preparing the guest: %w", err)
		}
	}
	for _, name := range []string{
		"root", "disk/Users/admin", "disk/Volumes", "disk/opt/homebrew/bin",
		"disk/private/etc", "disk/private/tmp", "disk/private/var/log", "disk/private/var/root", "disk/private/var/run", "disk/private/var/tmp",
	} {
		if err := os.MkdirAll(filepath.Join(s.Root, name), 0o755); err != nil {
			return fmt.Errorf("preparing the guest: %w", err)
		}
	}
	for name, text := range map[string]string{
		"state":                    "booting\n",
		"disk/private/etc/passwd":  "root:*:0:0:System Administrator:/var/root:/bin/sh\nadmin:*:0:0:admin:/Users/admin:/bin/sh\n",
		"disk/private/etc/group":   "wheel:*:0:root\nstaff:*:20:admin\n",
		"disk/private/etc/hosts":   "127.0.0.1 localhost\n",
		"disk/private/etc/profile": "",
	} {
		if err := os.WriteFile(filepath.Join(s.Root, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("preparing the guest: %w", err)
		}
	}
	return nil
}
