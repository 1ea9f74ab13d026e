package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/fleetkey"
)

// askRestart annotates the Machine as the remediation controller does.
func (w *world) askRestart(name, id string) {
	w.t.Helper()
	m := w.machine(name)
	m.Annotations = map[string]string{infrav1.RestartAgentAnnotation: id}
	w.update(m)
}

func (w *world) nodeStatus(name string, ready corev1.ConditionStatus) {
	w.t.Helper()
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: name}, node)
	since := metav1.NewTime(w.clock.Now())
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: since}}
	w.updateStatus(node)
}

func TestAgentIsRestartedOnceForEachWish(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	pushes := len(w.mac.desired)
	revision := w.machine("mac-1").Status.Applied.Revision
	for i, id := range []string{"first", "second"} {
		w.askRestart("mac-1", id)
		w.settle("mac-1")
		w.settle("mac-1")
		if got := len(w.mac.desired); got != pushes+i+1 {
			t.Fatalf("%d pushes for the wish %q, want one", got-pushes-i, id)
		}
		got := w.mac.desired[pushes+i]
		if got.Restart != id || got.Join != nil {
			t.Errorf("restart %q with join %v; want %q, and a Node that is Ready needs no token", got.Restart, got.Join, id)
		}
		want := infrav1.AppliedStatus{Revision: revision, Agent: w.r.Agent.SHA256, Restart: id}
		want.SSHKey = fleetkey.Fingerprint(w.secret("builders-ssh")[fleetkey.KeyPublic])
		if got := w.machine("mac-1").Status.Applied; got != want {
			t.Errorf("applied = %+v, want %+v", got, want)
		}
	}
	w.restart()
	w.settle("mac-1")
	if got := len(w.mac.desired); got != pushes+2 {
		t.Error("another manager restarts the agent again")
	}
}

// Its certificate may be why the Node is not Ready.
func TestRestartBringsATokenToAnUnreadyNode(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	w.nodeStatus("mac-1", corev1.ConditionUnknown)
	pushes := len(w.mac.desired)
	w.settle("mac-1")
	if len(w.mac.desired) != pushes {
		t.Fatal("pushed without a wish")
	}
	w.askRestart("mac-1", "first")
	w.settle("mac-1")
	if len(w.mac.desired) != pushes+1 || w.mac.desired[pushes].Join == nil || w.mac.desired[pushes].Restart != "first" {
		t.Errorf("%d pushes, the last %+v; want one with a token", len(w.mac.desired)-pushes, w.mac.desired[pushes:])
	}
}

// A Mac whose permit is used up waits for ever with it, also while its token could
// still be used: a person who asks for a restart brings another.
func TestRestartBringsAPermitWhereThereIsNoNode(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	w.settle("mac-1")
	pushes := len(w.mac.desired)
	first := w.mac.desired[pushes-1].Join.Permit.ID
	w.askRestart("mac-1", "first")
	w.settle("mac-1")
	if len(w.mac.desired) != pushes+1 || w.mac.desired[pushes].Join == nil || w.mac.desired[pushes].Join.Permit.ID == first {
		t.Fatalf("%d pushes, the last %+v; want one with another permit", len(w.mac.desired)-pushes, w.mac.desired[pushes:])
	}
	if len(w.tokens()) != 1 {
		t.Errorf("tokens = %q, want one", w.tokens())
	}
	w.settle("mac-1")
	if len(w.mac.desired) != pushes+1 {
		t.Error("one wish, two restarts")
	}
}

// A restart that could not be made is not said to be; taken back, it is forgotten.
func TestRestartThatFailsIsNotApplied(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	w.mac.set(func(m *fakeMac) { m.dialErr = errPlain })
	w.askRestart("mac-1", "first")
	w.settle("mac-1")
	if got := w.machine("mac-1").Status.Applied.Restart; got != "" {
		t.Fatalf("applied restart %q of a Mac that does not answer", got)
	}
	m := w.machine("mac-1")
	m.Annotations = nil
	w.update(m)
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.BootstrappedCondition {
		t.Errorf("Bootstrapped = %s after the wish was taken back", got)
	}
}
