package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

func TestInventoryMakesHostsAndReportsZones(t *testing.T) {
	w := newWorld(t)
	if _, known := w.inventory.Zone(zone); known {
		t.Fatal("a report before the first list")
	}
	w.must(w.client.Create(w.ctx, &infrav1.ScalewayAppleSiliconCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "c"}, Spec: infrav1.ScalewayAppleSiliconClusterSpec{Zones: []string{"fr-par-3"}},
	}))
	w.must(w.client.Create(w.ctx, &infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m"},
		Spec:       infrav1.ScalewayAppleSiliconMachineSpec{MachineClass: infrav1.MachineClass{Zone: "nl-ams-1"}},
	}))
	w.untilPhase(infrav1.HostAvailable)
	w.inventory.Sweep(w.ctx)
	report, _ := w.inventory.Zone(zone)
	if report.Hosts != 1 || report.Err != nil || report.At.IsZero() {
		t.Errorf("report %+v", report)
	}
	for _, other := range []string{"fr-par-3", "nl-ams-1"} {
		if report, known := w.inventory.Zone(other); !known || report.Hosts != 0 {
			t.Errorf("zone %s: %+v, %v", other, report, known)
		}
	}
}

func TestAFailedListChangesNothingButItsReport(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.cloud.Fault = func(cloudtest.Call) (error, error) { return cloudtest.Err(cloud.KindUnauthorized), nil }
	for range 3 {
		w.clock.Step(time.Hour)
		w.must(w.step())
	}
	report, _ := w.inventory.Zone(zone)
	if !cloud.IsUnauthorized(report.Err) || report.Hosts != 1 || w.phase() != infrav1.HostAvailable {
		t.Errorf("report %+v, phase %s", report, w.phase())
	}
}

