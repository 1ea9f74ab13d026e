package remediation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// The agent of a Mac that nobody reaches cannot be restarted: only the vendor can do
// something about it.
func TestAMacThatIsNotReachedIsRebootedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		node   corev1.ConditionStatus
		reason string
		step   string
	}{
		"neither heard of nor reached": {corev1.ConditionUnknown, infrav1.ReasonSSHUnreachable, infrav1.ReasonRebooting},
		"heard of":                     {corev1.ConditionFalse, infrav1.ReasonSSHUnreachable, infrav1.ReasonRestartingAgent},
		"reached":                      {corev1.ConditionUnknown, infrav1.BootstrappedCondition, infrav1.ReasonRestartingAgent},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *objects) {
				o.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.node}}
			})
			w.settle()
			w.is(infrav1.ReasonRestartingAgent, infrav1.ReasonRestartingAgent)
			before := w.machine()
			m := w.machine()
			conditions.Set(m, metav1.Condition{Type: infrav1.BootstrappedCondition, Status: metav1.ConditionFalse, Reason: c.reason})
			w.setStatus(m)
			if wakes := machineChanges().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: m}); wakes != (c.reason == infrav1.ReasonSSHUnreachable) {
				t.Errorf("the change wakes the remediation: %t", wakes)
			}
			w.clock.Step(time.Second)
			w.settle()
			w.is(c.step, c.step)
			if asked := w.host().Spec.Reboot != nil; asked != (c.step == infrav1.ReasonRebooting) {
				t.Errorf("a reboot is asked for: %t", asked)
			}
		})
	}
}
