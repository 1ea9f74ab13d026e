package tart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be tart: the tests run it under that name, as the
// multi-call binary of a simulated Mac is run.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == "tart" || name == "nc" {
		os.Exit(Main(os.Args, Env{}))
	}
	os.Exit(m.Run())
}

const (
	deadline  = 2 * time.Minute
	testImage = "registry.test/macos/base:v1"
)

// fakeMac is one Mac's files, and tart on it.
type fakeMac struct {
	t    *testing.T
	dir  string
	tart string
	env  []string
}

// newMac gives a test a Mac of its own with the given plan, nil for none.
func newMac(t *testing.T, plan *Plan) *fakeMac {
	t.Helper()
	m := &fakeMac{t: t, dir: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m.tart = filepath.Join(m.dir, "tart")
	if err := os.Symlink(self, m.tart); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(m.path("cover"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.env = []string{
		"HOME=" + m.dir,
		"PATH=" + os.Getenv("PATH"),
		"CI=true", // as somebody has it who reads the progress of pulls
		"TART_HOME=" + m.path("home"),
		"TART_FAKE_FAULTS=" + m.path("plan.json"),
		"TART_FAKE_STATE=" + m.path("state"),
		"TART_FAKE_LEASES=" + m.path("leases"),
		"GOCOVERDIR=" + m.path("cover"), // else every process of a coverage build complains
		"GORACE=atexit_sleep_ms=0",      // else every process of a race build lingers for a second
	}
	if plan != nil {
		m.arm(*plan)
	}
	return m
}

func (m *fakeMac) path(parts ...string) string {
	return filepath.Join(append([]string{m.dir}, parts...)...)
}

func (m *fakeMac) vm(name string) vmDir { return vmDir(m.path("home", "vms", name)) }

func (m *fakeMac) arm(p Plan) {
	m.t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.path("plan.json"), data, 0o644); err != nil {
		m.t.Fatal(err)
	}
}

type result struct {
	code     int
	out, err string
}

func (m *fakeMac) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, m.tart, args...)
	cmd.Env = m.env
	return cmd
}

// do runs a command to its end.
func (m *fakeMac) do(args ...string) result {
	m.t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(m.t.Context(), deadline)
	defer cancel()
	cmd := m.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatalf("tart %v: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// must is do for commands that are not what the test is about.
func (m *fakeMac) must(args ...string) string {
	m.t.Helper()
	r := m.do(args...)
	if r.code != 0 {
		m.t.Fatalf("tart %v: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

// process is a command that is still running.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  lockedBuffer
	done chan struct{}
}

func (m *fakeMac) start(args ...string) *process {
	m.t.Helper()
	p := &process{t: m.t, cmd: m.command(m.t.Context(), args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state tells what the test wants to know
		close(p.done)
	}()
	m.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if len(args) > 1 && args[0] == "run" && exists(filepath.Join(m.vm(args[1]).guest(), "pid")) {
			guest := m.guestPID(args[1])
			await(m.t, "the guest is gone", func() bool { return gone(guest) }) // else it may write where files are being removed
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code, -1 after a signal.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(deadline):
		p.t.Fatalf("still running: %v\n%s", p.cmd.Args, p.out.String())
		return 0
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// boot runs a VM and waits until its guest is up.
func (m *fakeMac) boot(name string, args ...string) *process {
	m.t.Helper()
	// What an earlier run left behind must not pass for this one.
	if err := os.RemoveAll(filepath.Join(m.vm(name).guest(), "state")); err != nil {
		m.t.Fatal(err)
	}
	p := m.start(append([]string{"run", name, "--no-graphics"}, args...)...)
	m.awaitGuest(p, name, "running")
	return p
}

func (m *fakeMac) awaitGuest(p *process, name, state string) {
	m.t.Helper()
	await(m.t, "guest "+name+" "+state, func() bool {
		if p.ended() {
			m.t.Fatalf("run ended early: %s", p.out.String())
		}
		data, _ := os.ReadFile(filepath.Join(m.vm(name).guest(), "state"))
		return string(data) == state+"\n" && m.lockHolder(name) == p.cmd.Process.Pid
	})
}

func (m *fakeMac) guestPID(name string) int {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.vm(name).guest(), "pid"))
	if err != nil {
		m.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		m.t.Fatal(err)
	}
	return pid
}

// lockHolder asks the kernel itself, not the code under test.
func (m *fakeMac) lockHolder(name string) int {
	m.t.Helper()
	f, err := os.OpenFile(m.path("home", "vms", name, "config.json"), os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	l := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &l); err != nil {
		m.t.Fatal(err)
	}
	if l.Type == unix.F_UNLCK {
		return 0
	}
	return int(l.Pid)
}

// await checks a condition until it holds or the deadline passes.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	late := time.After(deadline)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never happened: %s", what)
		}
	}
}

// gone reports whether a process has ended, reaped or not.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

// lockedBuffer is what a process prints while the test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
