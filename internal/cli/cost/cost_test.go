package cost

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/screen"
)

// mac is a host whose floor ends a while from now.
func mac(n int, phase infrav1.HostPhase, kind string, floor time.Duration) infrav1.ScalewayAppleSiliconHost {
	h := clitest.Host(n, phase)
	h.Status.Server.Type = kind
	h.Status.Server.Commitment = "duration_24h"
	h.Status.Server.DeletableAt = ptr.To(metav1.NewTime(clitest.Now().Add(floor)))
	if phase == infrav1.HostInUse {
		h.Spec.ClaimRef = &infrav1.ClaimReference{Name: "m"}
	}
	return h
}

func pool() []infrav1.ScalewayAppleSiliconHost {
	order := clitest.Host(6, infrav1.HostOrdering)
	order.Spec.ServerID, order.Spec.Order = "", &infrav1.OrderRequest{Type: "M2-L"}
	gone := mac(7, infrav1.HostGone, "M2-L", time.Hour)
	retiring := mac(5, infrav1.HostRetiring, "M2-L", 6*time.Hour)
	monthly := mac(8, infrav1.HostInUse, "M4-S", 20*24*time.Hour)
	monthly.Status.Server.Commitment = "renewed_monthly"
	return []infrav1.ScalewayAppleSiliconHost{
		mac(1, infrav1.HostInUse, "M2-L", 12*time.Hour), mac(2, infrav1.HostInUse, "M2-L", -time.Hour),
		mac(3, infrav1.HostAvailable, "M2-L", -time.Hour), mac(4, infrav1.HostAvailable, "M2-L", time.Hour),
		retiring, order, gone, monthly, mac(9, infrav1.HostInUse, "M9", time.Hour),
	}
}

func TestWhatAPoolCosts(t *testing.T) {
	got := Of(pool(), clitest.Now())
	late := func(d time.Duration) *time.Time { return ptr.To(clitest.Now().Add(d)) }
	host := func(n int) string { return clitest.Host(n, "").Name }
	want := Pool{
		At: clitest.Now(), Prices: PricesOf,
		Types: []Type{
			{Type: "M2-L", Commitment: "duration_24h", Macs: 5, Free: 3, Day: 5 * 504, Month: 5 * 15120, LastFloor: late(12 * time.Hour)},
			{Type: "M4-S", Commitment: "renewed_monthly", Macs: 1, Day: 496, Month: 14900, LastFloor: late(20 * 24 * time.Hour)},
			{Type: "M9", Commitment: "duration_24h", Macs: 1, LastFloor: late(time.Hour)},
		},
		Day: 5*504 + 496, Month: 5*15120 + 14900, Floor: 252 + 21 + 126 + 20*496,
		Spare:    []Mac{{Host: host(3), Type: "M2-L"}},
		Leaving:  []Mac{{Host: host(5), Type: "M2-L", From: late(6 * time.Hour)}},
		Unpriced: []string{"M9"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestCostsForPeopleAndPrograms(t *testing.T) {
	clitest.Golden(t, "cost.txt", screen.Screen{Width: 100}, Of(pool(), clitest.Now()).Write)
	clitest.Golden(t, "empty.txt", screen.Screen{}, Of(nil, clitest.Now()).Write)
	clitest.Golden(t, "cost.json", screen.Screen{}, func(out io.Writer, _ screen.Screen) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(Of(pool(), clitest.Now()))
	})
}
