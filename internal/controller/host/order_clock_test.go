package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/host"
)

// An attempt that another manager recorded is as old as it is known here, whichever
// clock is ahead, and one list that lacks its server proves nothing.
func TestAnAttemptIsAsOldAsThisManagerKnowsIt(t *testing.T) {
	for name, off := range map[string]time.Duration{"its clock is behind": -time.Hour, "its clock is ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := ordering(t)
			h := w.openOrder()
			at := metav1.NewMicroTime(w.clock.Now().Add(off).Truncate(time.Microsecond))
			h.Spec.Order.AttemptedAt = &at
			w.must(w.client.Update(w.ctx, h))
			began := w.clock.Now()
			for w.created() == 0 && w.clock.Since(began) < 10*time.Minute {
				_, err := w.look()
				w.must(err)
				w.clock.Step(time.Second)
			}
			if took := w.clock.Since(began); took < host.OrderSettle+host.GoneAfter || took > host.OrderSettle+host.GoneAfter+10*time.Second {
				t.Errorf("the server was ordered again after %s; calls %v", took, w.mutations())
			}
		})
	}
}
