package inventory_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	sandbox "github.com/macfleet/macfleet/sandbox/scaleway"
)

// mutations are the calls so far that asked the vendor to change something.
func (w *world) mutations() (out []string) {
	for _, entry := range w.vendor.Journal(0) {
		if entry.Method != http.MethodGet {
			out = append(out, entry.Call)
		}
	}
	return out
}

func TestAServerMissedBetweenTwoPagesIsNotGone(t *testing.T) {
	w := start(t, sandbox.Options{Knobs: sandbox.Knobs{MaxPageSize: 2}})
	ids := w.pool(7)
	w.step(30 * time.Second)
	w.step(30 * time.Second)
	removed := false
	w.before = func(r *http.Request) {
		if r.URL.Query().Get("page") == "2" && !removed {
			removed = true
			w.vendor.Remove(ids[0]) // the first of page 2 moves to page 1, which is read already
		}
	}
	w.step(30 * time.Second)
	if !removed || w.phases()[infrav1.HostAvailable] != 6 {
		t.Fatalf("the list lied about nothing: %v", w.phases())
	}
	if missed := w.host(ids[2]); missed == nil || missed.Status.MissingSince == nil {
		t.Fatalf("the third server was to be missed: %+v", missed)
	}
	w.step(30 * time.Second)
	if missed := w.host(ids[2]); missed.Status.MissingSince != nil || missed.Status.Phase != infrav1.HostAvailable {
		t.Errorf("one list made it %+v", missed.Status)
	}
	w.until("the removed one is gone", 30*time.Second, func() bool { return w.host(ids[0]) == nil })
	if phases := w.phases(); phases[infrav1.HostAvailable] != 6 || len(w.hosts()) != 6 {
		t.Errorf("phases %v", phases)
	}
}

func TestManyThatVanishAtOnceAreNotBelievedForTenMinutes(t *testing.T) {
	w := start(t, sandbox.Options{})
	ids := w.pool(10)
	w.step(30 * time.Second)
	for _, id := range ids[:4] {
		w.vendor.Remove(id)
	}
	since := w.clock.Now()
	for w.clock.Since(since) < 10*time.Minute {
		w.step(30 * time.Second)
		if report, _ := w.r.Inventory.Zone(zone); !report.Suspicious {
			t.Fatalf("believed after %s", w.clock.Since(since))
		}
		if len(w.hosts()) != 10 {
			t.Fatalf("removed after %s: %v", w.clock.Since(since), w.phases())
		}
	}
	w.until("believed", 30*time.Second, func() bool { return len(w.hosts()) == 6 })
	w.step(30 * time.Second)
	if report, _ := w.r.Inventory.Zone(zone); report.Suspicious {
		t.Error("still suspicious of what is accounted for")
	}
}

func TestLostRightsChangeNoHost(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"empty lists":       func(w *world) { w.vendor.SetRights(sandbox.DefaultSecretKey, sandbox.EmptyLists) },
		"everything is 403": func(w *world) { w.vendor.SetRights(sandbox.DefaultSecretKey, sandbox.NoRights) },
		"the key is gone":   func(w *world) { w.vendor.SetSecretKeys("5ca1e000-0000-4000-8000-000000000009") },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, sandbox.Options{})
			ids := w.pool(3)
			w.step(30 * time.Second)
			w.claim(ids[0], "m-1")
			w.until("in use", 5*time.Second, func() bool { return w.host(ids[0]).Status.Phase == infrav1.HostInUse })
			lose(w)
			for range 6 {
				w.step(time.Hour)
			}
			phases := w.phases()
			if phases[infrav1.HostGone] != 0 || len(w.hosts()) != 3 {
				t.Errorf("phases %v", phases)
			}
			report, _ := w.r.Inventory.Zone(zone)
			if report.Err == nil && !report.Suspicious {
				t.Errorf("nothing is wrong with %+v", report)
			}
		})
	}
}

func TestRejectedCredentialsAreSaidAsSuch(t *testing.T) {
	w := start(t, sandbox.Options{})
	w.pool(1)
	w.step(30 * time.Second)
	w.vendor.SetSecretKeys("5ca1e000-0000-4000-8000-000000000009")
	for range 12 {
		w.step(10 * time.Second)
	}
	report, _ := w.r.Inventory.Zone(zone)
	if !cloud.IsUnauthorized(report.Err) || !report.Failing || report.Hosts != 1 {
		t.Errorf("got %+v", report)
	}
}

func TestA403OnOneServerProvesNothing(t *testing.T) {
	w := start(t, sandbox.Options{})
	ids := w.pool(4)
	w.step(30 * time.Second)
	w.claim(ids[0], "m-1")
	_, err := w.vendor.Arm(sandbox.Fault{Call: "GetServer", Server: ids[0], Error: "permissions_denied"})
	w.must(err)
	for range 5 {
		for _, err := range w.step(time.Minute) {
			if !cloud.IsForbidden(err) {
				t.Fatal(err)
			}
		}
	}
	if h := w.host(ids[0]); h.Status.Phase != infrav1.HostClaimed || h.Status.MissingSince != nil {
		t.Fatalf("got %+v", h.Status)
	}
	w.vendor.Remove(ids[0]) // now it is true: its GET goes on saying 403
	w.until("gone", time.Minute, func() bool { return w.host(ids[0]).Status.Phase == infrav1.HostGone })
}

func TestAStatusNobodyKnowsIsShownAndNeverAvailable(t *testing.T) {
	w := start(t, sandbox.Options{})
	ids := w.pool(1)
	w.must(w.vendor.Turn(func(k *sandbox.Knobs) { k.UnknownStatus = "polishing" }))
	w.step(30 * time.Second)
	w.step(30 * time.Second)
	h := w.host(ids[0])
	if h.Status.Server.Status != "polishing" || h.Status.Phase != infrav1.HostDiscovered || w.reason(h, infrav1.AvailableCondition) != infrav1.ReasonServerBusy {
		t.Errorf("got %+v", h.Status)
	}
	w.must(w.vendor.Turn(func(k *sandbox.Knobs) { k.UnknownStatus = "" }))
	w.until("available", 30*time.Second, func() bool { return w.host(ids[0]).Status.Phase == infrav1.HostAvailable })
}

func TestListsThatLagBehindAClaimLoseItNot(t *testing.T) {
	w := start(t, sandbox.Options{Knobs: sandbox.Knobs{ListLag: sandbox.Duration(20 * time.Second)}})
	ids := w.pool(2)
	w.clock.Step(30 * time.Second)
	w.step(30 * time.Second)
	w.claim(ids[0], "m-1")
	for range 20 {
		w.step(2 * time.Second)
		h := w.host(ids[0])
		if reason := w.reason(h, infrav1.NameInSyncCondition); reason == infrav1.ReasonChangedByOther || h.Status.MissingSince != nil {
			t.Fatalf("%s, %+v", reason, h.Status)
		}
	}
	if h := w.host(ids[0]); h.Status.Phase != infrav1.HostInUse {
		t.Errorf("phase %s: %+v", h.Status.Phase, h.Status)
	}
	if diff := cmp.Diff([]string{"UpdateServer"}, w.mutations()); diff != "" {
		t.Error(diff)
	}
}
