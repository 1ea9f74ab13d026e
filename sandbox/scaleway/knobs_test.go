package scaleway_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

func (w *world) turn(change func(*scaleway.Knobs)) {
	w.t.Helper()
	must(w.t, w.Turn(change))
}

// list are the names and statuses that the list of servers shows.
func (w *world) list(options ...scw.RequestOption) []string {
	w.t.Helper()
	list, err := w.macs.ListServers(&applesilicon.ListServersRequest{}, options...)
	must(w.t, err)
	shown := []string{}
	for _, s := range list.Servers {
		shown = append(shown, fmt.Sprintf("%s %s", s.Name, s.Status))
	}
	return shown
}

func TestListsLagBehind(t *testing.T) {
	w := newWorld(t, scaleway.Options{
		Floor: scaleway.NoFloor, Knobs: scaleway.Knobs{ListLag: scaleway.Duration(5 * time.Second)},
	})
	old := w.pool(scaleway.ServerSpec{Name: "old"})
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, w.list()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	w.create("new")
	must(t, w.rename(old.ID, "renamed"))
	if w.get(old.ID).Name != "renamed" {
		t.Error("GET lags too")
	}
	expect("at once", "old ready")
	w.clock.Step(3 * time.Second)
	must(t, w.rename(old.ID, "again"))
	expect("3 s after", "old ready")
	w.clock.Step(2 * time.Second)
	expect("5 s after", "renamed ready", "new starting")
	w.clock.Step(3 * time.Second)
	expect("8 s after", "again ready", "new starting")
	must(t, w.delete(old.ID))
	w.clock.Step(4 * time.Second)
	expect("4 s after the deletion", "again ready", "new starting")
	w.clock.Step(time.Second)
	expect("5 s after the deletion", "new starting")

	// What was due long ago is not news, even when nobody asked meanwhile.
	w.clock.Step(time.Hour)
	expect("delivered", "new ready")
	w.turn(func(k *scaleway.Knobs) { k.ListLag = 0 })
	w.Rename(w.Servers()[0].ID, "prompt")
	expect("without lag", "prompt ready")
}

func TestSmallPages(t *testing.T) {
	w := newWorld(t, scaleway.Options{Knobs: scaleway.Knobs{MaxPageSize: 2}})
	for i := range 5 {
		w.pool(scaleway.ServerSpec{Name: fmt.Sprintf("mac-%d", i)})
	}
	list, err := w.macs.ListServers(&applesilicon.ListServersRequest{PageSize: scw.Uint32Ptr(100)})
	must(t, err)
	if len(list.Servers) != 2 || list.TotalCount != 5 {
		t.Errorf("%d of %d servers on a page of at most 2", len(list.Servers), list.TotalCount)
	}
	if all := w.list(scw.WithAllPages()); len(all) != 5 {
		t.Errorf("all pages have %v", all)
	}
}

