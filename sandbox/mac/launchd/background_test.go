package launchd

import (
	"testing"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

func (r *rig) wantRegistrations(what string, want int) {
	r.t.Helper()
	if got := r.Registrations(); got.Count != want || want > 0 && r.registrations.Count != want {
		r.t.Errorf("%s: %d registrations, %d saved, want %d", what, got.Count, r.registrations.Count, want)
	}
}

func TestF09_EveryNewOrChangedPropertyListIsRegistered(t *testing.T) {
	r := newRig(t, "")
	r.want("bootstrap system /j.plist", 0)
	r.wantRegistrations("first bootstrap", 1)
	r.Appeared("/j.plist", []byte(definition("")))
	r.wantRegistrations("same bytes seen in the folder", 1)
	r.Appeared("/j.plist.tmp.plist", []byte("half"))
	r.wantRegistrations("a temporary file", 2)
	r.Appeared("/gone.plist", nil)
	r.Appeared("/gone.plist", nil)
	r.wantRegistrations("a file gone before it was read", 3)
	before := r.Registrations().Bytes()
	r.want("bootout system/j", 0)
	r.clock.Step(settleTime)
	deadline := time.Now().Add(time.Minute)
	for r.root("print system/j").RC == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	r.want("bootstrap system /j.plist", 0)
	r.wantRegistrations("the same bytes again", 3)
	r.plists["/j.plist"] = definition(alive)
	r.want("bootstrap system /j.plist", 37)
	r.wantRegistrations("changed bytes", 4)
	if r.Registrations().Bytes() <= before {
		t.Error("the database did not grow")
	}
}

func TestF10_TooManyRegistrationsEndRespawning(t *testing.T) {
	r := newRig(t, alive)
	r.Tune(wire.Switches{RespawnLimit: 1})
	r.want("bootstrap system /j.plist", 0)
	r.end(1, Status{Code: 1})
	r.clock.Step(10 * time.Second)
	r.await("\tpid = 2")
	r.Appeared("/other.plist", nil)
	r.end(2, Status{Code: 1})
	r.clock.Step(time.Minute)
	if !r.prints("\tstate = not running") {
		t.Errorf("past the limit:\n%s", r.root("print system/j").Stdout)
	}
	r.want("kickstart system/j", 0)
	if !r.prints("\tstate = running") {
		t.Errorf("after a kick:\n%s", r.root("print system/j").Stdout)
	}
}

func TestF10_ALargeDatabaseKeepsDaemonsFromLoadingAtBoot(t *testing.T) {
	for _, limit := range []int64{0, databaseBase, databaseBase + databaseItem} {
		r := newRig(t, alive)
		l := New(Options{
			System: r.board, Clock: r.clock, Registrations: Registrations{Count: 1}, Switches: wire.Switches{DatabaseLimit: limit},
		})
		l.Boot([]string{"/j.plist"})
		want := 0
		if limit == databaseBase {
			want = 113
		}
		if got := l.Control(0, []string{"print", "system/j"}).RC; got != want {
			t.Errorf("limit %d: print exits %d, want %d", limit, got, want)
		}
	}
}
