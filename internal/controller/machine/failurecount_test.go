package machine

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/host"
)

func TestRequirement003_HandleBootstrapFailure_IncrementsAttempts(t *testing.T) {
	w := failingWorld(t)
	for n := range int32(2) {
		w.failTimes(1)
		if m := w.machine("mac-1"); w.bootstrapRecord().Attempts != n+1 || m.Status.Bootstrap.Attempts != n+1 {
			t.Fatalf("record = %+v, status = %+v; want %d attempts", w.bootstrapRecord(), m.Status.Bootstrap, n+1)
		}
	}
	if h := w.host(hostName); h.Spec.Reboot != nil || h.Spec.Release != nil {
		t.Errorf("reboot = %+v, release = %+v; want neither before a threshold", h.Spec.Reboot, h.Spec.Release)
	}
}

// One push failed, and its mirror cannot be written for long. That is one attempt however
// often it is looked at, and no reason to wipe the Mac once writes work again.
func TestAFailureCountsOnceWhileItsMirrorIsRefused(t *testing.T) {
	w := failingWorld(t)
	w.r.RecoverAfter = 5 * time.Minute
	w.r.wire()
	w.refuse(inSecret(1))
	look := func() {
		key := client.ObjectKey{Namespace: namespace, Name: "mac-1"}
		_, _ = w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		w.awaitJobs(key)
	}
	for range 20 {
		look()
	}
	if got := w.bootstrapRecord().Attempts; got != 1 || len(w.mac.dials) != 1 {
		t.Errorf("%d attempts after %d pushes, want one of each", got, len(w.mac.dials))
	}
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonSSHUnreachable {
		t.Errorf("Bootstrapped = %s, want the failure told", got)
	}
	w.refuseNothing()
	w.clock.SetTime(w.clock.Now().Add(6 * time.Minute))
	w.report.At = w.clock.Now()
	for range 3 {
		look()
	}
	if h := w.host(hostName); h.Spec.Record.Bootstrap.Attempts != 2 || h.Spec.Release != nil || h.Spec.Reboot != nil {
		t.Errorf("record = %+v, release = %+v, reboot = %+v; want the second attempt, and no more", h.Spec.Record.Bootstrap, h.Spec.Release, h.Spec.Reboot)
	}
	if got := w.secret("mac-1-bootstrap")[bootstrapsecret.KeyFailures]; got != "2" {
		t.Errorf("the mirror says %q attempts, want it made good", got)
	}
}

// The count was written, and the manager does not know it: one try is one attempt.
func TestAFailureCountsOnceAfterALostAnswer(t *testing.T) {
	for name, answer := range map[string]error{
		"none":                   errPlain,
		"a conflict with itself": apierrors.NewConflict(schema.GroupResource{}, hostName, errPlain),
	} {
		t.Run(name, func(t *testing.T) {
			w := failingWorld(t)
			for n := range int32(2) {
				w.clock.SetTime(w.clock.Now().Add(time.Hour))
				w.loseOnce(answer, func(o client.Object) bool {
					h, is := o.(*host.Host)
					return is && h.Spec.Record.Bootstrap.Attempts == n+1
				})
				w.look(5)
				if got := w.bootstrapRecord().Attempts; got != n+1 || len(w.mac.dials) != int(n+1) {
					t.Errorf("%d attempts after %d pushes, want %d of each", got, len(w.mac.dials), n+1)
				}
			}
		})
	}
}
