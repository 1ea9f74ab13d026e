package machine

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/push"
)

// A host that is given up is not pushed to any more: a push that went on could join a
// Mac that is being wiped.
func TestAPushEndsWithTheHostThatIsGivenUp(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) { m.hold = true })
	w.visit("mac-1")
	w.awaitPush(func(run job.Run) bool { return run.Step == push.StepConverge })
	h := w.host(hostName)
	h.Spec.Release = &infrav1.Release{Policy: infrav1.Recycle, Token: h.Spec.ClaimRef.Token, Origin: infrav1.OriginRecovery, PoolPrefix: poolName}
	w.update(h)
	w.visit("mac-1")
	if ref := w.machine("mac-1").Spec.HostRef; ref != nil {
		t.Fatalf("hostRef still names a host: %+v", ref)
	}
	w.awaitPush(func(run job.Run) bool { return run.Done })
}

// awaitPush waits until mac-1's push is as wanted.
func (w *world) awaitPush(as func(job.Run) bool) {
	w.t.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: "mac-1"}
	for {
		if run, ok := w.r.pushes.Look(key); !ok || as(run) {
			return
		}
		select {
		case <-w.r.pushes.Wakeups():
		case <-time.After(time.Minute):
			w.t.Fatal("the push does not get there")
		}
	}
}
