package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// beside has the world go on with a manager of another namespace than its Machine's.
func (w *world) beside() {
	opts := w.r.Options
	opts.Namespace = "other-system"
	w.start(opts)
	w.confine()
	w.cloud.Forget()
}

// untouched fails the test when some looks write to the Host, or change the server.
func (w *world) untouched() {
	w.t.Helper()
	before := w.host().ResourceVersion
	for range 5 {
		w.must(w.step())
	}
	if now := w.host(); now.ResourceVersion != before {
		w.t.Errorf("the Host was written: %+v", now)
	}
	if got := w.mutations(); len(got) != 0 {
		w.t.Errorf("the vendor was asked for %v", got)
	}
}

// Two releases in one cluster see each other's Macs.
func TestAMacOfAnotherNamespaceIsItsManagersAlone(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"in use": func(*world) {},
		"shown to its owner": func(w *world) {
			h := w.host()
			h.Status.ShownSince = nil
			w.must(w.client.Status().Update(w.ctx, h))
		},
		"rebooting": func(w *world) {
			server, _ := w.cloud.Server(serverID)
			server.Status = cloud.StatusRebooting
			w.cloud.Set(server, "")
		},
		"its Machine is gone": func(w *world) {
			w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1"}}))
		},
		"released": (*world).release,
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			prepare(w)
			w.beside()
			w.untouched()
		})
	}
}

// A Mac whose whole fleet is gone, and its manager with it, is everybody's to look after.
func TestAMacOfANamespaceWithoutItsClusterIsLookedAfter(t *testing.T) {
	w := inUse(t)
	w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1"}}))
	w.must(w.client.Delete(w.ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "c"}}))
	w.beside()
	w.untilPhase(infrav1.HostStranded)
	w.release()
	w.wiped()
	w.checkFree()
}

// What each has read last is written by each once, and not against the other.
func TestTwoManagersDoNotWriteAgainstEachOther(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	first, list := w.r, w.inventory
	w.start(first.Options)
	w.must(w.step())

	server, _ := w.cloud.Server(serverID)
	server.Status = cloud.StatusRebooting
	w.cloud.Set(server, "")
	w.must(w.step()) // the second one's list shows it
	if got := w.host().Status.Server.Status; got != string(cloud.StatusRebooting) {
		t.Fatalf("the status says %s", got)
	}
	before := w.host().ResourceVersion
	for _, r := range []*Reconciler{first, w.r, first, w.r} { // as their watches wake them
		w.r = r
		w.reconcileOf(w.host().Name)
		w.clock.Step(time.Second)
	}
	if now := w.host(); now.ResourceVersion != before {
		t.Errorf("the older reading was written over the newer one: %+v", now.Status.Server)
	}

	server.Status = cloud.StatusReady
	w.cloud.Set(server, "")
	w.r, w.inventory = first, list
	w.untilPhase(infrav1.HostAvailable) // what the first one lists now is newer
}

// A release whose fleet and manager are gone in the middle leaves a Cluster that waits for ever for its Machines.
func TestAReleaseThatNobodyEndsIsEnded(t *testing.T) {
	w := inUse(t)
	c := &clusterv1.Cluster{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "c"}, c))
	c.Finalizers = []string{clusterv1.ClusterFinalizer}
	w.must(w.client.Update(w.ctx, c))
	w.must(w.client.Delete(w.ctx, c))
	w.beside()
	w.untouched()
	w.release()
	w.wiped()
	w.checkFree()
}

// That a server is missing is told, whoever has written last that it was there.
func TestWhatOthersWroteHidesNoMissingServer(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	h := w.host()
	h.Status.Server.IP = "51.159.1.9" // as a status that is restored
	w.must(w.client.Status().Update(w.ctx, h))
	w.reconcileOf(h.Name)
	w.clock.Step(time.Second)
	w.cloud.Remove(serverID)
	w.must(w.step())
	if w.host().Status.MissingSince == nil {
		t.Error("the first list that lacks the server is not told")
	}
}

// Two releases in one cluster each have a sweep: a stray goes to the one whose manager it is, and
// what is claimed from another namespace is left to the one there.
func TestTheSweepTakesBackForItsOwnNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		namespace string
		claimed   bool
		taken     bool
	}{
		"nobody's, the first's":  {"fleet", false, true},
		"nobody's, the second's": {"other", false, true},
		"nobody's, no Cluster":   {"third", false, false},
		"its own":                {"fleet", true, true},
		"another's":              {"other", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := strays(t, claimedPrefix+"m")
			w.must(w.client.Create(w.ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "c"}}))
			w.must(w.client.Create(w.ctx, &infrav1.ScalewayAppleSiliconCluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "infra", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}},
				Spec:       infrav1.ScalewayAppleSiliconClusterSpec{Zones: []string{zone}},
			}))
			if c.claimed {
				h := w.stray(0)
				h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "fleet", Name: claimedPrefix + "m", UID: "u", Cluster: "c", Token: "t"}
				w.must(w.client.Update(w.ctx, h))
				w.settle(1)
			}
			s.Namespace = c.namespace
			w.twice(s)
			if taken := w.taken(1) != nil; taken != c.taken {
				t.Errorf("taken back: %t", taken)
			}
			if claim := w.stray(0).Spec.ClaimRef; c.taken && claim.Namespace != c.namespace {
				t.Errorf("released for %s", claim.Namespace)
			}
		})
	}
}
