package host

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// distrusting is a manager that takes no host whose past it does not know.
func distrusting(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.r.RefuseUnseen = true
	return w
}

func (w *world) availableSays() string {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.host().Status.Conditions, infrav1.AvailableCondition); c != nil {
		return c.Reason + ": " + c.Message
	}
	return ""
}

// unaware has the manager's cache know no Host and no Machine yet.
func (w *world) unaware() {
	w.r.Client = interceptor.NewClient(w.r.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			switch list.(type) {
			case *infrav1.ScalewayAppleSiliconHostList, *infrav1.ScalewayAppleSiliconMachineList:
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
}

func TestAHostThatWasNeverSeenWipedIsWipedOnce(t *testing.T) {
	w := distrusting(t)
	w.until("released", func() bool {
		if h := w.host(); h != nil && h.Status.Phase == infrav1.HostAvailable {
			t.Fatal("free before it was wiped")
		}
		return w.host() != nil && w.host().Spec.Release != nil
	})
	h := w.host()
	if h.Spec.Release.Origin != infrav1.OriginUnseen || h.Spec.Release.PoolPrefix != prefix || !host.WipeAllowed(h) || h.Spec.Record.DisturbedAt == nil {
		t.Fatalf("spec %+v", h.Spec)
	}
	w.wiped()
	if diff := cmp.Diff([]string{"ReinstallServer", "RenameServer " + poolName}, w.mutations()); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
	for range 5 {
		w.must(w.step())
	}
	if w.phase() != infrav1.HostAvailable || w.called("ReinstallServer") != 1 {
		t.Errorf("phase %s, %d wipes", w.phase(), w.called("ReinstallServer"))
	}
	// A host object that is lost is no reason to wipe it again: its name tells.
	w.must(w.client.Delete(w.ctx, w.host()))
	w.untilPhase(infrav1.HostAvailable)
	if w.called("ReinstallServer") != 1 {
		t.Error("wiped again")
	}
}

func TestATrustingManagerTakesThePoolAsItIs(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

// Whatever speaks for the host's being used, or for a storm, holds the wipe back, and
// Available says so. The cache does not know of it yet.
func TestTheWipeOfAnUnseenHostIsHeldBack(t *testing.T) {
	edit := func(change func(*host.Host)) func(*world) {
		return func(w *world) {
			h := w.host()
			change(h)
			w.must(w.client.Update(w.ctx, h))
		}
	}
	for name, c := range map[string]struct {
		arrange func(*world)
		says    string
	}{
		"a Node": {func(w *world) {
			w.must(w.client.Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)}}))
		}, "Node old bears its providerID"},
		"a Machine": {func(w *world) {
			m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-9"}}
			m.Spec.ProviderID = host.ProviderID(zone, serverID)
			w.must(w.client.Create(w.ctx, m))
		}, "a live Machine means this server"},
		"the storm guard": {func(w *world) {
			const id = "99999999-2222-3333-4444-555555555555"
			w.cloud.Set(cloud.Server{ID: id, Zone: zone, Name: prefix + "2", Status: cloud.StatusReady, Delivered: true}, "x")
			now := metav1.NewMicroTime(w.clock.Now())
			h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: host.ObjectName(zone, id)}}
			h.Spec.Zone, h.Spec.ServerID, h.Spec.Record.DisturbedAt = zone, id, &now
			w.must(w.client.Create(w.ctx, h))
		}, "were wiped or rebooted by recovery within the hour"},
		"maintenance":   {edit(func(h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{} }), "in maintenance"},
		"quarantine":    {edit(func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "x"} }), "quarantined"},
		"not delivered": {func(w *world) { w.cloud.Change(serverID, func(s *cloud.Server) { s.Delivered = false }) }, "not delivered"},
		"not in a pool": {func(w *world) { w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "jane" }) }, "not in the pool"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.untilPhase(infrav1.HostAvailable)
			c.arrange(w)
			w.unaware()
			w.r.RefuseUnseen = true
			for range 4 {
				w.must(w.step())
			}
			if h := w.host(); h.Spec.Release != nil || h.Spec.ClaimRef != nil || len(w.mutations()) != 0 {
				t.Fatalf("spec %+v, mutations %v", h.Spec, w.mutations())
			}
			if got := w.availableSays(); !strings.Contains(got, c.says) || w.phase() == infrav1.HostAvailable {
				t.Errorf("Available: %s", got)
			}
		})
	}
}

func TestOneUnseenHostIsJudgedAtATime(t *testing.T) {
	w := distrusting(t)
	w.r.unseen.Lock() // as long as another one is judged
	w.steps(4)
	if got := w.availableSays(); w.host().Spec.Release != nil || !strings.Contains(got, "another one is being judged") {
		t.Errorf("spec %+v, Available: %s", w.host().Spec, got)
	}
	w.r.unseen.Unlock()
	w.until("released", func() bool { return w.host().Spec.Release != nil })
}

// A host that was claimed here is clean or dirty by its record, as ever.
func TestAUsedHostIsNoUnseenOne(t *testing.T) {
	w := inUse(t)
	w.r.RefuseUnseen = true
	w.release()
	w.wiped()
	for range 4 {
		w.must(w.step())
	}
	if w.called("ReinstallServer") != 1 || w.phase() != infrav1.HostAvailable {
		t.Errorf("%d wipes, phase %s", w.called("ReinstallServer"), w.phase())
	}
}
