package remediation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// toReboot takes the remediation to its reboot, with the restart made before.
func (w *world) toReboot() {
	w.Helper()
	w.settle()
	w.is(infrav1.ReasonRestartingAgent, infrav1.ReasonRestartingAgent)
	m := w.machine()
	m.Status.Applied.Restart = m.Annotations[infrav1.RestartAgentAnnotation]
	w.setStatus(m)
	w.clock.Step(host.DefaultAgentRestartTimeout)
	w.settle()
	w.is(infrav1.ReasonRebooting, infrav1.ReasonRebooting)
}

// verdict is what core says of the Machine.
func (w *world) verdict(healthy metav1.ConditionStatus) {
	w.Helper()
	owner := w.owner()
	conditions.Set(owner, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: healthy, Reason: "Test"})
	w.setStatus(owner)
}

// asksAnew checks that restart and reboot are asked for under other names than before, so
// that they are made.
func (w *world) asksAnew() {
	w.Helper()
	w.toReboot()
	restart, reboot := w.machine().Annotations[infrav1.RestartAgentAnnotation], w.host().Spec.Reboot
	if restart != id+"-1" || reboot == nil || reboot.ID != host.RemediationRebootID(id+"-1") {
		w.Errorf("restart %q, reboot %+v", restart, reboot)
	}
	w.rebooted()
	w.settle()
	w.is(infrav1.ReasonRebooting, infrav1.ReasonRebooting)
}

// Who turns the health check off stops what it began: core leaves the remediation behind.
func TestContract_RemediationEndsWithItsHealthCheck(t *testing.T) {
	check := looksAtDisk()
	w := newWorld(t, func(o *objects) { o.check = check.DeepCopy() })
	w.toReboot()
	if result := w.settle(); result.RequeueAfter > holdPoll {
		t.Errorf("looks again after %s: no watch tells that the health check goes", result.RequeueAfter)
	}
	if err := w.client.Delete(t.Context(), check); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if result := w.settle(); result.RequeueAfter != holdPoll {
			t.Errorf("looks again after %s", result.RequeueAfter)
		}
		w.is("", infrav1.ReasonDiagnosing)
		w.clock.Step(24 * time.Hour)
	}
	if w.host().Spec.Reboot != nil || conditions.Has(w.owner(), clusterv1.MachineOwnerRemediatedCondition) {
		t.Errorf("reboot %+v, conditions of the Machine %+v", w.host().Spec.Reboot, w.owner().Status.Conditions)
	}
	if said := conditions.GetMessage(w.remediation(), infrav1.RemediatedCondition); !strings.Contains(said, "no health check selects the Machine") {
		t.Errorf("it says %q", said)
	}
	if err := w.client.Create(t.Context(), check); err != nil {
		t.Fatal(err)
	}
	w.asksAnew()
}

// Core leaves the remediation of a Machine behind that is well; a person then wants another all
// the same. Machines are not watched.
func TestAPersonsWishWakesARemediationThatIsLeftBehind(t *testing.T) {
	w := newWorld(t)
	w.nodeReady()
	if result := w.settle(); result.RequeueAfter != holdPoll {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	w.is("", infrav1.ReasonRecovered)
	owner := w.owner()
	owner.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
	if err := w.client.Update(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	if result := w.settle(); result.RequeueAfter != holdPoll {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	w.is(infrav1.ReasonExhausted, infrav1.ReasonExhausted)
}

// Core leaves a remediation behind while its health check does nothing. Weeks later its Node
// blinks: that reboots and wipes nothing, and what core would make a remediation for begins
// with the first step.
func TestARemediationThatIsLeftBehindBeginsAnew(t *testing.T) {
	w := newWorld(t)
	w.toReboot()
	w.rebooted()
	w.nodeReady()
	w.verdict(metav1.ConditionTrue)
	w.settle()
	w.is("", infrav1.ReasonRecovered)
	w.clock.Step(21 * 24 * time.Hour)

	w.nodeSays(corev1.ConditionFalse)
	if result := w.settle(); result.RequeueAfter != holdPoll {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	w.is("", infrav1.ReasonDiagnosing)

	check := &clusterv1.MachineHealthCheck{}
	w.get(client.ObjectKeyFromObject(looksAtDisk()), check)
	tooMany := metav1.Condition{Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineHealthCheckTooManyUnhealthyReason}
	conditions.Set(check, tooMany)
	w.setStatus(check)
	w.verdict(metav1.ConditionFalse)
	w.settle()
	w.is("", infrav1.ReasonDiagnosing)

	tooMany.Status = metav1.ConditionTrue
	conditions.Set(check, tooMany)
	w.setStatus(check)
	w.asksAnew()
}
