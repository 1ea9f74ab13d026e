package tart

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFaultsOfARunningGuest(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Faults: []Fault{
		{Kind: SoftnetDies, Name: "soft"}, {Kind: NetworkLost, Name: "cut"}, {Kind: RunKilled, Name: "dead", Step: "running"},
	}}, "soft", "cut", "dead")
	tests := []struct {
		vm   string
		exit int
		says string
	}{
		{"soft", 1, "Softnet process terminated prematurely"},
		{"cut", 0, "attachment"},
		{"dead", -1, ""},
	}
	for _, tt := range tests {
		got := m.do("run", tt.vm, "--no-graphics", "--net-softnet")
		if got.code != tt.exit || !strings.Contains(got.out+got.err, tt.says) {
			t.Errorf("%s: %+v", tt.vm, got)
		}
		if pid := m.guestPID(tt.vm); pid != 0 {
			await(t, "the guest is gone", func() bool { return gone(pid) })
		}
	}
}

func TestRunIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"begun", "home-lock", "vm-lock", "powered", "running"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			m := cloned(t, &Plan{Faults: []Fault{{Kind: RunKilled, Step: step, Times: 1}}}, "vm")
			if got := m.do("run", "vm"); got.code != -1 {
				t.Fatalf("%+v", got)
			}
			if state := m.vm("vm").state(); state != "stopped" {
				t.Errorf("the VM is %s", state)
			}
			m.boot("vm") // nothing that was held stays so
		})
	}
}

func TestAddressFaults(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Faults: []Fault{{Kind: StaleLease, Name: "stale"}, {Kind: DHCPEmpty, Name: "none"}}}, "stale", "none")
	m.boot("stale")
	m.awaitAgent("stale")
	if guess, own := m.must("ip", "stale"), m.must("ip", "stale", "--resolver", "agent", "--wait", "60"); guess == own {
		t.Errorf("both say %s", own)
	}
	m.boot("none")
	if got := m.do("ip", "none"); got.code != 1 {
		t.Errorf("with an empty pool: %+v", got)
	}
	if leases, _ := readLeases(m.path("leases")); len(leases) < 253 {
		t.Errorf("%d leases", len(leases))
	}
}

func TestADeafGuestNeedsAPowerCut(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Faults: []Fault{{Kind: GuestIgnoresShutdown}}}, "vm")
	run := m.boot("vm")
	m.awaitAgent("vm")
	m.must("exec", "vm", "/sbin/shutdown", "-h", "now")
	m.must("exec", "vm", "true")
	run.signal(syscall.SIGINT)
	if code := run.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestADuplicateMAC(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Faults: []Fault{{Kind: DuplicateMAC, Name: "twin"}}}, "vm", "twin")
	if m.vm("vm").mac() != m.vm("twin").mac() {
		t.Error("the clone has an address of its own")
	}
}

func TestAPlanResetsLeaks(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Faults: []Fault{{Kind: SlotLeak, Times: 2}}}, "vm")
	for range 2 {
		run := m.boot("vm")
		m.kill(m.guestPID("vm"), syscall.SIGTERM)
		run.wait()
	}
	if got := m.do("run", "vm"); got.code != 1 {
		t.Fatalf("with leaked slots: %+v", got)
	}
	m.arm(Plan{ResetLeaks: true})
	m.boot("vm")
}

func TestAClockThatIsOff(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{ClockOffset: Offset(-48 * time.Hour)}, "vm")
	m.boot("vm").signal(syscall.SIGINT)
	m.must("ip", "vm")
	m.arm(Plan{}) // the clock jumps ahead, and the lease has long expired
	if got := m.do("ip", "vm"); got.code != 1 {
		t.Errorf("%+v", got)
	}
}

