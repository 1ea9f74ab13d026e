package launchd

import (
	"testing"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

func (r *rig) arm(kind wire.JobFaultKind, after time.Duration) {
	r.Arm(wire.JobFault{Label: "j", Kind: kind, After: after, Count: 1})
}

func TestKickstartThatDoesNothing(t *testing.T) {
	r := newRig(t, alive)
	r.want("bootstrap system /j.plist", 0)
	r.arm(wire.KickIgnored, 0)
	r.want("kickstart -k system/j", 0)
	if !r.prints("\tpid = 1") || !r.prints("\truns = 1") {
		t.Errorf("an ignored kick did something:\n%s", r.root("print system/j").Stdout)
	}
	r.want("kickstart -k system/j", 0)
	if !r.prints("\tpid = 2") {
		t.Errorf("the next kick did nothing:\n%s", r.root("print system/j").Stdout)
	}
}

func TestJobsThatAreNotSpawned(t *testing.T) {
	for _, tt := range []struct {
		kind  wire.JobFaultKind
		state string
	}{{wire.NeverSpawns, "spawn scheduled"}, {wire.NotSpawned, "not running"}} {
		t.Run(string(tt.kind), func(t *testing.T) {
			r := newRig(t, alive)
			r.arm(tt.kind, 0)
			r.want("bootstrap system /j.plist", 0)
			r.clock.Step(time.Minute)
			if !r.prints("\tstate = "+tt.state) || !r.prints("\truns = 0") || r.prints("\tpid = 1") {
				t.Errorf("after bootstrap:\n%s", r.root("print system/j").Stdout)
			}
			r.want("kickstart system/j", 0)
			if !r.prints("\tstate = running") {
				t.Errorf("after a kick:\n%s", r.root("print system/j").Stdout)
			}
		})
	}
}

func TestJobsThatEndSoon(t *testing.T) {
	for _, tt := range []struct {
		kind wire.JobFaultKind
		says string
	}{{wire.Crashes, "\tlast terminating signal = Aborted: 6"}, {wire.ExitsZero, "\tlast exit code = 0"}} {
		t.Run(string(tt.kind), func(t *testing.T) {
			r := newRig(t, alive)
			r.arm(tt.kind, 6*time.Second)
			r.want("bootstrap system /j.plist", 0)
			r.clock.Step(5 * time.Second)
			if !r.prints("\tpid = 1") {
				t.Fatalf("ended early:\n%s", r.root("print system/j").Stdout)
			}
			r.clock.Step(time.Second)
			r.await(tt.says)
		})
	}
}

func TestAProgramThatIsNeverHealthy(t *testing.T) {
	r := newRig(t, alive)
	r.arm(wire.NoHealth, 0)
	r.want("bootstrap system /j.plist", 0)
	if r.spawned.Path == "/bin/j" {
		t.Errorf("spawned %+v", r.spawned)
	}
}

func TestAJobThatIgnoresSIGTERM(t *testing.T) {
	r := newRig(t, alive)
	r.want("bootstrap system /j.plist", 0)
	r.arm(wire.IgnoresTerm, 0)
	r.want("kill SIGTERM system/j", 0)
	if !r.prints("\tpid = 1") {
		t.Error("ended all the same")
	}
	r.want("kill SIGTERM system/j", 0)
	r.await("\tlast terminating signal = Terminated: 15")
}

func TestPrintThatNobodyCanParse(t *testing.T) {
	r := newRig(t, alive)
	r.want("bootstrap system /j.plist", 0)
	r.arm(wire.Unprintable, 0)
	if r.prints("\tstate = running") || !r.prints("\tstate = running") {
		t.Error("want one unparsable answer, then a good one")
	}
	r.Arm(wire.JobFault{Label: "j", Kind: wire.Unprintable})
	for range 2 {
		if r.prints("\tpid = 1") {
			t.Error("a fault without a count ended")
		}
	}
	r.Disarm()
	if !r.prints("\tpid = 1") {
		t.Error("a fault outlived Disarm")
	}
}

func TestKillReasonIsPrinted(t *testing.T) {
	r := newRig(t, alive)
	r.want("bootstrap system /j.plist", 0)
	r.end(1, Status{Signal: 9, Reason: "OS_REASON_CODESIGNING"})
	if !r.prints("\tlast exit reason = OS_REASON_CODESIGNING") || !r.prints("\tlast terminating signal = Killed: 9") {
		t.Errorf("after the kill:\n%s", r.root("print system/j").Stdout)
	}
}
