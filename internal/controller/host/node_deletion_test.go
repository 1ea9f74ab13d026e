package host

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

func (w *world) node(name string) {
	w.t.Helper()
	w.must(w.client.Create(w.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)},
	}))
}

func (w *world) hasNode(name string) bool {
	w.t.Helper()
	err := w.client.Get(w.ctx, client.ObjectKey{Name: name}, &corev1.Node{})
	if !apierrors.IsNotFound(err) {
		w.must(err)
	}
	return err == nil
}

// detach does the machine controller's part.
func (w *world) detach() {
	w.t.Helper()
	h := w.host()
	host.Detach(h, w.clock.Now())
	w.must(w.client.Update(w.ctx, h))
	w.must(w.client.Delete(w.ctx, w.owner()))
}

func (w *world) owner() *infrav1.ScalewayAppleSiliconMachine {
	w.t.Helper()
	m := &infrav1.ScalewayAppleSiliconMachine{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-1"}, m))
	return m
}

func TestADetachedMacNeverComesBackAsANode(t *testing.T) {
	w := inUse(t)
	w.node("m-1")
	w.detach()
	for _, name := range []string{"m-1", "zombie"} {
		if !w.hasNode(name) {
			w.node(name)
		}
		w.must(w.step())
		if w.hasNode(name) {
			t.Errorf("Node %s is still there", name)
		}
	}
	if w.phase() != infrav1.HostForeign || len(w.mutations()) != 0 {
		t.Errorf("phase %s, mutations %v", w.phase(), w.mutations())
	}
	// Reinstalled by hand and observed: from now on a Node is no ghost.
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReinstalling })
	w.until("seen", func() bool { return w.host().Spec.Record.Wipe.StartedAt != nil })
	w.cloud.Finish(serverID)
	w.until("observed", func() bool { return w.host().Spec.Record.DetachedAt == nil })
	w.node("m-1")
	w.must(w.step())
	if !w.hasNode("m-1") {
		t.Error("the Node of a wiped host was deleted")
	}
}

func TestANodeIsOnlyDeletedForAHostThatWasLetGo(t *testing.T) {
	for name, arrange := range map[string]func(*world){
		"in use":  func(*world) {},
		"claimed": func(w *world) { h := w.host(); h.Status.Conditions = nil; w.must(w.client.Status().Update(w.ctx, h)) },
		"claimed, detached before": func(w *world) {
			h := w.host()
			at := metav1.NewMicroTime(w.clock.Now())
			h.Spec.Record.DetachedAt = &at
			w.must(w.client.Update(w.ctx, h))
		},
		"detached, but a live Machine has the Mac": func(w *world) {
			w.detach()
			w.confine() // to another namespace than the Machine's
			w.must(w.client.Create(w.ctx, &infrav1.ScalewayAppleSiliconMachine{
				ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "m-9"},
				Spec:       infrav1.ScalewayAppleSiliconMachineSpec{ProviderID: host.ProviderID(zone, serverID)},
			}))
		},
		"handed over": func(w *world) {
			h := w.host()
			host.RecordMove(h, w.clock.Now())
			w.must(w.client.Update(w.ctx, h))
			w.must(w.client.Delete(w.ctx, w.owner()))
		},
		"stranded": func(w *world) { w.must(w.client.Delete(w.ctx, w.owner())) },
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			w.node("m-1")
			arrange(w)
			for range 3 {
				w.must(w.step())
			}
			if !w.hasNode("m-1") {
				t.Error("the Node is gone")
			}
		})
	}
}

// hookedReader lets something happen when a Node is read.
type hookedReader struct {
	client.Reader
	hook func()
}

func (r hookedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	r.hook()
	return err
}

func TestANodeOfAHostThatIsClaimedMeanwhileStays(t *testing.T) {
	w := inUse(t)
	w.node("m-1")
	w.detach()
	before := w.host()
	w.r.Client = interceptor.NewClient(w.r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if h, ok := o.(*host.Host); ok { // the cache does not know of the claim yet
				before.DeepCopyInto(h)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	claimed := false
	w.r.NodeReader = hookedReader{w.client, func() {
		if !claimed {
			claimed = true
			h := w.host()
			host.Claim(h, infrav1.ClaimReference{Cluster: "c", Namespace: "fleet", Name: "m-2", Token: "t-2"}, w.clock.Now())
			w.must(w.client.Update(w.ctx, h))
		}
	}}
	_, _ = w.reconcile()
	if !claimed || !w.hasNode("m-1") {
		t.Errorf("claimed %v, the Node is there: %v", claimed, w.hasNode("m-1"))
	}
}

// A Mac may register anew between our look and the deletion, under the same name.
func TestANodeThatIsMadeAnewStays(t *testing.T) {
	w := inUse(t)
	w.node("m-1")
	w.detach()
	w.r.NodeReader = hookedReader{w.client, func() {
		w.must(w.client.Delete(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m-1"}}))
		w.must(w.client.Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m-1", UID: "another"}}))
	}}
	_, _ = w.reconcile()
	if !w.hasNode("m-1") {
		t.Error("a later Node of the name was deleted")
	}
}

func TestANodeWakesItsHost(t *testing.T) {
	for id, want := range map[string]string{
		host.ProviderID(zone, serverID): host.ObjectName(zone, serverID),
		"aws://eu-west-1/i-1":           "", "": "", zone + "/" + serverID: "",
	} {
		requests := hostOfNode(t.Context(), &corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}})
		if (want == "") != (len(requests) == 0) || (want != "" && requests[0].Name != want) {
			t.Errorf("%q wakes %v, want %q", id, requests, want)
		}
	}
}

func TestAHandedOverHostIsLeftAlone(t *testing.T) {
	w := inUse(t)
	m := w.owner()
	m.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	w.must(w.client.Update(w.ctx, m))
	h := w.host()
	host.RecordMove(h, w.clock.Now())
	w.must(w.client.Update(w.ctx, h))
	w.untilPhase(infrav1.HostHandedOver)
	w.must(w.client.Delete(w.ctx, m))
	w.must(w.client.Delete(w.ctx, w.secret()))
	w.must(w.step())
	writes := w.written()
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusRebooting }) // by its new cluster
	w.must(w.step())
	for range 5 {
		w.clock.Step(time.Hour)
		w.must(w.step())
	}
	if w.phase() != infrav1.HostHandedOver || len(w.mutations()) != 0 || w.called("GetServer") != 0 || w.secret() != nil || w.written() != writes+1 {
		t.Errorf("phase %s, calls %v, %d writes", w.phase(), w.cloud.Calls(), w.written()-writes)
	}
}

func TestAMachineThatComesBackTakesItsHandedOverHostAgain(t *testing.T) {
	w := inUse(t)
	h := w.host()
	host.RecordMove(h, w.clock.Now())
	w.must(w.client.Update(w.ctx, h))
	w.pause()
	w.must(w.step())
	if w.phase() != infrav1.HostHandedOver {
		t.Fatalf("phase %s while the Cluster is paused", w.phase())
	}
	cluster := &clusterv1.Cluster{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "c"}, cluster))
	cluster.Spec.Paused = nil
	w.must(w.client.Update(w.ctx, cluster))
	w.untilPhase(infrav1.HostInUse)
	if w.host().Spec.Record.HandedOverAt != nil {
		t.Error("still handed over")
	}
}
