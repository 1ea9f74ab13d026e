package tart

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// cloned is a Mac with VMs cloned from the test image.
func cloned(t *testing.T, plan *Plan, names ...string) *fakeMac {
	t.Helper()
	m := newMac(t, plan)
	for _, name := range names {
		m.must("clone", testImage, name)
	}
	return m
}

func TestRunHoldsTheLockUntilItEnds(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	run := m.boot("vm")
	if got := m.lockHolder("vm"); got != run.cmd.Process.Pid {
		t.Errorf("lock holder %d, want the process of run %d", got, run.cmd.Process.Pid)
	}
	// Nothing another command does with the VM may drop the lock.
	m.must("set", "vm", "--cpu", "3")
	m.must("list")
	m.must("get", "vm")
	if got := m.lockHolder("vm"); got != run.cmd.Process.Pid {
		t.Errorf("lock holder %d after other commands, want %d", got, run.cmd.Process.Pid)
	}
	second := m.do("run", "vm", "--no-graphics")
	if second.code != 2 || !strings.Contains(second.err, `VM "vm" is already running!`) {
		t.Errorf("second run: %+v", second)
	}
	m.must("stop", "vm")
	if got := m.lockHolder("vm"); got != 0 {
		t.Errorf("locked by %d after stop", got)
	}
}

func TestHowARunEnds(t *testing.T) {
	// A process that is started under nohup hands its deafness for SIGHUP on, unless it
	// listens itself.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(heard) })
	t.Parallel()
	tests := []struct {
		name   string
		end    func(m *fakeMac, run *process)
		exit   int
		signal syscall.Signal
		says   string
	}{
		{
			name: "stop is a power cut and a success",
			end:  func(m *fakeMac, _ *process) { m.must("stop", "vm") },
			says: "Stopping VM...",
		},
		{
			name: "interrupted",
			end:  func(_ *fakeMac, run *process) { run.signal(syscall.SIGINT) },
			says: "Stopping VM...",
		},
		{
			name: "terminated", exit: -1, signal: syscall.SIGTERM,
			end: func(_ *fakeMac, run *process) { run.signal(syscall.SIGTERM) },
		},
		{
			name: "hung up", exit: -1, signal: syscall.SIGHUP,
			end: func(_ *fakeMac, run *process) { run.signal(syscall.SIGHUP) },
		},
		{
			name: "killed", exit: -1, signal: syscall.SIGKILL,
			end: func(_ *fakeMac, run *process) { run.signal(syscall.SIGKILL) },
		},
		{
			name: "guest shuts down",
			end: func(m *fakeMac, _ *process) {
				if err := os.WriteFile(filepath.Join(m.vm("vm").guest(), "shutdown"), nil, 0o644); err != nil {
					m.t.Fatal(err)
				}
			},
			says: "guest has stopped the virtual machine\n",
		},
		{
			name: "guest process is asked to end",
			end:  func(m *fakeMac, _ *process) { m.kill(m.guestPID("vm"), syscall.SIGTERM) },
			says: "guest has stopped the virtual machine\n",
		},
		{
			name: "guest crash exits 0 too",
			end:  func(m *fakeMac, _ *process) { m.kill(m.guestPID("vm"), syscall.SIGKILL) },
			says: "guest has stopped the virtual machine due to error: ",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := cloned(t, nil, "vm")
			run := m.boot("vm")
			guest := m.guestPID("vm")
			tt.end(m, run)
			if got := run.wait(); got != tt.exit {
				t.Errorf("exit %d, want %d: %s", got, tt.exit, run.out.String())
			}
			status, ok := run.cmd.ProcessState.Sys().(syscall.WaitStatus)
			if tt.exit < 0 && (!ok || status.Signal() != tt.signal) {
				t.Errorf("ended by %v, want %v", status.Signal(), tt.signal)
			}
			if !strings.Contains(run.out.String(), tt.says) {
				t.Errorf("said %q, want %q", run.out.String(), tt.says)
			}
			await(t, "the guest is gone", func() bool { return gone(guest) })
			if state := m.vm("vm").state(); state != "stopped" {
				t.Errorf("state %s", state)
			}
		})
	}
}