func TestAZoneNobodyKnewIsListedAtOnce(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error)
	go func() { done <- w.inventory.Start(ctx) }()
	w.inventory.Zone("pl-waw-2")
	for deadline := time.Now().Add(time.Minute); ; {
		if _, known := w.inventory.Zone("pl-waw-2"); known {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the zone was not listed")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What a Machine misses while a list is under way, that list may not have looked for.
func TestAListCountsFromItsBeginning(t *testing.T) {
	w := newWorld(t)
	w.during("ListServers", func() { w.clock.Step(time.Minute) })
	began := w.clock.Now()
	w.inventory.Sweep(w.ctx)
	report, _ := w.inventory.Zone(zone)
	if seen, _ := w.inventory.readings.newest(zone, serverID); !report.At.Equal(began) || !seen.at.Equal(began) {
		t.Errorf("report of %s, reading of %s; want both of %s", report.At, seen.at, began)
	}
}

// A Machine whose Host does not exist takes its server for gone by lists: they count only
// where each server that they hold has its Host.
func TestAListFailsWithAHostThatCannotBeMade(t *testing.T) {
	w := newWorld(t)
	w.writeFault = func(int) (before, after error) { return errors.New("no room"), nil }
	began := w.clock.Now()
	for range 2 {
		w.inventory.Sweep(w.ctx)
		w.clock.Step(time.Minute)
	}
	if report, _ := w.inventory.Zone(zone); report.Err == nil || !report.FailingSince.Equal(began) {
		t.Errorf("report = %+v, want it failed since %s", report, began)
	}
	w.writeFault = nil
	w.inventory.Sweep(w.ctx)
	if report, _ := w.inventory.Zone(zone); report.Err != nil || !report.FailingSince.IsZero() || w.host() == nil {
		t.Errorf("report = %+v, want it good, and a Host", report)
	}
}

// Before it is proved gone, a Mac that lists lack must be known as missing: nobody is to claim it.
func TestAServerThatGoesMissingWakesItsHost(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	for len(w.inventory.changes) > 0 {
		<-w.inventory.changes
	}
	w.cloud.Remove(serverID)
	w.inventory.Sweep(w.ctx)
	if n := len(w.inventory.changes); n != 1 {
		t.Fatalf("woken %d times, want once", n)
	}
	<-w.inventory.changes
	_, err := w.reconcile()
	w.must(err)
	if w.inventory.Sweep(w.ctx); len(w.inventory.changes) != 0 {
		t.Error("woken again for what it shows")
	}
}

// another puts more servers into the zone, so that its list is not empty.
func (w *world) another(n int) {
	for i := range n {
		w.cloud.Set(cloud.Server{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Zone: zone, Name: "x", Status: cloud.StatusReady, Delivered: true,
		}, "")
	}
}

func TestAServerIsGoneOnlyWhenProved(t *testing.T) {
	t.Run("missing from two lists", func(t *testing.T) {
		w := newWorld(t)
		w.another(1)
		w.untilPhase(infrav1.HostAvailable)
		w.cloud.Remove(serverID)
		w.must(w.step())
		if h := w.host(); h == nil || h.Status.MissingSince == nil || h.Status.Phase != infrav1.HostDiscovered {
			t.Fatalf("after one list: %+v", h)
		}
		w.clock.Step(time.Minute)
		w.until("removed", func() bool { return w.host() == nil })
	})
	t.Run("released, and its Machine waits for that", func(t *testing.T) {
		w := inUse(t)
		w.another(1)
		h := w.host()
		h.Finalizers = []string{infrav1.HostFinalizer}
		h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: infrav1.Recycle, PoolPrefix: prefix, RequestedAt: metav1.NewMicroTime(w.clock.Now())}
		w.must(w.client.Update(w.ctx, h))
		w.cloud.Remove(serverID)
		w.until("removed", func() bool { return w.host() == nil })
	})
	t.Run("missing from lists, but it answers", func(t *testing.T) {
		w := inUse(t)
		w.another(1)
		w.must(w.step())
		w.cloud.Unlisted = map[string]bool{serverID: true}
		for range 6 {
			w.must(w.step())
			w.clock.Step(time.Minute)
			if got := w.phase(); got == infrav1.HostGone || got == "" {
				t.Fatalf("phase %q", got)
			}
		}
	})
	for _, kind := range []cloud.Kind{cloud.KindUnavailable, cloud.KindThrottled, cloud.KindUnauthorized, cloud.KindTransient} {
		t.Run("missing from lists, and nobody can tell: "+string(kind), func(t *testing.T) {
			w := inUse(t)
			w.another(1)
			w.must(w.step())
			w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1"}}))
			h := w.host()
			host.Detach(h, w.clock.Now()) // nobody's, and not clean: only its record knows
			w.must(w.client.Update(w.ctx, h))
			w.cloud.Unlisted = map[string]bool{serverID: true}
			w.cloud.Fault = func(call cloudtest.Call) (error, error) {
				if call.Name == "GetServer" {
					return cloudtest.Err(kind), nil
				}
				return nil, nil
			}
			for range 6 {
				_ = w.step()
				w.clock.Step(time.Minute)
				if h := w.host(); h == nil || host.Clean(h) || h.Status.Phase == infrav1.HostGone {
					t.Fatalf("got %+v", h)
				}
			}
			if seen, _ := w.inventory.readings.newest(zone, serverID); !seen.gone {
				t.Fatal("the lists do not call it gone")
			}
			w.cloud.Fault = nil
			w.cloud.Remove(serverID)
			w.until("removed", func() bool { return w.host() == nil })
		})
	}
	t.Run("an empty list proves nothing, though the credentials work", func(t *testing.T) {
		w := newWorld(t)
		w.untilPhase(infrav1.HostAvailable)
		w.cloud.Remove(serverID)
		for range 6 {
			w.must(w.step())
			w.clock.Step(time.Hour)
		}
		if h := w.host(); h == nil || h.Status.MissingSince == nil {
			t.Fatalf("got %+v", h)
		}
	})
	t.Run("an empty list, and another zone lists servers", func(t *testing.T) {
		w := newWorld(t)
		w.cloud.Set(cloud.Server{ID: strayID(1), Zone: "fr-par-3", Name: "x", Status: cloud.StatusReady, Delivered: true}, "")
		w.inventory.Zone("fr-par-3")
		w.untilPhase(infrav1.HostAvailable)
		w.cloud.Remove(serverID)
		w.must(w.step())
		w.clock.Step(5 * time.Minute)
		w.must(w.step())
		if w.host() == nil {
			t.Fatal("gone after five minutes")
		}
		w.clock.Step(5 * time.Minute)
		w.until("removed", func() bool { return w.host() == nil })
	})
	t.Run("many at once that we gave back are not suspicious", func(t *testing.T) {
		w := newWorld(t)
		w.another(6)
		w.untilPhase(infrav1.HostAvailable)
		hosts := &infrav1.ScalewayAppleSiliconHostList{}
		w.must(w.client.List(w.ctx, hosts))
		for _, h := range hosts.Items {
			if h.Spec.ServerID == serverID {
				continue
			}
			host.Claim(&h, infrav1.ClaimReference{Namespace: "fleet", Name: "x", Token: "t"}, w.clock.Now())
			h.Spec.Release = &infrav1.Release{Token: "t", Policy: infrav1.Terminate, RequestedAt: metav1.NewMicroTime(w.clock.Now())}
			host.RecordReturn(&h, w.clock.Now())
			w.must(w.client.Update(w.ctx, &h))
			w.cloud.Remove(h.Spec.ServerID)
		}
		w.inventory.Sweep(w.ctx)
		if report, _ := w.inventory.Zone(zone); report.Suspicious || report.Hosts != 1 {
			t.Errorf("got %+v", report)
		}
		w.clock.Step(host.GoneAfter)
		w.inventory.Sweep(w.ctx)
		if seen, _ := w.inventory.readings.newest(zone, strayID(0)); !seen.gone {
			t.Error("not gone after two lists")
		}
	})
	t.Run("an empty list, and we gave one of two servers back", func(t *testing.T) {
		w := inUse(t)
		w.another(1)
		w.inventory.Sweep(w.ctx)
		w.release()
		h := w.host()
		h.Spec.Release.Policy = infrav1.Terminate
		host.RecordReturn(h, w.clock.Now())
		w.must(w.client.Update(w.ctx, h))
		w.cloud.Remove(serverID)
		w.cloud.Remove(strayID(0)) // hidden
		for range 3 {
			_ = w.step()
			w.clock.Step(5 * time.Minute)
		}
		w.until("removed", func() bool { return w.host() == nil })
		if seen, _ := w.inventory.readings.newest(zone, strayID(0)); seen.gone {
			t.Error("the other is taken for gone too")
		}
	})
	t.Run("an empty list, and a Terminate whose server we have not given back yet", func(t *testing.T) {
		w := inUse(t)
		w.release()
		h := w.host()
		h.Spec.Release.Policy = infrav1.Terminate
		w.must(w.client.Update(w.ctx, h))
		w.cloud.Remove(serverID) // as lost rights show it
		w.stepFor(2 * host.GoneAfterSuspicious)
		if w.host() == nil {
			t.Error("forgotten, on the word of lists that may be lost rights")
		}
	})
	t.Run("one answer", func(t *testing.T) {
		w := newWorld(t)
		w.untilPhase(infrav1.HostAvailable)
		w.claim("m-1", "t-1")
		for _, call := range []string{"GetServer", "RenameServer", "ReinstallServer"} {
			w.cloud.Fault = func(c cloudtest.Call) (error, error) {
				if c.Name == call {
					return cloudtest.Err(cloud.KindNotFound), nil
				}
				return nil, nil
			}
			if call == "ReinstallServer" {
				w.release()
			}
			for range 3 {
				_, err := w.reconcile()
				w.must(err)
			}
			if h := w.host(); h == nil || h.Spec.ClaimRef == nil || h.Status.Phase == infrav1.HostGone {
				t.Fatalf("%s: %+v", call, h)
			}
			if len(w.inventory.trigger) != 1 {
				t.Errorf("%s: no list is due", call)
			}
			w.must(w.step()) // and the list has it
		}
		w.cloud.Fault = nil
		w.wiped()
	})
	t.Run("an empty list, and the credentials do not work", func(t *testing.T) {
		w := newWorld(t)
		w.untilPhase(infrav1.HostAvailable)
		w.cloud.Remove(serverID)
		w.cloud.Fault = func(call cloudtest.Call) (error, error) {
			if call.Name == "CheckAccess" {
				return cloudtest.Err(cloud.KindForbidden), nil
			}
			return nil, nil
		}
		for range 3 {
			w.clock.Step(time.Hour)
			w.must(w.step())
		}
		if report, _ := w.inventory.Zone(zone); w.host() == nil || !report.Suspicious {
			t.Errorf("host %v, report %+v", w.host(), report)
		}
	})
	t.Run("missed once, then back", func(t *testing.T) {
		w := newWorld(t)
		w.another(1)
		w.untilPhase(infrav1.HostAvailable)
		server, _ := w.cloud.Server(serverID)
		w.cloud.Remove(serverID)
		w.must(w.step())
		w.cloud.Set(server, "")
		w.clock.Step(time.Hour)
		w.must(w.step())
		if h := w.host(); h.Status.MissingSince != nil || h.Status.Phase != infrav1.HostAvailable {
			t.Errorf("status %+v", h.Status)
		}
	})
	t.Run("claimed", func(t *testing.T) {
		w := inUse(t)
		w.another(1)
		w.cloud.Remove(serverID)
		w.clock.Step(time.Minute)
		w.untilPhase(infrav1.HostGone)
		w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1"}}))
		w.until("removed", func() bool { return w.host() == nil })
	})
	t.Run("forbidden", func(t *testing.T) {
		w := newWorld(t)
		w.untilPhase(infrav1.HostAvailable)
		w.claim("m-1", "t-1")
		w.cloud.Fault = func(call cloudtest.Call) (error, error) {
			if call.Name == "GetServer" {
				return cloudtest.Err(cloud.KindForbidden), nil
			}
			return nil, nil
		}
		for range 5 {
			if err := w.step(); err != nil && !cloud.IsForbidden(err) {
				t.Fatalf("got %v", err)
			}
		}
		if w.phase() != infrav1.HostClaimed {
			t.Errorf("phase %s", w.phase())
		}
	})
}

func TestVendorCallsAreCountedByResult(t *testing.T) {
	registry := prometheus.NewRegistry()
	vendor := &cloudtest.Cloud{}
	for range 2 { // a second manager in the process counts into the same series
		counted, err := Measured(vendor, registry)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = counted.GetServer(context.Background(), zone, serverID)
		if !cloud.IsForbidden(err) {
			t.Fatal(err)
		}
		if _, err := counted.ListServers(context.Background(), zone); err != nil {
			t.Fatal(err)
		}
	}
	want := `
# HELP macfleet_vendor_requests_total Calls to the vendor by name and result.
# TYPE macfleet_vendor_requests_total counter
macfleet_vendor_requests_total{call="GetServer",result="forbidden"} 2
macfleet_vendor_requests_total{call="ListServers",result="ok"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "macfleet_vendor_requests_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "macfleet_vendor_request_duration_seconds"); n != 2 || err != nil {
		t.Errorf("%d series of durations, %v", n, err)
	}
	if diff := cmp.Diff("other", result(errors.New("x"))); diff != "" {
		t.Error(diff)
	}
}
