package remediation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
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