func (m *fakeMac) kill(pid int, s syscall.Signal) {
	m.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		m.t.Fatal(err)
	}
}

func TestMacOSGuestIgnoresARequestToStop(t *testing.T) {
	t.Parallel()
	m := newMac(t, nil)
	m.must("clone", testImage, "mac")
	m.must("clone", "registry.test/ubuntu:v1", "ubuntu")
	mac, ubuntu := m.boot("mac"), m.boot("ubuntu")
	mac.signal(syscall.SIGUSR2)
	ubuntu.signal(syscall.SIGUSR2)
	if code := ubuntu.wait(); code != 0 {
		t.Errorf("the Linux guest ended with %d", code)
	}
	if mac.ended() || m.lockHolder("mac") != mac.cmd.Process.Pid {
		t.Errorf("the macOS guest stopped: %s", mac.out.String())
	}
}

func TestStopKillsARunThatDoesNotListen(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Faults: []Fault{{Kind: RunIgnoresStop}}}, "vm")
	run := m.boot("vm")
	m.must("stop", "vm", "--timeout", "1")
	if code := run.wait(); code != -1 {
		t.Errorf("exit %d, want death by SIGKILL", code)
	}
}

func TestThirdMacOSGuestIsRefused(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "a", "b", "c")
	m.must("clone", "registry.test/ubuntu:v1", "ubuntu")
	m.boot("a")
	b := m.boot("b")
	m.boot("ubuntu") // not counted
	refused := m.do("run", "c")
	want := "The number of VMs exceeds the system limit (other running VMs: a, b, ubuntu)\n"
	if refused.code != 1 || refused.err != want {
		t.Errorf("third guest: %+v, want %q", refused, want)
	}
	m.arm(Plan{Version: "2.30.0"})
	if old := m.do("run", "c"); old.code != 1 || !strings.Contains(old.err, "maximum supported number of active virtual machines") {
		t.Errorf("in the words of an older version: %+v", old)
	}
	b.signal(syscall.SIGKILL)
	b.wait()
	m.boot("c")
}

func TestLeakedSlotsNeedAReboot(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Faults: []Fault{{Kind: SlotLeak, Times: 2}}}, "vm")
	for range 2 {
		run := m.boot("vm")
		m.kill(m.guestPID("vm"), syscall.SIGTERM)
		run.wait()
	}
	refused := m.do("run", "vm")
	if refused.code != 1 || refused.err != "The number of VMs exceeds the system limit\n" {
		t.Errorf("with both slots leaked: %+v", refused)
	}
	if err := os.RemoveAll(m.path("state")); err != nil { // what a reboot does to /var/run
		t.Fatal(err)
	}
	m.boot("vm")
}

func TestRunReplacesAMACThatIsInUse(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "a", "b")
	cfg, err := m.vm("b").readConfig()
	if err != nil {
		t.Fatal(err)
	}
	cfg.MACAddress = m.vm("a").mac()
	if err := m.vm("b").writeConfig(cfg); err != nil {
		t.Fatal(err)
	}
	m.boot("a")
	b := m.boot("b")
	if m.vm("b").mac() == m.vm("a").mac() {
		t.Error("both guests have one address")
	}
	if !strings.Contains(b.out.String(), "same MAC address") {
		t.Errorf("no notice: %q", b.out.String())
	}
}

func TestRunUsesUpASavedState(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	if err := os.WriteFile(m.vm("vm").saved(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := m.must("get", "vm"); !strings.Contains(out, "suspended") {
		t.Errorf("a saved state is not shown: %s", out)
	}
	run := m.boot("vm")
	if exists(m.vm("vm").saved()) {
		t.Error("the saved state is still there")
	}
	if !strings.Contains(run.out.String(), "restoring VM state from a snapshot...") {
		t.Errorf("said %q", run.out.String())
	}
}
