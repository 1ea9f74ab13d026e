package scaleway_test

import (
	"fmt"
	"testing"
	"time"

	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

const sealed = "<sealed>"

func TestLifeOfAServer(t *testing.T) {
	w := newWorld(t, scaleway.Options{})

	created := w.create("mac-1")
	if created.Status != applesilicon.ServerStatusStarting || created.Delivered || created.IP == nil {
		t.Errorf("just ordered: status %s, delivered %v, ip %v", created.Status, created.Delivered, created.IP)
	}
	if want := fmt.Sprintf("srn://apple-silicon.scw.eu/zones/fr-par-1/servers/%s", created.ID); created.Srn != want {
		t.Errorf("srn %q, want %q", created.Srn, want)
	}
	starting := w.get(created.ID)
	checkClear(t, starting)

	w.clock.Step(126 * time.Second)
	if s := w.expect(created.ID, applesilicon.ServerStatusStarting); !s.UpdatedAt.After(*s.CreatedAt) {
		t.Error("updated_at does not move while starting")
	}
	w.clock.Step(time.Second)
	delivered := w.expect(created.ID, applesilicon.ServerStatusReady)
	if !delivered.Delivered || !delivered.UpdatedAt.Equal(startOfTime.Add(127*time.Second)) {
		t.Errorf("delivered %v, updated at %v", delivered.Delivered, delivered.UpdatedAt)
	}

	must(t, w.reboot(created.ID))
	checkClear(t, w.expect(created.ID, applesilicon.ServerStatusRebooting))
	w.clock.Step(120 * time.Second)
	rebooted := w.expect(created.ID, applesilicon.ServerStatusReady)
	if rebooted.SudoPassword != starting.SudoPassword {
		t.Error("a reboot changed the password")
	}

	must(t, w.reinstall(created.ID))
	if s := w.expect(created.ID, applesilicon.ServerStatusReinstalling); !s.Delivered {
		t.Error("a reinstall took delivered back")
	}
	w.clock.Step(17 * time.Minute)
	fresh := w.expect(created.ID, applesilicon.ServerStatusReady)
	checkClear(t, fresh)
	if fresh.SudoPassword == starting.SudoPassword {
		t.Error("a reinstall kept the password")
	}
	if !fresh.DeletableAt.Equal(*created.DeletableAt) {
		t.Error("a reinstall moved deletable_at")
	}

	w.clock.Step(24 * time.Hour)
	must(t, w.delete(created.ID))
	if len(w.Servers()) != 0 {
		t.Error("deleted and still there")
	}
}

func checkClear(t *testing.T, s *applesilicon.Server) {
	t.Helper()
	want := fmt.Sprintf("vnc://m1:%s@%s:%d", s.SudoPassword, s.IP, s.VncPort)
	if len(s.SudoPassword) != 12 || s.VncURL != want {
		t.Errorf("credentials are not clear: password of %d characters, vnc_url %q", len(s.SudoPassword), s.VncURL)
	}
}

func TestSealing(t *testing.T) {
	tests := []struct {
		mode                            scaleway.SealedMode
		write, starting, fresh, settled bool
	}{
		{mode: scaleway.SealWrites, write: true},
		{mode: scaleway.SealWindow, write: true, starting: true, fresh: true},
		{mode: scaleway.SealNever},
	}
	for _, test := range tests {
		t.Run("mode "+string(test.mode), func(t *testing.T) {
			w := newWorld(t, scaleway.Options{Knobs: scaleway.Knobs{Sealed: test.mode}})
			check := func(what string, s *applesilicon.Server, want bool) {
				t.Helper()
				if (s.SudoPassword == sealed) != want || (s.VncURL == sealed) != want {
					t.Errorf("%s: password %q, vnc %q, want sealed %v", what, s.SudoPassword, s.VncURL, want)
				}
			}
			created := w.create("mac")
			check("create", created, test.write)
			check("get while starting", w.get(created.ID), test.starting)
			w.clock.Step(127 * time.Second)
			check("get when fresh", w.get(created.ID), test.fresh)
			w.clock.Step(time.Minute)
			check("get when settled", w.get(created.ID), test.settled)
			list, err := w.macs.ListServers(&applesilicon.ListServersRequest{})
			must(t, err)
			check("list", list.Servers[0], test.settled)
			patched, err := w.macs.UpdateServer(&applesilicon.UpdateServerRequest{ServerID: created.ID})
			must(t, err)
			check("update", patched, test.write && test.mode == scaleway.SealWrites)
			rebooted, err := w.macs.RebootServer(&applesilicon.RebootServerRequest{ServerID: created.ID})
			must(t, err)
			check("reboot", rebooted, test.write)
			w.clock.Step(time.Hour)
			reinstalled, err := w.macs.ReinstallServer(&applesilicon.ReinstallServerRequest{ServerID: created.ID})
			must(t, err)
			check("reinstall", reinstalled, test.write)
		})
	}
}

func TestTimeScaleDividesDelaysAndFloors(t *testing.T) {
	w := newWorld(t, scaleway.Options{TimeScale: 60})
	s := w.create("mac")
	if floor := s.DeletableAt.Sub(*s.CreatedAt); floor != 24*time.Minute {
		t.Errorf("floor %v, want 24 min", floor)
	}
	w.clock.Step(127 * time.Second / 60)
	w.expect(s.ID, applesilicon.ServerStatusStarting)
	w.clock.Step(time.Second)
	w.expect(s.ID, applesilicon.ServerStatusReady)
	must(t, w.reinstall(s.ID))
	w.clock.Step(17 * time.Second)
	w.expect(s.ID, applesilicon.ServerStatusReady)
}

func TestPoolServers(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	young := w.pool(scaleway.ServerSpec{Name: "tuist-pool-1", Age: time.Hour})
	old := w.pool(scaleway.ServerSpec{Name: "tuist-pool-2", Age: 48 * time.Hour, OS: "macos-tahoe-26.0"})

	s := w.expect(young.ID, applesilicon.ServerStatusReady)
	if !s.Delivered || s.SudoPassword != young.Password || s.IP.String() != young.IP.String() {
		t.Errorf("pool server: %+v", s)
	}
	if !s.DeletableAt.Equal(startOfTime.Add(23 * time.Hour)) {
		t.Errorf("deletable at %v", s.DeletableAt)
	}
	list, err := w.macs.ListServers(&applesilicon.ListServersRequest{})
	must(t, err)
	if list.Servers[0].ID != old.ID || list.Servers[0].Os.Name != "macos-tahoe-26.0" {
		t.Errorf("the oldest server is not first, or has image %s", list.Servers[0].Os.Name)
	}
	must(t, w.delete(old.ID))
	if err := w.delete(young.ID); err == nil {
		t.Error("deleted before its floor")
	}
	if _, err := w.AddServer(t.Context(), scaleway.ServerSpec{Type: "M9"}); err == nil {
		t.Error("added a server of an unknown type")
	}
}

func TestUpdates(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s, err := w.macs.CreateServer(&applesilicon.CreateServerRequest{Name: "mac", Type: "M4-M", EnableVpc: true})
	must(t, err)
	if s.PublicBandwidthBps != 1_000_000_000 || s.VpcStatus != applesilicon.ServerPrivateNetworkStatusVpcUpdating {
		t.Errorf("bandwidth %d, vpc %s", s.PublicBandwidthBps, s.VpcStatus)
	}
	w.clock.Step(130 * time.Second)
	if s = w.get(s.ID); s.VpcStatus != applesilicon.ServerPrivateNetworkStatusVpcEnabled {
		t.Errorf("vpc after delivery: %s", s.VpcStatus)
	}

	w.clock.Step(time.Minute)
	updated, err := w.macs.UpdateServer(&applesilicon.UpdateServerRequest{
		ServerID: s.ID, Name: scw.StringPtr("renamed"), PublicBandwidthBps: scw.Uint64Ptr(2_000_000_000), EnableVpc: scw.BoolPtr(false),
	})
	must(t, err)
	if updated.Name != "renamed" || updated.PublicBandwidthBps != 2_000_000_000 || updated.Status != applesilicon.ServerStatusReady ||
		updated.VpcStatus != applesilicon.ServerPrivateNetworkStatusVpcUpdating || !updated.UpdatedAt.After(*s.UpdatedAt) {
		t.Errorf("after the update: %+v", updated)
	}
	w.clock.Step(30 * time.Second)
	if s = w.get(s.ID); s.VpcStatus != applesilicon.ServerPrivateNetworkStatusVpcDisabled {
		t.Errorf("vpc in the end: %s", s.VpcStatus)
	}
}

func TestScheduledDeletion(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	schedule := func(id string, on bool) *applesilicon.Server {
		t.Helper()
		s, err := w.macs.UpdateServer(&applesilicon.UpdateServerRequest{ServerID: id, ScheduleDeletion: &on})
		must(t, err)
		if s.DeletionScheduled != on {
			t.Errorf("deletion_scheduled is %v, want %v", s.DeletionScheduled, on)
		}
		return s
	}
	kept, gone := w.pool(scaleway.ServerSpec{Name: "kept"}), w.pool(scaleway.ServerSpec{Name: "gone"})
	schedule(kept.ID, true)
	schedule(gone.ID, true)
	schedule(kept.ID, false)
	w.clock.Step(24*time.Hour - time.Second)
	if len(w.Servers()) != 2 {
		t.Fatal("removed before deletable_at")
	}
	w.clock.Step(time.Second)
	if left := w.Servers(); len(left) != 1 || left[0].ID != kept.ID {
		t.Errorf("left: %+v", left)
	}
}

func TestMonthlyCommitment(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac", Age: 48 * time.Hour})
	commit := func(kind applesilicon.CommitmentType) (*applesilicon.Server, error) {
		return w.macs.UpdateServer(&applesilicon.UpdateServerRequest{
			ServerID: s.ID, CommitmentType: &applesilicon.CommitmentTypeValue{CommitmentType: kind},
		})
	}
	monthly, err := commit(applesilicon.CommitmentTypeRenewedMonthly)
	must(t, err)
	if want := startOfTime.AddDate(0, 1, 0); !monthly.DeletableAt.Equal(want) || monthly.Commitment.Type != applesilicon.CommitmentTypeRenewedMonthly {
		t.Errorf("committed: %+v, deletable at %v, want %v", monthly.Commitment, monthly.DeletableAt, want)
	}
	if _, err := commit(applesilicon.CommitmentTypeDuration24h); err == nil {
		t.Error("went from monthly to hourly")
	}
	w.clock.SetTime(startOfTime.AddDate(0, 1, 0))
	if renewed := w.get(s.ID); !renewed.DeletableAt.Equal(startOfTime.AddDate(0, 2, 0)) {
		t.Errorf("renewed until %v", renewed.DeletableAt)
	}
	cancelled, err := commit(applesilicon.CommitmentTypeNone)
	must(t, err)
	if !cancelled.Commitment.Cancelled {
		t.Error("not cancelled")
	}
	w.clock.SetTime(startOfTime.AddDate(0, 2, 0))
	must(t, w.delete(s.ID))
}

func TestImages(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	images, err := w.macs.ListOS(&applesilicon.ListOSRequest{Name: scw.StringPtr("15")}, scw.WithAllPages())
	must(t, err)
	if len(images.Os) != 4 {
		t.Errorf("%d images of version 15, want 4", len(images.Os))
	}
	forM4, err := w.macs.ListOS(&applesilicon.ListOSRequest{ServerType: scw.StringPtr("M4-M")}, scw.WithAllPages())
	must(t, err)
	for _, image := range forM4.Os {
		if len(image.SupportedServerTypes) == 0 {
			t.Errorf("%s lists no server type", image.Name)
		}
	}
	tahoe := forM4.Os[0]
	s, err := w.macs.CreateServer(&applesilicon.CreateServerRequest{Name: "mac", Type: "M4-M", OsID: &tahoe.ID})
	must(t, err)
	w.clock.Step(time.Hour)
	w.expect(s.ID, applesilicon.ServerStatusStarting)
	w.clock.Step(130 * time.Second)
	if s = w.expect(s.ID, applesilicon.ServerStatusReady); s.Os.Name != tahoe.Name {
		t.Errorf("delivered with %s, want %s", s.Os.Name, tahoe.Name)
	}
	image, err := w.macs.GetOS(&applesilicon.GetOSRequest{OsID: tahoe.ID})
	must(t, err)
	//nolint:staticcheck // deprecated, and filled all the same
	if len(image.SupportedServerTypes) != 0 || image.CompatibleServerTypes == nil {
		t.Error("only the list fills supported_server_types, every answer compatible_server_types")
	}
}

func TestServerTypes(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	for zone, want := range map[scw.Zone]int{"fr-par-1": 5, "fr-par-3": 1} {
		types, err := w.macs.ListServerTypes(&applesilicon.ListServerTypesRequest{Zone: zone})
		must(t, err)
		if len(types.ServerTypes) != want {
			t.Errorf("%s has %d types, want %d", zone, len(types.ServerTypes), want)
		}
	}
	kind, err := w.macs.GetServerType(&applesilicon.GetServerTypeRequest{ServerType: "M2-L"})
	must(t, err)
	if kind.Memory.Capacity != 16*scw.GB || kind.MinimumLeaseDuration.Seconds != 86400 || kind.DefaultOs.Name != "macos-sequoia-15.6" {
		t.Errorf("M2-L is %+v", kind)
	}
}
