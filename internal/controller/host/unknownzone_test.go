package host

import (
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
)

// An order in a zone that does not exist says so, and ends with its Machine:
// nothing can have come of it.
func TestAnOrderInAnUnknownZoneIsRejectedAndEnds(t *testing.T) {
	w := ordering(t)
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		if c.Name == "ListServers" {
			return cloudtest.Err(cloud.KindUnknownZone), nil
		}
		return nil, nil
	}
	if _, err := w.look(); err != nil {
		t.Fatal(err)
	}
	if reason, message := w.orderReason(); reason != infrav1.ReasonOrderRejected || message != `zone "fr-par-1" does not exist at the vendor` {
		t.Errorf("%s: %s", reason, message)
	}
	w.releaseOrder()
	if _, err := w.look(); err != nil {
		t.Fatal(err)
	}
	if o := w.openOrder(); o != nil {
		t.Errorf("the order is there still: %+v", o.Spec)
	}
	if n := w.calls("CreateServer"); n != 0 {
		t.Errorf("%d servers were ordered", n)
	}
}
