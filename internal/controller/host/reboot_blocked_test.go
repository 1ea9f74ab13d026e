package host

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// goOn ends the Cluster's pause.
func (w *world) goOn() {
	w.t.Helper()
	c := &clusterv1.Cluster{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "c"}, c))
	c.Spec.Paused = nil
	w.must(w.client.Update(w.ctx, c))
}

func (w *world) steps(n int) {
	w.t.Helper()
	for range n {
		w.must(w.step())
	}
}

// during runs a change right before a call of the vendor, once.
func (w *world) during(call string, change func()) {
	done := false
	w.cloud.OnCall = func(c cloudtest.Call) {
		if c.Name == call && !done {
			done = true
			change()
		}
	}
}

func TestAClusterThatIsPausedOrMovedHoldsReboots(t *testing.T) {
	remove := func(w *world) {
		w.must(w.client.Delete(w.ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "c"}}))
	}
	pause := func(w *world) { w.pause() }
	for name, c := range map[string]struct {
		id     string
		force  bool
		change func(*world)
		want   int
	}{
		"recovery, paused":       {host.BootstrapRebootID("t-1"), true, pause, 0},
		"recovery, moved":        {host.BootstrapRebootID("t-1"), true, remove, 0},
		"remediation, paused":    {host.RemediationRebootID("7b0c6bd5-6a9e-4c6c-9f0e-1b9f53a3f4ad"), false, pause, 0},
		"remediation, forced":    {host.RemediationRebootID("7b0c6bd5-6a9e-4c6c-9f0e-1b9f53a3f4ad"), true, pause, 0},
		"by hand, paused":        {"by-hand-1", false, pause, 0},
		"by hand forced, paused": {"by-hand-2", true, pause, 1},
		"by hand forced, moved":  {"by-hand-2", true, remove, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for when, arrange := range map[string]func(*world){
				"before":        c.change,
				"at the moment": func(w *world) { w.during("GetServer", func() { c.change(w) }) },
			} {
				w := inUse(t)
				w.undiagnosed(nil)
				arrange(w)
				w.askReboot(c.id, c.force)
				w.steps(4)
				if got := w.calls("RebootServer"); got != c.want {
					t.Errorf("%s: %d power cuts, want %d", when, got, c.want)
				}
			}
		})
	}
}

func TestARebootGoesOnWhenItsClusterDoes(t *testing.T) {
	w := inUse(t)
	w.undiagnosed(nil)
	w.pause()
	w.askReboot(host.BootstrapRebootID("t-1"), true)
	w.steps(3)
	if got := w.reason(host.RebootedCondition); got != host.ReasonRebootWaiting || w.calls("StartDiagnostic") != 0 {
		t.Fatalf("reason %s, calls %v", got, w.cloud.Calls())
	}
	w.goOn()
	w.until("taken", w.taken1)
}

// What changes hands while the vendor's diagnostic runs is not power-cut.
func TestAHostThatChangesHandsMeanwhileIsNotRebooted(t *testing.T) {
	for name, change := range map[string]func(*world, *host.Host){
		"handed over":             func(w *world, h *host.Host) { host.RecordMove(h, w.clock.Now()) },
		"detached":                func(w *world, h *host.Host) { host.Detach(h, w.clock.Now()) },
		"another claim":           func(_ *world, h *host.Host) { h.Spec.ClaimRef.Token = "t-2" },
		"another request":         func(_ *world, h *host.Host) { h.Spec.Reboot.ID = "later" },
		"maintenance, not forced": func(_ *world, h *host.Host) { h.Spec.Reboot.Force, h.Spec.Maintenance = false, &infrav1.Maintenance{} },
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			w.undiagnosed(nil)
			w.askReboot("by-hand", true)
			w.inventory.Sweep(w.ctx)
			w.during("GetServer", func() {
				h := w.host()
				change(w, h)
				w.must(w.client.Update(w.ctx, h))
			})
			_, _ = w.reconcile()
			if got := w.calls("RebootServer"); got != 0 {
				t.Errorf("%d power cuts", got)
			}
		})
	}
}

// Two clusters claimed one Mac, and the other one won: our claim ends, and with it
// the reboot that it asked for.
func TestAForsakenMacIsNotRebooted(t *testing.T) {
	w := inUse(t)
	w.undiagnosed(nil)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "other-clusters-machine" })
	w.askReboot(host.BootstrapRebootID("t-1"), true)
	w.until("lost", func() bool { return host.ChangedByOther(w.host()) })
	h := w.host()
	host.Detach(h, w.clock.Now())
	w.must(w.client.Update(w.ctx, h))
	w.steps(4)
	if got := w.calls("RebootServer"); got != 0 {
		t.Errorf("%d power cuts of another cluster's Mac", got)
	}
}

// A claim that an adoption made has no Cluster that could be paused or gone.
func TestTheNodeOfAnAdoptedHostGoes(t *testing.T) {
	w := newWorld(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "fleet-old-machine" })
	w.untilPhase(infrav1.HostForeign)
	w.put(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet-old-machine"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)},
	})
	h := w.host()
	h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: prefix}
	w.must(w.client.Update(w.ctx, h))
	w.wiped()
	nodes := &corev1.NodeList{}
	w.must(w.client.List(w.ctx, nodes))
	if w.phase() != infrav1.HostAvailable || len(nodes.Items) != 0 {
		t.Errorf("phase %s, %d Nodes bear the providerID of a Mac that was wiped", w.phase(), len(nodes.Items))
	}
}