func TestAPlansRegistry(t *testing.T) {
	t.Parallel()
	const ref = "registry.test/team/mac:v1"
	m := newMac(t, &Plan{
		Credentials: map[string]string{"registry.test/team": "bot:secret"},
		Images:      map[string]Image{ref: {DiskGB: 2}},
	})
	if got := m.do("pull", ref); got.code != 1 || !strings.Contains(got.err, "401") {
		t.Errorf("without credentials: %+v", got)
	}
	m.env = append(m.env, "TART_REGISTRY_USERNAME=bot", "TART_REGISTRY_PASSWORD=wrong")
	if got := m.do("pull", ref); got.code != 1 || !strings.Contains(got.err, "401") {
		t.Errorf("with wrong ones: %+v", got)
	}
	m.env = append(m.env, "TART_REGISTRY_PASSWORD=secret")
	m.must("pull", ref)
	was := m.must("fqn", ref)
	m.arm(Plan{Images: map[string]Image{ref: {DiskGB: 3}}})
	m.must("pull", ref)
	if now := m.must("fqn", ref); now == was || len(strings.Fields(m.must("list", "-q"))) != 2 {
		t.Errorf("the tag did not move: %s", m.must("list", "-q"))
	}
}

func TestLoginIsUsedByPull(t *testing.T) {
	t.Parallel()
	m := newMac(t, nil)
	m.do("pull", "registry.test/private/base:v1")
	cmd := m.command(t.Context(), "login", "registry.test", "--username", "me", "--password-stdin")
	cmd.Stdin = strings.NewReader("secret\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.must("pull", "registry.test/private/base:v1")
	m.must("logout", "registry.test")
	m.must("delete", "registry.test/private/base:v1")
	if got := m.do("pull", "registry.test/private/base:v1"); got.code != 1 {
		t.Errorf("after logout: %+v", got)
	}
}

func TestASlowPullGoesByBytes(t *testing.T) {
	t.Parallel()
	m := newMac(t, &Plan{PullBytesPerSecond: 1_000_000, Images: map[string]Image{testImage: {Bytes: 300_000}}})
	began := time.Now()
	m.must("pull", testImage)
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("took %s", took)
	}
}

func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	m.must("clone", "registry.test/ubuntu:v1", "ubuntu")
	run := m.boot("vm", "--suspendable")
	m.must("suspend", "vm")
	if code := run.wait(); code != 0 || m.vm("vm").state() != "suspended" {
		t.Fatalf("exit %d, %s", code, m.vm("vm").state())
	}
	m.must("clone", "vm", "copy")
	if m.vm("copy").state() != "suspended" || m.vm("copy").mac() != m.vm("vm").mac() {
		t.Error("the clone is not that of a suspended VM")
	}
	m.boot("vm", "--suspendable")
	for _, name := range []string{"copy", "ubuntu"} {
		run := m.boot(name)
		m.must("suspend", name)
		if code := run.wait(); code != 1 {
			t.Errorf("%s: exit %d, %s", name, code, run.out.String())
		}
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "old", "new", "live")
	m.boot("live")
	for _, name := range []string{"old", "live"} {
		long := time.Now().Add(-72 * time.Hour)
		if err := os.Chtimes(string(m.vm(name)), long, long); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.do("prune"); got.code != 64 {
		t.Errorf("without a criterion: %+v", got)
	}
	m.must("prune", "--entries", "vms", "--older-than", "2")
	if got := m.must("list", "--source", "local", "-q"); got != "live\nnew\n" {
		t.Errorf("left: %q", got)
	}
	m.must("prune", "--space-budget", "0")
	if got := m.must("list", "--source", "oci", "-q"); got != "" {
		t.Errorf("left: %q", got)
	}
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	archive := filepath.Join(t.TempDir(), "vm.tvm")
	m.must("export", "vm", archive)
	m.must("import", archive, "again")
	if m.vm("again").mac() != m.vm("vm").mac() {
		t.Error("another VM came back")
	}
	m.boot("vm")
	for _, command := range [][]string{{"export", "vm", archive + "2"}, {"push", "vm", "registry.test/x/y:1"}} {
		if got := m.do(command...); got.code != 1 || got.err != "VM \"vm\" is running\n" {
			t.Errorf("%v: %+v", command, got)
		}
	}
}
