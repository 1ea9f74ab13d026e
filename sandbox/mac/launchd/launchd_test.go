package launchd

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"
)

// board is a machine whose processes end when a test says so.
type board struct {
	mu            sync.Mutex
	plists        map[string]string
	pid           int
	running       map[int]func(Status)
	ignores       bool // processes ignore SIGTERM
	spawnError    error
	gaps          []string
	saved         map[string]bool
	groups        []int
	registrations Registrations
	spawned       Spawn
}

func (b *board) Spawn(s Spawn, exited func(Status)) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spawnError != nil {
		return 0, b.spawnError
	}
	b.spawned = s
	b.pid++
	b.running[b.pid] = exited
	return b.pid, nil
}

func (b *board) Signal(pid int, sig syscall.Signal) {
	if sig == syscall.SIGKILL || !b.ignores {
		go b.end(pid, Status{Signal: sig})
	}
}

func (b *board) SignalGroup(pid int, _ syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.groups = append(b.groups, pid)
}

func (b *board) ReadPlist(path string) ([]byte, error) {
	text, ok := b.plists[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func (b *board) SaveOverrides(o map[string]bool)   { b.saved = o }
func (b *board) SaveRegistrations(r Registrations) { b.registrations = r }
func (b *board) Log(string)                        {}
func (b *board) Unmodelled(what string)            { b.gaps = append(b.gaps, what) }

// end lets a process end.
func (b *board) end(pid int, s Status) {
	b.mu.Lock()
	exited := b.running[pid]
	delete(b.running, pid)
	b.mu.Unlock()
	if exited != nil {
		exited(s)
	}
}

func definition(extra string) string {
	return `<plist version="1.0"><dict><key>Label</key><string>j</string>
<key>ProgramArguments</key><array><string>/bin/j</string><string>run</string></array>` + extra + `</dict></plist>`
}

type rig struct {
	*Launchd
	*board
	t     *testing.T
	clock *testclock.FakeClock
}

func newRig(t *testing.T, extra string) *rig {
	t.Helper()
	b := &board{plists: map[string]string{"/j.plist": definition(extra)}, running: map[int]func(Status){}}
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	return &rig{New(Options{System: b, Clock: clock, Username: "m1"}), b, t, clock}
}

func (r *rig) root(command string) Result { return r.Control(0, strings.Fields(command)) }

func (r *rig) want(command string, rc int) {
	r.t.Helper()
	if got := r.root(command); got.RC != rc {
		r.t.Errorf("%s: %+v, want rc %d", command, got, rc)
	}
}

func (r *rig) prints(what string) bool {
	return strings.Contains(r.root("print system/j").Stdout, what+"\n")
}

func (r *rig) await(what string) {
	r.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !r.prints(what) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never printed %q:\n%s", what, r.root("print system/j").Stdout)
		}
		time.Sleep(time.Millisecond)
	}
}

const alive = "<key>RunAtLoad</key><true/><key>KeepAlive</key><true/>"

func TestThrottle(t *testing.T) {
	r := newRig(t, alive)
	r.want("bootstrap system /j.plist", 0)
	r.end(1, Status{Code: 1})
	if !r.prints("\tstate = spawn scheduled") || !r.prints("\tlast exit code = 1") {
		t.Errorf("after a crash:\n%s", r.root("print system/j").Stdout)
	}
	r.clock.Step(9 * time.Second)
	if !r.prints("\truns = 1") {
		t.Error("came back before the throttle interval was over")
	}
	r.clock.Step(time.Second)
	r.await("\tpid = 2")
	r.clock.Step(11 * time.Second)
	r.end(2, Status{Code: 1})
	if !r.prints("\tpid = 3") {
		t.Error("a job that ran for longer than the interval was throttled")
	}
}

func TestKeepAliveConditions(t *testing.T) {
	condition := func(text string) string {
		return "<key>RunAtLoad</key><true/><key>KeepAlive</key><dict>" + text + "</dict>"
	}
	tests := []struct {
		name, extra string
		end         Status
		back        bool
	}{
		{"always", alive, Status{}, true},
		{"never", "<key>RunAtLoad</key><true/>", Status{Code: 1}, false},
		{"on failure, failed", condition("<key>SuccessfulExit</key><false/>"), Status{Code: 1}, true},
		{"on failure, killed", condition("<key>SuccessfulExit</key><false/>"), Status{Signal: 9}, true},
		{"on failure, succeeded", condition("<key>SuccessfulExit</key><false/>"), Status{}, false},
		{"on success, succeeded", condition("<key>SuccessfulExit</key><true/>"), Status{}, true},
		{"on crash, failed", condition("<key>Crashed</key><true/>"), Status{Code: 1}, false},
		{"on crash, killed", condition("<key>Crashed</key><true/>"), Status{Signal: 11}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.extra)
			r.want("bootstrap system /j.plist", 0)
			r.end(1, tt.end)
			if got := r.prints("\tstate = spawn scheduled"); got != tt.back {
				t.Fatalf("comes back: %v, want %v", got, tt.back)
			}
			if r.clock.Step(10 * time.Second); tt.back {
				r.await("\truns = 2")
			}
		})
	}
}