// A server deleted between two pages moves the rest up, and one of them is on no page.
func TestDeletionBetweenPagesHidesAServer(t *testing.T) {
	w := newWorld(t, scaleway.Options{Knobs: scaleway.Knobs{MaxPageSize: 2}})
	ids := []string{}
	for i := range 4 {
		ids = append(ids, w.pool(scaleway.ServerSpec{Name: fmt.Sprintf("mac-%d", i)}).ID)
	}
	seen := []string{}
	for page := int32(1); page <= 2; page++ {
		list, err := w.macs.ListServers(&applesilicon.ListServersRequest{Page: &page})
		must(t, err)
		seen = append(seen, serverNames(list)...)
		w.Remove(ids[0])
	}
	if diff := cmp.Diff([]string{"mac-0", "mac-1", "mac-3"}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestGoneAsNotFound(t *testing.T) {
	w := newWorld(t, scaleway.Options{Knobs: scaleway.Knobs{GoneAs: 404}})
	_, err := w.macs.GetServer(&applesilicon.GetServerRequest{ServerID: nobody})
	if missing := as[*scw.ResourceNotFoundError](t, err); missing.ResourceID != nobody || missing.Resource != "server" {
		t.Errorf("%+v", missing)
	}
}

func TestEmptyOnRead(t *testing.T) {
	w := newWorld(t, scaleway.Options{Knobs: scaleway.Knobs{Sealed: scaleway.SealReads}})
	created := w.create("mac")
	checkClear(t, created)
	list, err := w.macs.ListServers(&applesilicon.ListServersRequest{})
	must(t, err)
	patched, err := w.macs.UpdateServer(&applesilicon.UpdateServerRequest{ServerID: created.ID})
	must(t, err)
	for what, s := range map[string]*applesilicon.Server{"get": w.get(created.ID), "list": list.Servers[0], "update": patched} {
		if s.SudoPassword != "" || s.VncURL != "" {
			t.Errorf("%s shows %q, %q", what, s.SudoPassword, s.VncURL)
		}
	}
	w.turn(func(k *scaleway.Knobs) { k.Sealed = scaleway.SealNever })
	checkClear(t, w.get(created.ID))
}

func TestReinstallCanEndInErrorOrNever(t *testing.T) {
	hardware := newMacs()
	w := newWorld(t, scaleway.Options{Hardware: hardware, Knobs: scaleway.Knobs{Reinstall: scaleway.EndsInError}})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	hardware.expect(t, "install "+s.ID)
	must(t, w.reinstall(s.ID))
	hardware.expect(t, "erase "+s.ID)
	w.settle()
	w.clock.Step(17 * time.Minute)
	w.settle()
	w.expect(s.ID, applesilicon.ServerStatusError)

	w.turn(func(k *scaleway.Knobs) { k.Reinstall = scaleway.EndsNever })
	must(t, w.reinstall(s.ID))
	hardware.expect(t, "erase "+s.ID)
	w.clock.Step(24 * time.Hour)
	w.settle()
	w.expect(s.ID, applesilicon.ServerStatusReinstalling)

	w.turn(func(k *scaleway.Knobs) { k.Reinstall = scaleway.EndsWell })
	hardware.expect(t, "install "+s.ID)
	w.settle()
	w.expect(s.ID, applesilicon.ServerStatusReady)
	if view, _ := w.Server(s.ID); view.Installs != 2 {
		t.Errorf("%d installations, want 2", view.Installs)
	}
}

func TestUnknownStatus(t *testing.T) {
	w := newWorld(t, scaleway.Options{Knobs: scaleway.Knobs{UnknownStatus: "hibernating"}})
	s := w.create("mac")
	w.expect(s.ID, "hibernating")
	w.clock.Step(time.Hour)
	w.turn(func(k *scaleway.Knobs) { k.UnknownStatus = "" })
	w.expect(s.ID, applesilicon.ServerStatusReady)
	w.SetStatus(s.ID, "dreaming")
	w.expect(s.ID, "dreaming")
}

func TestQuota(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	w.pool(scaleway.ServerSpec{Name: "mac"})
	w.SetQuota("M2-L", 2)
	second := w.create("second")
	order := func(kind string) error {
		_, err := w.macs.CreateServer(&applesilicon.CreateServerRequest{Name: "one more", Type: kind})
		return err
	}
	over := as[*scw.QuotasExceededError](t, order("M2-L"))
	if len(over.Details) != 1 || over.Details[0].Quota != 2 || over.Details[0].Current != 2 {
		t.Errorf("%+v", over.Details)
	}
	must(t, order("M2-M"))
	w.Remove(second.ID)
	must(t, order("M2-L"))
	w.SetQuota("M2-L", -1)
	must(t, order("M2-L"))
}

func TestKnobsAreChecked(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	for name, change := range map[string]func(*scaleway.Knobs){
		"lag":         func(k *scaleway.Knobs) { k.ListLag = -1 },
		"page size":   func(k *scaleway.Knobs) { k.MaxPageSize = 101 },
		"gone":        func(k *scaleway.Knobs) { k.GoneAs = 410 },
		"sealed":      func(k *scaleway.Knobs) { k.Sealed = "sometimes" },
		"reinstall":   func(k *scaleway.Knobs) { k.Reinstall = scaleway.Unavailable },
		"diagnostics": func(k *scaleway.Knobs) { k.Diagnostics = "maybe" },
	} {
		if w.Turn(change) == nil {
			t.Errorf("%s: turned", name)
		}
	}
	if got := w.Knobs(); got != (scaleway.Knobs{}) {
		t.Errorf("a refused turn changed the knobs to %+v", got)
	}
}

func TestConsole(t *testing.T) {
	hardware := newMacs()
	w := newWorld(t, scaleway.Options{Hardware: hardware})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	hardware.expect(t, "install "+s.ID)
	if !w.Rename(s.ID, "theirs") || w.get(s.ID).Name != "theirs" {
		t.Error("not renamed")
	}
	if !w.ScheduleDeletion(s.ID, true) || !w.get(s.ID).DeletionScheduled {
		t.Error("not scheduled")
	}
	later := startOfTime.Add(time.Hour)
	if !w.SetFloor(s.ID, later) || !w.get(s.ID).DeletableAt.Equal(later) {
		t.Error("the floor did not move")
	}
	// Below its floor, where the API would refuse.
	if !w.Remove(s.ID) {
		t.Error("not removed")
	}
	hardware.expect(t, "remove "+s.ID)
	if w.Rename(s.ID, "x") || w.Remove(s.ID) || w.ScheduleDeletion(s.ID, false) || w.SetFloor(s.ID, later) || w.SetStatus(s.ID, scaleway.StatusReady) {
		t.Error("did something to a server that is gone")
	}
	if calls := w.Journal(0); slices.ContainsFunc(calls, func(e scaleway.Entry) bool { return e.Method != "GET" }) {
		t.Errorf("the console is in the journal: %+v", calls)
	}
}

func TestPoolServersWithTerms(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	monthly := w.pool(scaleway.ServerSpec{Name: "monthly", Commitment: "renewed_monthly", Age: 5 * 24 * time.Hour})
	leaving := w.pool(scaleway.ServerSpec{Name: "leaving", DeletionScheduled: true})
	if want := startOfTime.AddDate(0, 0, -5).AddDate(0, 1, 0); !monthly.DeletableAt.Equal(want) {
		t.Errorf("deletable at %v, want %v", monthly.DeletableAt, want)
	}
	_ = as[*scw.PreconditionFailedError](t, w.delete(monthly.ID))
	if !w.get(leaving.ID).DeletionScheduled {
		t.Error("no deletion is scheduled")
	}
	w.clock.Step(24 * time.Hour)
	if diff := cmp.Diff([]string{"monthly ready"}, w.list()); diff != "" {
		t.Error(diff)
	}
}

func TestLostRights(t *testing.T) {
	for rights, want := range map[scaleway.Rights][4]string{
		scaleway.FullRights: {"1 server", "fine", "fine", "fine"},
		scaleway.EmptyLists: {"0 server", "denied read", "denied write", "denied delete"},
		scaleway.NoRights:   {"denied read", "denied read", "denied write", "denied delete"},
		scaleway.ReadOnly:   {"1 server", "fine", "denied write", "denied delete"},
	} {
		t.Run(string(rights), func(t *testing.T) {
			w := newWorld(t, scaleway.Options{Floor: scaleway.NoFloor})
			s := w.pool(scaleway.ServerSpec{Name: "mac"})
			w.SetRights(scaleway.DefaultSecretKey, rights)
			list, listErr := w.macs.ListServers(&applesilicon.ListServersRequest{})
			listed := denial(t, listErr)
			if listErr == nil {
				listed = fmt.Sprintf("%d server", list.TotalCount)
			}
			_, getErr := w.macs.GetServer(&applesilicon.GetServerRequest{ServerID: s.ID})
			got := [4]string{listed, denial(t, getErr), denial(t, w.rename(s.ID, "x")), denial(t, w.delete(s.ID))}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			// The catalogue is everybody's.
			_, err := w.macs.ListServerTypes(&applesilicon.ListServerTypesRequest{})
			must(t, err)
		})
	}
}

func denial(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "fine"
	}
	return "denied " + as[*scw.PermissionsDeniedError](t, err).Details[0].Action
}
