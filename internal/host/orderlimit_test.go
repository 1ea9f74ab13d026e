package host

import (
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func TestOrdersAreCountedByWhatBills(t *testing.T) {
	const ours = "fleet/builders"
	server := func(profile, token string) infrav1.ScalewayAppleSiliconHost {
		h := infrav1.ScalewayAppleSiliconHost{Spec: infrav1.ScalewayAppleSiliconHostSpec{ServerID: "s"}}
		h.Spec.Record.OrderedFor = profile
		if token != "" {
			h.Spec.ClaimRef = &infrav1.ClaimReference{Token: token}
		}
		return h
	}
	order := func(profile, token string) infrav1.ScalewayAppleSiliconHost {
		return infrav1.ScalewayAppleSiliconHost{Spec: infrav1.ScalewayAppleSiliconHostSpec{
			Order: &infrav1.OrderRequest{Profile: profile}, ClaimRef: &infrav1.ClaimReference{Token: token},
		}}
	}
	released := server(ours, "r")
	released.Spec.Release = &infrav1.Release{Token: "r", Policy: infrav1.Terminate}
	for name, c := range map[string]struct {
		hosts []infrav1.ScalewayAppleSiliconHost
		want  OrderCount
	}{
		"nothing":                       {nil, OrderCount{}},
		"servers in use":                {[]infrav1.ScalewayAppleSiliconHost{server(ours, "a"), server(ours, "b")}, OrderCount{2, 0}},
		"one that is being given back":  {[]infrav1.ScalewayAppleSiliconHost{released}, OrderCount{1, 0}},
		"one that went to the pool":     {[]infrav1.ScalewayAppleSiliconHost{server(ours, "")}, OrderCount{1, 0}},
		"orders":                        {[]infrav1.ScalewayAppleSiliconHost{order(ours, "a"), order(ours, "b")}, OrderCount{0, 2}},
		"an order and its server, once": {[]infrav1.ScalewayAppleSiliconHost{order(ours, "a"), server(ours, "a")}, OrderCount{1, 0}},
		"another profile's":             {[]infrav1.ScalewayAppleSiliconHost{server("fleet/ci", "a"), order("other/builders", "b")}, OrderCount{}},
		"one of the pool":               {[]infrav1.ScalewayAppleSiliconHost{server("", "a")}, OrderCount{}},
	} {
		if got := CountOrders(ours, c.hosts); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestOrderLimit(t *testing.T) {
	for name, c := range map[string]struct {
		orders  OrderCount
		limit   *int32
		refused bool
	}{
		"no limit":       {OrderCount{100, 3}, nil, false},
		"below":          {OrderCount{1, 1}, ptr.To[int32](3), false},
		"reached":        {OrderCount{3, 0}, ptr.To[int32](3), true},
		"in flight":      {OrderCount{1, 2}, ptr.To[int32](3), true},
		"lowered since":  {OrderCount{5, 0}, ptr.To[int32](3), true},
		"nothing at all": {OrderCount{}, ptr.To[int32](0), true},
	} {
		if got := c.orders.Exceeded("fleet/builders", c.limit); (got != "") != c.refused {
			t.Errorf("%s: %q", name, got)
		}
	}
	const want = "MacNodeProfile fleet/builders allows 4 ordered servers (spec.maxOrdered), and there are 3, with 1 more on order: raise spec.maxOrdered, or wait until one is deleted at the vendor"
	if got := (OrderCount{3, 1}).Exceeded("fleet/builders", ptr.To[int32](4)); got != want {
		t.Errorf("says %q", got)
	}
}

// Whoever copies a token orders no more for it.
func TestAnOrderWithACopiedTokenCounts(t *testing.T) {
	claim := func(name string) *infrav1.ClaimReference {
		return &infrav1.ClaimReference{Namespace: "fleet", Name: name, Token: "same"}
	}
	hosts := []infrav1.ScalewayAppleSiliconHost{{Spec: infrav1.ScalewayAppleSiliconHostSpec{ServerID: "id", ClaimRef: claim("a"), Record: infrav1.HostRecord{OrderedFor: "fleet/p"}}}}
	for _, name := range []string{"a", "b", "c"} { // the first is that server's
		hosts = append(hosts, infrav1.ScalewayAppleSiliconHost{Spec: infrav1.ScalewayAppleSiliconHostSpec{Order: &infrav1.OrderRequest{Name: name, Profile: "fleet/p"}, ClaimRef: claim(name)}})
	}
	if got, want := CountOrders("fleet/p", hosts), (OrderCount{1, 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
