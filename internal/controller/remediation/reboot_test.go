package remediation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// CAPH#2237: a reboot cannot bring a deleted Node back.
func TestContract_DeletedNodeIsNotRebooted(t *testing.T) {
	w := newWorld(t, func(o *objects) { o.node = nil })
	w.settle()
	w.is(infrav1.ReasonRestartingAgent, infrav1.ReasonRestartingAgent)
	w.clock.Step(host.DefaultAgentRestartTimeout)
	w.settle()
	w.is(infrav1.ReasonExhausted, infrav1.ReasonExhausted)
	if w.host().Spec.Reboot != nil {
		t.Error("rebooted for a Node that does not exist")
	}
}

// The host's story of the reboot has what led to it, and keeps it while the Node says other things.
func TestARebootSaysWhatLedToIt(t *testing.T) {
	silent := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}
	w := newWorld(t, func(o *objects) {
		o.node.Status.Conditions = []corev1.NodeCondition{silent}
		o.remediation.Spec.AgentRestartTimeoutSeconds = ptr.To[int32](0)
	})
	w.settle()
	const why = "its Node's condition Ready is Unknown (NodeStatusUnknown: Kubelet stopped posting node status)"
	if got := conditions.GetMessage(w.remediation(), infrav1.RemediatedCondition); got != "a reboot is asked for: "+why {
		t.Errorf("Remediated says %q", got)
	}
	for range 2 {
		if got := w.host().Spec.Reboot; got == nil || got.Reason != "remediation of Machine mac-1: "+why {
			t.Errorf("the reboot asked for: %+v", got)
		}
		node := &corev1.Node{}
		w.get(client.ObjectKey{Name: key.Name}, node)
		node.Status.Conditions[0].Reason = "NodeStatusNeverUpdated"
		w.setStatus(node)
		w.settle()
	}
}

// A Node may say of itself what is more than a condition or an event may have.
func TestANodeThatSaysTooMuchIsRebooted(t *testing.T) {
	w := newWorld(t, func(o *objects) {
		o.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "Broken", Message: strings.Repeat("ä", 20_000)}}
		o.remediation.Spec.AgentRestartTimeoutSeconds = ptr.To[int32](0)
	})
	w.settle()
	w.is(infrav1.ReasonRebooting, infrav1.ReasonRebooting)
	if got := conditions.GetMessage(w.remediation(), infrav1.RemediatedCondition); len(got) > host.MostNote || !strings.Contains(got, "Broken: ää") {
		t.Errorf("%d bytes: %.80s", len(got), got)
	}
}

// Somebody else's request is met first.
func TestForeignRebootIsKept(t *testing.T) {
	w := newWorld(t, func(o *objects) {
		o.host.Spec.Reboot = &infrav1.RebootRequest{ID: "a-person", Reason: "looks stuck"}
		o.remediation.Spec.AgentRestartTimeoutSeconds = ptr.To[int32](0)
	})
	w.settle()
	if got := w.host().Spec.Reboot.ID; got != "a-person" {
		t.Fatalf("the request is now %q", got)
	}
	w.rebooted()
	w.settle()
	if got := w.host().Spec.Reboot; got == nil || got.ID != host.RemediationRebootID(id) {
		t.Errorf("the request is now %+v, want ours", got)
	}
}

// One that is taken back leaves no trace but that it is gone: nothing else says that it is
// the remediation's turn.
func TestTheEndOfAForeignRebootWakes(t *testing.T) {
	asked := &infrav1.ScalewayAppleSiliconHost{}
	asked.Spec.Reboot = &infrav1.RebootRequest{ID: "a-person", Reason: "looks stuck"}
	if !hostChanges().Update(event.UpdateEvent{ObjectOld: asked, ObjectNew: &infrav1.ScalewayAppleSiliconHost{}}) {
		t.Error("the remediation sleeps on")
	}
}

// Nor does a remediation that ends take it back.
func TestForeignRebootOutlivesARemediation(t *testing.T) {
	w := newWorld(t, func(o *objects) { o.host.Spec.Reboot = &infrav1.RebootRequest{ID: "a-person", Reason: "new SSD"} })
	w.settle()
	w.nodeReady()
	w.settle()
	if got := w.host().Spec.Reboot; got == nil || got.ID != "a-person" {
		t.Errorf("the request is now %+v, want the person's", got)
	}
}

// A reboot that nobody took is not left behind for the next owner of the Mac.
func TestNoRebootIsLeftBehind(t *testing.T) {
	asked := func(o *objects) {
		o.remediation.Finalizers = []string{finalizer}
		o.remediation.Status.Step = infrav1.ReasonRebooting
		o.remediation.Status.StepStartedAt = ptr.To(metav1.NewMicroTime(time.Unix(1_800_000_000, 0)))
		o.host.Spec.Reboot = &infrav1.RebootRequest{ID: host.RemediationRebootID(id), Reason: "remediation"}
	}
	t.Run("given up", func(t *testing.T) {
		w := newWorld(t, asked)
		w.clock.Step(time.Hour)
		w.settle()
		w.is(infrav1.ReasonExhausted, infrav1.ReasonExhausted)
		if w.host().Spec.Reboot != nil {
			t.Error("the reboot stays asked for")
		}
	})
	t.Run("asked for in an earlier round", func(t *testing.T) {
		w := newWorld(t, asked, func(o *objects) { o.remediation.Status.Round, o.remediation.Status.Step = 1, "" })
		w.nodeReady()
		w.settle()
		if w.host().Spec.Reboot != nil {
			t.Error("the reboot stays asked for")
		}
	})
	t.Run("Machine being deleted", func(t *testing.T) {
		w := newWorld(t, asked, func(o *objects) { remove(&o.owner.ObjectMeta, time.Unix(1_800_000_000, 0)) })
		w.settle()
		if w.host().Spec.Reboot != nil {
			t.Error("the reboot stays asked for")
		}
	})
}
