package tart

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// guestCommand makes the binary a guest. It is nothing a user would type.
	guestCommand = "__guest"

	// shutdownPoll is how often a guest looks for the file that shuts it down.
	shutdownPoll = 20 * time.Millisecond

	sharedFiles = "Volumes/My Shared Files" // where macOS mounts shared directories
)

// guestSpec is all a guest knows of itself. It arrives as one line on stdin, which
// then stays open for as long as the machine has power.
type guestSpec struct {
	Name      string        `json:"name"`
	Root      string        `json:"root"`
	Hardware  string        `json:"hardware"` // as DHCP knows it
	Shares    []share       `json:"shares"`
	BootDelay time.Duration `json:"bootDelay"`
	NoLease   bool          `json:"noLease"`
	Crash     bool          `json:"crash"`
	DHCP      dhcp          `json:"dhcp"`
}

// guestProcess is a guest as `run` sees it.
type guestProcess struct {
	cmd   *exec.Cmd
	power io.Closer
	ended chan error // gets one value: nil after a shutdown, the cause after a crash
}

// startGuest starts a process of this executable as a guest. Closing its stdin cuts its
// power, and the kernel does that too when run is killed.
func startGuest(program string, spec guestSpec) (*guestProcess, error) {
	if err := prepareRoot(spec); err != nil {
		return nil, err
	}
	self, err := executable(program)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("describing the guest: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Args = []string{program, guestCommand, spec.Name}
	cmd.Dir = spec.Root
	// Like the process of the virtualization framework, a guest is not reached by
	// signals to the process group of run.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	power, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting the guest: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the guest: %w", err)
	}
	g := &guestProcess{cmd: cmd, power: power, ended: make(chan error, 1)}
	_, werr := power.Write(append(line, '\n'))
	go func() { g.ended <- cmd.Wait() }()
	if werr != nil {
		g.cutPower()
		return nil, fmt.Errorf("starting the guest: %w", werr)
	}
	return g, nil
}

// executable finds this binary where there is no /proc: a simulated Mac has none.
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

func (g *guestProcess) cutPower() {
	_ = g.cmd.Process.Kill()
	_ = g.power.Close()
}

// prepareRoot keeps what an earlier run of the guest wrote, but for its traces of life.
func prepareRoot(spec guestSpec) error {
	for _, name := range []string{"shutdown", "pid", sharedFiles} {
		if err := os.RemoveAll(filepath.Join(spec.Root, name)); err != nil {
			return fmt.Errorf("preparing the guest: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(spec.Root, filepath.Dir(sharedFiles)), 0o755); err != nil {
		return fmt.Errorf("preparing the guest: %w", err)
	}
	for _, s := range spec.Shares {
		link := filepath.Join(spec.Root, sharedFiles, s.Name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return fmt.Errorf("sharing a directory: %w", err)
		}
		if err := os.Symlink(s.Path, link); err != nil {
			return fmt.Errorf("sharing a directory: %w", err)
		}
	}
	return os.WriteFile(filepath.Join(spec.Root, "state"), []byte("booting\n"), 0o644)
}

// guestMain is the life of a guest. It uses paths relative to its root, which stays
// its own when a clone takes the name away from it.
func guestMain(power io.Reader) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	shutdown := make(chan os.Signal, 1)
	signal.Notify(shutdown, syscall.SIGTERM)
	in := bufio.NewReader(power)
	spec, err := readSpec(in)
	if err != nil {
		return exitFailure
	}
	cut := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		cut <- err
	}()
	if err := os.WriteFile("pid", []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return exitFailure
	}
	booted := time.NewTimer(spec.BootDelay)
	defer booted.Stop()
	look := time.NewTicker(shutdownPoll)
	defer look.Stop()
	for {
		select {
		case <-cut: //nolint:errcheck // any end of the pipe is the power cut
			return exitFailure
		case <-shutdown:
			return 0
		case <-look.C:
			if os.Remove("shutdown") == nil {
				return 0
			}
		case <-booted.C:
			if err := spec.comeUp(); err != nil {
				return exitFailure
			}
		}
	}
}

func readSpec(in *bufio.Reader) (guestSpec, error) {
	var spec guestSpec
	line, err := in.ReadBytes('\n')
	if err != nil {
		return spec, err
	}
	return spec, json.Unmarshal(line, &spec)
}

// comeUp is the end of the boot: a lease, then a running system.
func (s guestSpec) comeUp() error {
	if s.Crash {
		return errors.New("the guest panics")
	}
	if !s.NoLease {
		// A guest without an address runs all the same.
		if _, err := s.DHCP.grant(s.Hardware, time.Now()); err != nil {
			return err
		}
	}
	return os.WriteFile("state", []byte("running\n"), 0o644)
}
