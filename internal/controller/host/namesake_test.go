package host

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// namesake is a world in which the server of another cluster bears the name of
// an order that was never sent.
func namesake(t *testing.T) *world {
	t.Helper()
	w := ordering(t)
	w.cloud.Set(cloud.Server{ID: strayID(77), Zone: zone, Name: "m-9", Type: "M2-L", Status: cloud.StatusReady, Delivered: true}, "x")
	w.lookFor(time.Minute)
	return w
}

// lookFor looks at the order until that time is over.
func (w *world) lookFor(d time.Duration) {
	w.t.Helper()
	for began := w.clock.Now(); w.clock.Since(began) < d; w.clock.Step(10 * time.Second) {
		_, err := w.look()
		w.must(err)
	}
}

func TestAnOrderDoesNotTakeAnotherClustersServer(t *testing.T) {
	w := namesake(t)
	if reason, message := w.orderReason(); reason != infrav1.ReasonOrderRejected || !strings.Contains(message, strayID(77)) || !strings.Contains(message, "m-9") {
		t.Errorf("%s: %s", reason, message)
	}
	if len(w.delivered()) != 0 || w.calls("CreateServer") != 0 || w.openOrder().Spec.Order.AttemptedAt != nil {
		t.Errorf("%d hosts are ours, calls %v", len(w.delivered()), w.cloud.Calls())
	}
	w.must(w.client.Get(w.ctx, strayKey(77), &host.Host{})) // there for people to see and to adopt

	w.cloud.Change(strayID(77), func(s *cloud.Server) { s.Name = "others-m-9" })
	w.lookFor(host.OrderBackOff + time.Minute)
	if w.calls("CreateServer") != 1 || len(w.delivered()) != 1 || w.delivered()[0].Spec.ServerID == strayID(77) {
		t.Errorf("after it was renamed: hosts %d, calls %v", len(w.delivered()), w.cloud.Calls())
	}
}

func TestAnOrderThatANamesakeHoldsUpEndsAlone(t *testing.T) {
	w := namesake(t)
	w.releaseOrder()
	_, err := w.look()
	w.must(err)
	stray := &host.Host{}
	w.must(w.client.Get(w.ctx, strayKey(77), stray))
	if w.openOrder() != nil || stray.Spec.ClaimRef != nil || stray.Spec.Release != nil || len(w.mutations()) != 0 {
		t.Errorf("order %v, stray %+v, mutations %v", w.openOrder() != nil, stray.Spec, w.mutations())
	}
}

// hooked calls back before each uncached read.
type hooked struct {
	client.Reader
	before func(client.ObjectKey)
}

func (h hooked) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	h.before(key)
	return h.Reader.Get(ctx, key, o, opts...)
}

// Two managers, each in the belief that it leads, and with clocks that disagree.
func TestTwoManagersOrderOneServer(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Minute, -time.Minute} {
		w := ordering(t)
		opts := w.r.Options
		opts.Clock = clocktesting.NewFakeClock(w.clock.Now().Add(skew))
		other := &Reconciler{Options: opts, Client: w.client, Reader: w.client, Inventory: newInventory(w.client, opts), Recorder: events.NewFakeRecorder(100)}
		done := false
		w.r.Reader = hooked{w.client, func(key client.ObjectKey) {
			if o := w.openOrder(); !done && key.Name == ordered && o != nil && o.Spec.Order.AttemptedAt != nil {
				done = true
				_, err := other.Reconcile(w.ctx, reconcile.Request{NamespacedName: key})
				if err != nil && !apierrors.IsConflict(err) {
					w.must(err)
				}
			}
		}}
		_, _ = w.look()
		if n := w.created(); n > 1 || !done {
			t.Errorf("skew %s: %d servers, two managers %t", skew, n, done)
		}
	}
}

// An order that was recorded, and then held up for longer than it is prompt, could
// cross with one that another manager sends: it is not sent.
func TestAnOrderThatIsHeldUpAfterItsRecordIsNotSent(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		want  int
	}{{host.OrderPrompt, 1}, {host.OrderPrompt + time.Millisecond, 0}} {
		w := ordering(t)
		held := false
		w.r.Reader = hooked{w.client, func(key client.ObjectKey) {
			if o := w.openOrder(); !held && key.Name == ordered && o != nil && o.Spec.Order.AttemptedAt != nil {
				held = true
				w.clock.Step(c.pause)
			}
		}}
		_, err := w.look()
		w.must(err)
		if got := w.calls("CreateServer"); got != c.want || !held {
			t.Errorf("held up for %s: sent %d times, want %d", c.pause, got, c.want)
		}
	}
}

// A Machine that lost its hostRef orders again under the same name. The answer may be
// lost; the server that nobody has is the order's, and gets its Host.
func TestAnOrderAmongNamesakesTakesTheOneThatNobodyHas(t *testing.T) {
	for _, free := range []string{strayID(71), strayID(72)} {
		w := ordering(t)
		for _, id := range []string{strayID(71), strayID(72)} {
			w.cloud.Set(cloud.Server{ID: id, Zone: zone, Name: "m-9", Type: "M2-L", Status: cloud.StatusReady, Delivered: true}, "x")
			if id != free {
				w.must(w.client.Create(w.ctx, &host.Host{
					ObjectMeta: metav1.ObjectMeta{Name: host.ObjectName(zone, id)},
					Spec: infrav1.ScalewayAppleSiliconHostSpec{
						ServerID: id, Zone: zone, ClaimRef: &infrav1.ClaimReference{Namespace: "fleet", Name: "m-9", Token: "t-8"},
					},
				}))
			}
		}
		order, at := w.openOrder(), metav1.NewMicroTime(w.clock.Now().Add(-time.Minute))
		order.Spec.Order.AttemptedAt = &at
		w.must(w.client.Update(w.ctx, order))
		w.lookFor(time.Minute)
		if made := w.delivered(); len(made) != 1 || made[0].Spec.ServerID != free || w.calls("CreateServer") != 0 {
			t.Errorf("%s is free: hosts %v, calls %v", free, made, w.cloud.Calls())
		}
	}
}
