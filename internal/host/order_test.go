package host_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

func order(attempted int) *host.Host {
	h := &host.Host{}
	h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "fleet", Name: "m-1", Token: "t-1"}
	h.Spec.Order = &infrav1.OrderRequest{Name: "m-1", Type: "M2-L", Zone: zone}
	if attempted >= 0 {
		h.Spec.Order.AttemptedAt = at(attempted)
	}
	return h
}

func TestNextOrder(t *testing.T) {
	never, lately := order(-1), order(0)
	soon, settled := noon().Add(host.OrderSettle-time.Millisecond), noon().Add(host.OrderSettle)
	proved := settled.Add(host.GoneAfter)
	for _, c := range []struct {
		name  string
		order *host.Host
		look  host.OrderInput
		want  host.OrderStep
	}{
		{"never asked", never, host.OrderInput{Began: noon(), Believed: true}, host.OrderCreate},
		{"the list is not believed", never, host.OrderInput{Began: noon()}, host.OrderWait},
		{"found", lately, host.OrderInput{Began: noon(), Found: true}, host.OrderDeliver},
		{"never asked, and there before", never, host.OrderInput{Began: noon(), Found: true}, host.OrderTaken},
		{"ended, never asked, and there before", never, host.OrderInput{Began: noon(), Found: true, Ended: true}, host.OrderDrop},
		{"asked, and may show yet", lately, host.OrderInput{Began: soon, Believed: true, AttemptSeen: noon(), LackingSince: noon().Add(-time.Hour)}, host.OrderWait},
		{"asked, and one list lacks it", lately, host.OrderInput{Began: settled, Believed: true, AttemptSeen: noon(), LackingSince: settled}, host.OrderWait},
		{"asked, and nothing came of it", lately, host.OrderInput{Began: proved, Believed: true, AttemptSeen: noon(), LackingSince: settled}, host.OrderCreate},
		{"asked, and empty lists lack it", lately, host.OrderInput{Began: proved, Believed: true, Empty: true, AttemptSeen: noon(), LackingSince: settled}, host.OrderWait},
		{"asked, empty for long", lately, host.OrderInput{Began: settled.Add(host.GoneAfterSuspicious), Believed: true, Empty: true, AttemptSeen: noon(), LackingSince: settled}, host.OrderCreate},
		{"asked by a clock that is behind", lately, host.OrderInput{Began: noon().Add(time.Hour), Believed: true, AttemptSeen: noon().Add(time.Hour), LackingSince: noon()}, host.OrderWait},
		{"asked by a clock that is ahead", lately, host.OrderInput{Began: noon().Add(-time.Minute), Believed: true, AttemptSeen: noon().Add(-time.Hour), LackingSince: noon().Add(-time.Hour / 2)}, host.OrderCreate},
		{"nobody says when the attempt was seen", lately, host.OrderInput{Began: proved, Believed: true, LackingSince: settled}, host.OrderWait},
		{"ended, found", lately, host.OrderInput{Began: settled, Found: true, Ended: true}, host.OrderDeliver},
		{"ended, may show yet", lately, host.OrderInput{Began: soon, Believed: true, Ended: true, AttemptSeen: noon(), LackingSince: noon().Add(-time.Hour)}, host.OrderWait},
		{"ended, no list before", never, host.OrderInput{Began: noon(), Believed: true, Ended: true}, host.OrderWait},
		{"ended, one list", never, host.OrderInput{Began: noon(), Believed: true, Ended: true, LackingSince: noon()}, host.OrderWait},
		{"ended, two lists", never, host.OrderInput{Began: noon(), Believed: true, Ended: true, LackingSince: noon().Add(-host.GoneAfter)}, host.OrderDrop},
		{"ended, two empty lists", never, host.OrderInput{Began: noon(), Believed: true, Empty: true, Ended: true, LackingSince: noon().Add(-host.GoneAfter)}, host.OrderWait},
		{"ended, empty lists for long", never, host.OrderInput{Began: noon(), Believed: true, Empty: true, Ended: true, LackingSince: noon().Add(-host.GoneAfterSuspicious)}, host.OrderDrop},
		{"ended, settled, two lists", lately, host.OrderInput{Began: proved, Believed: true, Ended: true, AttemptSeen: noon(), LackingSince: settled}, host.OrderDrop},
		{"ended, asked by a clock that is behind", lately, host.OrderInput{Began: noon().Add(time.Hour), Believed: true, Ended: true, AttemptSeen: noon().Add(time.Hour), LackingSince: noon()}, host.OrderWait},
		{"ended, not believed", never, host.OrderInput{Began: noon(), Ended: true, LackingSince: noon().Add(-time.Hour)}, host.OrderWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := host.NextOrder(c.order, c.look); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestDeliverTakesOnlyAFreeHost(t *testing.T) {
	for name, taken := range map[string]*host.Host{
		"claimed by another": pooled(claimed, func(h *host.Host) { h.Spec.ClaimRef.Token = "t-2" }),
		"not clean":          pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(0) }),
		"being removed":      pooled(func(h *host.Host) { h.DeletionTimestamp = &metav1.Time{Time: noon()} }),
	} {
		t.Run(name, func(t *testing.T) {
			before := taken.DeepCopy()
			changed, err := host.Deliver(taken, order(0), noon())
			var refused *host.TakenError
			if changed || !errors.As(err, &refused) || !strings.Contains(err.Error(), "m-1") {
				t.Errorf("changed %v, %v", changed, err)
			}
			if (before.Spec.ClaimRef == nil) != (taken.Spec.ClaimRef == nil) {
				t.Error("the claim changed")
			}
		})
	}
}

func TestDeliverClaimsOnceAndCarriesTheRelease(t *testing.T) {
	h, o := pooled(named("m-1")), order(0)
	if changed, err := host.Deliver(h, o, noon()); !changed || err != nil {
		t.Fatalf("%v, %v", changed, err)
	}
	if !bears(h, "t-1") || !h.Spec.Record.Ordered || h.Spec.Record.InstallEpoch != 1 || host.Clean(h) {
		t.Errorf("got %+v", h.Spec)
	}
	if changed, err := host.Deliver(h, o, noon()); changed || err != nil {
		t.Errorf("again: %v, %v", changed, err)
	}
	o.Spec.Release = &infrav1.Release{Token: "t-1", Policy: infrav1.Terminate, RequestedAt: *at(5)}
	if changed, err := host.Deliver(h, o, noon()); !changed || err != nil || !host.WipeAllowed(h) {
		t.Errorf("with a release: %v, %v, %+v", changed, err, h.Spec.Release)
	}
}

func TestOrderRefusals(t *testing.T) {
	for kind, want := range map[cloud.Kind]string{
		cloud.KindOutOfStock: infrav1.ReasonOutOfStock, cloud.KindQuota: infrav1.ReasonQuotaExceeded,
		cloud.KindInvalid: infrav1.ReasonOrderRejected, cloud.KindForbidden: infrav1.ReasonOrderRejected,
		cloud.KindUnavailable: "", cloud.KindThrottled: "", cloud.KindTransient: "",
	} {
		if got := host.OrderRefusal(&cloud.Error{Kind: kind}); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
	if got := host.OrderRefusal(errors.New("x")); got != "" {
		t.Errorf("a foreign error: %q", got)
	}
}

// While the Machine that orders lives, its name keeps the host of the other server from being adopted.
func TestTheWayOutOfATakenNameLeadsOut(t *testing.T) {
	orders := machine("m-9", func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Spec.HostRef = &infrav1.HostReference{Name: host.OrderName("m-9"), ClaimToken: "t-9"}
	})
	for name, c := range map[string]struct {
		server   string
		machines []infrav1.ScalewayAppleSiliconMachine
		want     host.AdoptStep
	}{
		"as it is":               {"m-9", []infrav1.ScalewayAppleSiliconMachine{orders}, host.AdoptWait},
		"the server is renamed":  {"m-9-old", []infrav1.ScalewayAppleSiliconMachine{orders}, host.AdoptNote},
		"the Machine is deleted": {"m-9", nil, host.AdoptNote},
	} {
		if step, _, why := host.NextAdoption(pooled(named(c.server), adopted), c.machines, false); step != c.want {
			t.Errorf("%s: %s, %s", name, step, why)
		}
	}
	err := &host.NamesakeError{Server: "id", Name: "m-9"}
	if got := err.Error(); !strings.HasSuffix(got, "rename the server, or delete the Machine; then, if a lost order left the server behind, adopt its host") {
		t.Errorf("says %q", got)
	}
}

func TestUnknownTypeNamesTheKnownOnes(t *testing.T) {
	types := []cloud.ServerType{{Name: "M4-S"}, {Name: "M2-L"}}
	if got := host.UnknownType(zone, "M2-L", types); got != "" {
		t.Error(got)
	}
	if got := host.UnknownType(zone, "M9", nil); got != "" {
		t.Errorf("a zone that names none: %s", got)
	}
	if got, want := host.UnknownType(zone, "M9", types), `type "M9" does not exist in zone fr-par-1; it has M2-L, M4-S`; got != want {
		t.Errorf("got %s", got)
	}
}
