package machine

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

// putBack gives the profile its former labels, and takes the turn away.
func (w *world) putBack() {
	w.t.Helper()
	profile := &infrav1.MacNodeProfile{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "builders"}, profile)
	profile.Spec.Node.Labels = nil
	w.update(profile)
	w.turn("mac-1", "")
}

// A Mac that was on its way to another revision is at none, whatever is wanted now,
// until one is proved; that takes one push in a turn, and no more.
func TestAProfilePutBackIsProvedAgain(t *testing.T) {
	for name, change := range map[string]func(w *world, wanted string){
		"after the push failed": func(w *world, wanted string) {
			w.mac.set(func(f *fakeMac) {
				report := document.Report{Steps: []document.StepReport{
					{Name: "network", Outcome: document.Changed}, {Name: "launchd", Outcome: document.Failed, Class: document.Retry, Detail: "x"},
				}}
				f.convErr = &remote.Failed{Report: report, Class: document.Retry}
			})
			w.turn("mac-1", wanted)
			w.settle("mac-1")
			w.mac.set(func(f *fakeMac) { f.convErr = nil })
			w.putBack()
		},
		"in the push": func(w *world, wanted string) {
			w.mac.set(func(f *fakeMac) { f.onConverge = w.putBack })
			w.turn("mac-1", wanted)
			w.settle("mac-1")
			w.mac.set(func(f *fakeMac) { f.onConverge = nil })
		},
		"while the manager was away": func(w *world, wanted string) {
			w.mac.set(func(f *fakeMac) { f.hold = true })
			w.turn("mac-1", wanted)
			w.settle("mac-1")
			w.putBack()
			w.restart()
			w.mac.set(func(f *fakeMac) { f.hold = false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, wanted := profiled(t)
			former := w.machine("mac-1").Status.Applied
			change(w, wanted)
			w.settle("mac-1")
			if got := w.reason("mac-1", infrav1.UpToDateCondition); got != infrav1.ReasonDrifted || w.machine("mac-1").Status.Applied.Revision != "" {
				t.Fatalf("UpToDate = %s at revision %q, after half of another", got, w.machine("mac-1").Status.Applied.Revision)
			}
			pushes := len(w.mac.desired)
			w.turn("mac-1", former.Revision)
			w.settle("mac-1")
			w.settle("mac-1")
			last := w.mac.desired[len(w.mac.desired)-1]
			if got := w.machine("mac-1").Status.Applied; got != former || len(w.mac.desired) != pushes+1 || len(last.Node.Labels) > 0 {
				t.Errorf("applied %+v after %d pushes, the last to the labels %v", got, len(w.mac.desired)-pushes, last.Node.Labels)
			}
			if got := w.reason("mac-1", infrav1.UpToDateCondition); got != infrav1.UpToDateCondition {
				t.Errorf("UpToDate = %s", got)
			}
		})
	}
}

// What a Mac was at is forgotten before it is touched, in a write that succeeded.
func TestTheRevisionIsForgottenFirst(t *testing.T) {
	w, wanted := profiled(t)
	before := w.machine("mac-1").Status.Applied
	w.mu.Lock()
	w.fail = func(verb string, o client.Object) error {
		if verb == "patch status of" {
			return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errPlain)
		}
		return nil
	}
	w.mu.Unlock()
	w.turn("mac-1", wanted)
	for range 3 {
		w.visit("mac-1")
	}
	if _, begun := w.r.pushes.Look(client.ObjectKey{Namespace: namespace, Name: "mac-1"}); begun {
		t.Error("pushed to before it was written down")
	}
	w.mu.Lock()
	w.fail = noFault
	w.mu.Unlock()
	var during infrav1.AppliedStatus
	w.mac.set(func(f *fakeMac) { f.onProbe = func() { during = w.machine("mac-1").Status.Applied } })
	w.settle("mac-1")
	before.Revision = ""
	if during != before {
		t.Errorf("while it is pushed to it shows %+v, want %+v", during, before)
	}
}

