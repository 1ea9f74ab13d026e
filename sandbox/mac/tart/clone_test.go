package tart

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCloneReplacesALiveVM shows the trap: no word, no error, and the old guest runs on
// without a name.
func TestCloneReplacesALiveVM(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	run := m.boot("vm")
	guest := m.guestPID("vm")
	if got := m.do("clone", testImage, "vm"); got.code != 0 || got.out+got.err != "" {
		t.Fatalf("clone over a running VM: %+v", got)
	}
	if state := m.vm("vm").state(); state != "stopped" {
		t.Errorf("the new VM is %s", state)
	}
	if run.ended() || gone(guest) {
		t.Error("the old guest did not survive")
	}
	if got := m.do("stop", "vm"); got.code != 2 {
		t.Errorf("stop reaches the old VM: %+v", got)
	}
	run.signal(syscall.SIGINT)
	if code := run.wait(); code != 0 {
		t.Errorf("the old run ended with %d", code)
	}
}

func TestCloneGivesANewMACOnlyWhenItIsTaken(t *testing.T) {
	t.Parallel()
	m := newMac(t, nil)
	m.must("pull", testImage)
	ref, _ := parseReference(testImage)
	own := home(m.path("home")).dir(ref).mac()
	tests := []struct {
		name, from, to string
		saved          bool // the source has a saved state
		same           bool
	}{
		{name: "first clone keeps that of the image", from: testImage, to: "a", same: true},
		{name: "second clone", from: testImage, to: "b"},
		{name: "of a local VM", from: "a", to: "c"},
		{name: "of a suspended VM", from: "a", to: "d", saved: true, same: true},
	}
	for _, tt := range tests { // in order: they share the VMs
		if tt.saved {
			if err := os.WriteFile(m.vm(tt.from).saved(), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		m.must("clone", tt.from, tt.to)
		mac := m.vm(tt.to).mac()
		if (mac == own) != tt.same {
			t.Errorf("%s: %s, the image has %s", tt.name, mac, own)
		}
		if exists(m.vm(tt.to).saved()) != tt.saved {
			t.Errorf("%s: saved state copied: %v", tt.name, !tt.saved)
		}
	}
}

func TestCloneCopiesTheDiskSparsely(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "a")
	m.must("set", "a", "--disk-size", "60")
	m.must("clone", "a", "b")
	was, now := m.vm("a"), m.vm("b")
	if size, allocated := now.sizes(); size < 60_000_000_000 || allocated > 10_000_000 {
		t.Errorf("size %d, allocated %d", size, allocated)
	}
	if head(t, was.disk()) != head(t, now.disk()) {
		t.Error("the contents differ")
	}
	if got := m.do("set", "b", "--disk-size", "20"); got.code != 1 {
		t.Errorf("a disk shrank: %+v", got)
	}
}

func head(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 128)
	if _, err := f.Read(b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSlowCloneHoldsUpARun(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	m.arm(Plan{CloneDelay: Duration(time.Hour)})
	clone := m.start("clone", "vm", "slow")
	await(t, "TART_HOME is locked", func() bool {
		lock, taken, err := tryFlock(m.path("home"))
		if err != nil {
			t.Fatal(err)
		}
		lock.close()
		return !taken
	})
	m.arm(Plan{})
	run := m.start("run", "vm")
	await(t, "run has begun", func() bool { return m.starts("run") > 0 })
	if m.lockHolder("vm") != 0 {
		t.Error("run did not wait for the clone")
	}
	clone.signal(syscall.SIGKILL)
	m.awaitGuest(run, "vm", "running")
	if m.must("list", "-q", "--source", "local") != "vm\n" {
		t.Error("an unfinished clone is listed")
	}
	if left := m.temporary(); len(left) != 0 {
		t.Errorf("list left %v in tmp", left)
	}
}

func TestCloneWithoutSpace(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Faults: []Fault{{Kind: CloneNoSpace, Name: "full", After: 1, Times: 1}}}, "vm")
	m.must("clone", "vm", "full-1")
	got := m.do("clone", "vm", "full-2")
	if got.code != 1 || !strings.Contains(got.err, "enough space") {
		t.Errorf("%+v", got)
	}
	if exists(string(m.vm("full-2"))) {
		t.Error("a partial clone was left behind")
	}
	m.must("clone", "vm", "full-2")
}
