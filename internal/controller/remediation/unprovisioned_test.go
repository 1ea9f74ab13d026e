package remediation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// claimed is a Machine whose Mac was claimed a moment ago, under a health check with the times
// of the docs, and whose bootstrap says that.
func claimed(reason string) func(*objects) {
	return func(o *objects) {
		o.machine.Spec.ProviderID, o.node = "", nil
		o.host.Status.Server.Delivered = true
		o.host.Spec.Record.Wipe.RequiredSince = ptr.To(metav1.NewMicroTime(time.Unix(1_800_000_000, 0)))
		o.check.Spec.Checks.NodeStartupTimeoutSeconds = ptr.To[int32](7200)
		notBootstrapped(o, reason)
	}
}

// A Mac that its Machine has claimed and cannot bring up is given up once it had the whole time
// that the health check gives a Machine, however long that had waited for a Mac before.
func TestAMacThatDoesNotComeUpIsGivenUp(t *testing.T) {
	itsFault := sets.New(infrav1.ReasonFileVault, infrav1.ReasonBootstrapExhausted)
	for name, c := range map[string]struct {
		reason string
		change func(*objects)
		gaveUp bool
	}{
		"it answers no call":     {infrav1.ReasonWaitingForHost, nil, true},
		"its password is sealed": {infrav1.ReasonCredentialsSealed, nil, true},
		"FileVault":              {infrav1.ReasonFileVault, nil, true},
		"no tier is left":        {infrav1.ReasonBootstrapExhausted, nil, true},
		"its bootstrap goes on":  {infrav1.ReasonSSHUnreachable, nil, false},
		"it was ordered":         {infrav1.ReasonWaitingForHost, func(o *objects) { o.host.Spec.Record.Ordered = true }, false},
		"it is taken over":       {infrav1.ReasonBootstrapExhausted, func(o *objects) { o.machine.Spec.HostRef.TakeOver = true }, false},
		"its Node is Ready": {infrav1.ReasonBootstrapExhausted, func(o *objects) {
			o.node = newObjects().node
			o.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}, false},
		"its server is gone": {infrav1.ReasonWaitingForHost, func(o *objects) { o.host.Status.Phase = infrav1.HostGone }, false},
		"its claim went":     {infrav1.ReasonWaitingForHost, func(o *objects) { o.host.Spec.ClaimRef.Token = "another" }, false},
		"it waits for a Mac": {infrav1.ReasonWaitingForHost, func(o *objects) { o.machine.Spec.HostRef = nil }, false},
		"it is new that it fails": {infrav1.ReasonWaitingForHost, func(o *objects) {
			o.remediation.CreationTimestamp = metav1.NewTime(time.Unix(1_800_000_000, 0).Add(2*time.Hour - time.Minute))
		}, false},
		"it is being wiped":   {infrav1.ReasonWaitingForHost, func(o *objects) { o.host.Spec.Release = &infrav1.Release{Token: token} }, false},
		"all the time it has": {infrav1.ReasonFileVault, func(o *objects) { o.check.Spec.Checks.NodeStartupTimeoutSeconds = ptr.To[int32](0) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			change := c.change
			if change == nil {
				change = func(*objects) {}
			}
			w := newWorld(t, claimed(c.reason), change)
			w.clock.Step(2*time.Hour - time.Second)
			if result := w.settle(); result.RequeueAfter != holdPoll {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
			w.is("", infrav1.ReasonDiagnosing)
			w.clock.Step(time.Second)
			w.settle()
			said := conditions.GetReason(w.owner(), clusterv1.MachineOwnerRemediatedCondition) == clusterv1.MachineOwnerRemediatedWaitingForRemediationReason
			if step := w.remediation().Status.Step; said != c.gaveUp || (step == infrav1.ReasonExhausted) != c.gaveUp {
				t.Errorf("given up: %t, %+v", said, w.remediation().Status)
			}
			if h := w.host(); h.Spec.Reboot != nil || w.machineAnnotated() || (h.Spec.Record.DisturbedAt != nil) != c.gaveUp ||
				(len(h.Spec.Failures.Recent) == 1) != (c.gaveUp && itsFault.Has(c.reason)) {
				t.Errorf("reboot %+v, disturbed at %v, failures %+v", h.Spec.Reboot, h.Spec.Record.DisturbedAt, h.Spec.Failures.Recent)
			}
		})
	}
}

// Who lost its Mac before that became a Node takes another, but for those that keep their
// hostRef: nothing comes of them by itself.
func TestWhoTakesNoOtherMacIsTold(t *testing.T) {
	const other, none = "takes another", "takes no other by itself"
	for name, c := range map[string]struct {
		change func(*objects)
		says   string
	}{
		"its server is gone":         {func(o *objects) { o.host.Status.Phase = infrav1.HostGone }, other},
		"its claim went":             {func(o *objects) { o.host.Spec.ClaimRef.Token = "another" }, other},
		"it is a copy":               {func(o *objects) { o.host.Spec.ClaimRef.Name = "another" }, none},
		"a copy, the server is gone": {func(o *objects) { o.host.Spec.ClaimRef.Name, o.host.Status.Phase = "another", infrav1.HostGone }, none},
		"it was to take a Mac over":  {func(o *objects) { o.host.Spec.ClaimRef.Token, o.machine.Spec.HostRef.TakeOver = "another", true }, none},
	} {
		w := newWorld(t, claimed(infrav1.ReasonWaitingForHost), c.change)
		w.settle()
		w.is("", infrav1.ReasonDiagnosing)
		if said := conditions.GetMessage(w.remediation(), infrav1.RemediatedCondition); !strings.Contains(said, c.says) {
			t.Errorf("%s: it says %q, want %q", name, said, c.says)
		}
	}
}

// A person's wish needs no time, and a Mac that there is.
func TestAPersonsWishTakesAMachineThatIsNoNodeYet(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*objects)
		gaveUp bool
	}{
		"with a Mac":     {func(*objects) {}, true},
		"without one":    {func(o *objects) { o.machine.Spec.HostRef = nil }, false},
		"in maintenance": {func(o *objects) { o.host.Spec.Maintenance = &infrav1.Maintenance{Reason: "new SSD"} }, false},
	} {
		w := newWorld(t, claimed(infrav1.ReasonRunning), c.change, func(o *objects) {
			o.owner.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
		})
		w.settle()
		got := w.remediation()
		if gaveUp := got.Status.Step == infrav1.ReasonExhausted; gaveUp != c.gaveUp {
			t.Errorf("%s: %+v", name, got.Status)
		}
		if said := conditions.GetMessage(got, infrav1.RemediatedCondition); c.gaveUp && !strings.Contains(said, "a person asked") {
			t.Errorf("%s: it says %q", name, said)
		}
	}
}