// A Mac that is at no revision is no fresh one: it joins again only where its Node
// needs it, and not while it holds a token that is good.
func TestAMacAtNoRevisionIsNoFreshOne(t *testing.T) {
	w, wanted := profiled(t)
	w.mac.set(func(f *fakeMac) { f.convErr = &remote.Failed{Class: document.Retry} })
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	w.turn("mac-1", "")
	w.settle("mac-1")
	core := &clusterv1.Machine{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "mac-1"}, core)
	core.Finalizers = []string{clusterv1.MachineFinalizer}
	w.update(core)
	w.delete(core)
	w.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}})
	pushes := len(w.mac.desired)
	w.settle("mac-1")
	if len(w.mac.desired) != pushes {
		t.Error("a Mac whose Machine leaves was told to join again")
	}
}

// A wish to restart brings a changed profile along, and may stop half-way too.
func TestARestartForgetsTheRevisionToo(t *testing.T) {
	w, _ := profiled(t)
	w.mac.set(func(f *fakeMac) { f.convErr = &remote.Failed{Class: document.Retry} })
	w.askRestart("mac-1", "now")
	w.settle("mac-1")
	w.putBack()
	w.settle("mac-1")
	if got := w.machine("mac-1").Status.Applied.Revision; got != "" {
		t.Errorf("applied = %.12s after half of another revision", got)
	}
}

func TestALeavingMacIsNotChanged(t *testing.T) {
	w, wanted := profiled(t)
	core := &clusterv1.Machine{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "mac-1"}, core)
	core.Finalizers = []string{clusterv1.MachineFinalizer}
	w.update(core)
	w.delete(core)
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	if len(w.mac.desired) != 1 {
		t.Error("a Mac whose Machine leaves was changed in its turn")
	}
}

// Two programs that look at one Mac and change it at once would tell nonsense: a
// push waits for the end of a check.
func TestAPushWaitsForTheCheck(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.checks = 6 * time.Hour
	w.restart()
	w.running("mac-1")
	looking, looked := make(chan struct{}), make(chan struct{})
	w.mac.set(func(f *fakeMac) { f.onPlan = func() { close(looking); <-looked } })
	w.clock.SetTime(w.clock.Now().Add(6 * time.Hour))
	w.visit("mac-1")
	<-looking
	w.askRestart("mac-1", "now")
	for range 3 {
		w.visit("mac-1")
	}
	key := types.NamespacedName{Namespace: namespace, Name: "mac-1"}
	if _, begun := w.r.pushes.Look(key); begun {
		t.Error("pushed to while it was looked at")
	}
	close(looked)
	w.settle("mac-1")
	w.settle("mac-1")
	if len(w.mac.desired) != 2 {
		t.Errorf("%d pushes after the check, want one", len(w.mac.desired)-1)
	}
}

// The firewall on the Mac can tell only so whether it would shut the manager out.
func TestTheMacIsToldFromWhereItIsManaged(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.mac.facts.Client = netip.MustParseAddr("203.0.113.9")
	w.running("mac-1")
	if got := w.mac.desired[0].Host.ManagedFrom; got != "203.0.113.9" {
		t.Errorf("managedFrom = %q", got)
	}
}

// A server whose address the vendor has changed is tried at both.
func TestAServerThatMovedIsDialledThereToo(t *testing.T) {
	w, wanted := profiled(t)
	if got := w.mac.dials[0].Addresses; len(got) != 0 {
		t.Errorf("other addresses %q of a Mac that has one", got)
	}
	h := w.host(hostName)
	h.Status.Server.IP = "10.0.0.9"
	w.updateStatus(h)
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	last := w.mac.dials[len(w.mac.dials)-1]
	if last.Address != "10.0.0.1" || !slices.Equal(last.Addresses, []string{"10.0.0.9"}) {
		t.Errorf("dialled %s and %q", last.Address, last.Addresses)
	}
}