func TestBootoutOfASlowProcess(t *testing.T) {
	r := newRig(t, alive)
	r.ignores = true
	r.want("bootstrap system /j.plist", 0)
	done := make(chan Result)
	go func() { done <- r.root("bootout system/j") }()
	deadline := time.Now().Add(time.Minute)
	for r.clock.Waiters() < 2 && time.Now().Before(deadline) { // the job's time to end, and the caller's patience
		time.Sleep(time.Millisecond)
	}
	r.clock.Step(bootoutPatience)
	got := <-done
	if got.RC != codeInProgress || !r.prints("\tstate = SIGTERMed") {
		t.Errorf("bootout: %+v", got)
	}
	r.clock.Step(5 * time.Second)
	r.await("\tlast terminating signal = Killed: 9")
	r.want("bootstrap system /j.plist", 5)
	r.want("kickstart system/j", 113)
	r.clock.Step(settleTime)
	deadline = time.Now().Add(time.Minute)
	for r.root("print system/j").RC != 113 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	r.want("bootstrap system /j.plist", 0)
}

func TestKickstart(t *testing.T) {
	r := newRig(t, "")
	r.want("kickstart system/j", 113)
	r.want("bootstrap system /j.plist", 0)
	if !r.prints("\tstate = not running") {
		t.Error("a job without RunAtLoad started by itself")
	}
	r.want("kickstart system/j", 0)
	r.want("kickstart system/j", 37)
	if got := r.root("kickstart -k -p system/j"); got.RC != 0 || got.Stdout != "service spawned with pid: 2\n" {
		t.Errorf("kickstart -k -p: %+v", got)
	}
	if diff := cmp.Diff([]int{1}, r.groups); diff != "" {
		t.Errorf("process groups killed:\n%s", diff)
	}
}

func TestSpawnFailure(t *testing.T) {
	r := newRig(t, alive)
	r.spawnError = errors.New("no such program")
	r.want("bootstrap system /j.plist", 0)
	if !r.prints("\tstate = spawn scheduled") || !r.prints("\tlast exit code = 78: EX_CONFIG") {
		t.Errorf("after a failed spawn:\n%s", r.root("print system/j").Stdout)
	}
	r.spawnError = nil
	r.clock.Step(10 * time.Second)
	r.await("\tstate = running")
}

func TestCodes(t *testing.T) {
	r := newRig(t, "<key>Sockets</key><dict/>")
	tests := []struct {
		uid     int
		command string
		rc      int
	}{
		{0, "bootstrap system /missing.plist", 5},
		{0, "bootstrap gui/501 /j.plist", 125},
		{501, "bootstrap system /j.plist", 1},
		{0, "bootstrap system /j.plist", 0},
		{0, "kill SIGTERM system/j", 3},
		{0, "kill TERM system/none", 113},
		{0, "kill SIGSTOP system/none", 113},
		{0, "disable system/j", 0},
		{0, "bootout system/none", 3},
		{501, "print user/501", 0},
		{501, "print gui/501", 0},
		{501, "print gui/502", 113},
		{501, "list j", 0},
		{501, "list none", 113},
		{0, "reboot", 64},
		{0, "kickstart -x system/j", 64},
	}
	for _, tt := range tests {
		if got := r.Control(tt.uid, strings.Fields(tt.command)); got.RC != tt.rc {
			t.Errorf("%d: %s: %+v, want rc %d", tt.uid, tt.command, got, tt.rc)
		}
	}
	if diff := cmp.Diff([]string{"launchd property list key Sockets"}, r.gaps); diff != "" {
		t.Errorf("gaps:\n%s", diff)
	}
	if !r.saved["j"] {
		t.Error("the override was not saved")
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no plist":           "hello <",
		"no label":           `<plist><dict><key>Program</key><string>/a</string></dict></plist>`,
		"no program":         `<plist><dict><key>Label</key><string>j</string></dict></plist>`,
		"relative program":   `<plist><dict><key>Label</key><string>j</string><key>Program</key><string>a</string></dict></plist>`,
		"wrong type":         definition("<key>RunAtLoad</key><string>yes</string>"),
		"unescaped":          definition("<key>WorkingDirectory</key><string>a&b</string>"),
		"unmodelled trigger": definition("<key>KeepAlive</key><dict><key>PathState</key><true/></dict>"),
	} {
		if d, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: %s", name, fmt.Sprintf("%+v", d))
		}
	}
}
