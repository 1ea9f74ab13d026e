package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// Nothing came of an order that the vendor refused: who gives a server its name later
// is somebody else, and so is whose the server is.
func TestARefusedOrderTakesNoServerThatIsNamedLikeItLater(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.KindOutOfStock, cloud.KindQuota, cloud.KindInvalid} {
		w := ordering(t)
		w.refuseCreate(kind)
		w.lookFor(time.Minute)
		w.cloud.Set(cloud.Server{ID: strayID(78), Zone: zone, Name: "m-9", Type: "M2-L", Status: cloud.StatusReady, Delivered: true}, "x")
		w.lookFor(host.OrderBackOff + 2*time.Minute)
		if made := w.delivered(); len(made) != 0 {
			t.Errorf("%v: another's server is taken: %+v", kind, made[0].Spec)
		}
		if reason, message := w.orderReason(); reason != infrav1.ReasonOrderRejected {
			t.Errorf("%v: %s: %s", kind, reason, message)
		}
	}
}

// What the first attempt became may show late, long after a second one was refused: it was
// ordered for this Machine, and bills.
func TestARefusedOrderKeepsTheAttemptWhoseAnswerWasLost(t *testing.T) {
	w := ordering(t)
	asked := 0
	w.cloud.Fault = func(c cloudtest.Call) (before, after error) {
		if c.Name != "CreateServer" {
			return nil, nil
		}
		if asked++; asked == 1 {
			return nil, cloudtest.Err(cloud.KindUnavailable)
		}
		return cloudtest.Err(cloud.KindOutOfStock), nil
	}
	w.cloud.Unlisted = map[string]bool{strayID(1): true} // the vendor's first
	w.lookFor(4 * time.Minute)
	if reason, message := w.orderReason(); asked != 2 || reason != infrav1.ReasonOutOfStock {
		t.Fatalf("asked %d times; %s: %s", asked, reason, message)
	}
	w.lookFor(2 * host.OrderBackOff)
	if asked < 3 || asked > 4 {
		t.Errorf("asked %d times: a refused order rests, and is sent again", asked)
	}
	w.cloud.Unlisted = nil
	w.lookFor(2 * time.Minute)
	if made := w.delivered(); len(made) != 1 || made[0].Spec.ServerID != strayID(1) {
		reason, message := w.orderReason()
		t.Errorf("not taken: %d hosts; %s: %s", len(made), reason, message)
	}
}

// Who waits for an order is told what holds it up.
func TestAnOrderSaysThatTheListIsNotBelieved(t *testing.T) {
	w := ordering(t)
	w.cloud.Remove(serverID)
	w.another(1)
	w.must(w.step())
	w.another(9)
	w.must(w.step())
	for i := range 9 {
		w.cloud.Remove(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	}
	_, err := w.look()
	w.must(err)
	if _, message := w.orderReason(); !strings.Contains(message, "the list of zone fr-par-1 is not believed") || !strings.Contains(message, "servers vanished at once") {
		t.Errorf("it says %q", message)
	}
	if n := w.calls("CreateServer"); n != 0 {
		t.Errorf("asked %d times", n)
	}
}
