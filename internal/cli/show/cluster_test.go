package show

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// A key that the vendor rejects is one thing that a person has to mend, and what waits for it
// says so.
func TestARejectedKeyIsToldOnce(t *testing.T) {
	const said = "zone fr-par-1: the vendor refuses: 401"
	s := clitest.Fleet()
	s.Zones[0].Status.Conditions = []metav1.Condition{
		clitest.Condition(infrav1.CredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected, said, time.Hour),
		clitest.Condition(infrav1.DestructionHeldCondition, metav1.ConditionTrue, infrav1.ReasonVendorFailing, said, time.Hour),
		clitest.Condition(infrav1.InventorySyncedCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected, said, time.Hour),
	}
	of := func(items []Item) []Item {
		var found []Item
		for _, i := range items {
			if i.Kind == "cluster" {
				found = append(found, i)
			}
		}
		return found
	}
	status := StatusOf(s, reasons.Read())
	person, waits := of(status.Person), of(status.Waits)
	if len(person) != 1 || person[0].More != 0 || person[0].Reason != infrav1.ReasonCredentialsRejected {
		t.Errorf("needs a person: %+v", person)
	}
	if len(waits) != 1 || !strings.HasSuffix(waits[0].Message, "it ends when the API key works") {
		t.Errorf("waits: %+v", waits)
	}
}

// An order is no Mac yet.
func TestAnOrderIsNoMac(t *testing.T) {
	order := clitest.Host(2, infrav1.HostOrdering)
	order.Spec.Order = &infrav1.OrderRequest{Name: "m"}
	s := &snapshot.Snapshot{At: clitest.Now(), Hosts: []infrav1.ScalewayAppleSiliconHost{clitest.Host(1, infrav1.HostInUse), order}, Zones: make([]infrav1.ScalewayAppleSiliconCluster, 1)}
	pool := StatusOf(s, reasons.Read()).Pool
	if pool.Says() != "1 Mac and 1 ordered: 1 InUse, 1 Ordering" || pool.Hosts != 2 {
		t.Errorf("the pool is %q, of %d hosts", pool.Says(), pool.Hosts)
	}
}

// Whether the vendor answers stands on a Cluster's conditions: where none is, that is said, for
// the hosts are as they were seen last.
func TestAPoolWithoutAClusterIsUnwatched(t *testing.T) {
	hosts := []infrav1.ScalewayAppleSiliconHost{clitest.Host(1, infrav1.HostAvailable)}
	for name, c := range map[string]struct {
		s    snapshot.Snapshot
		says bool
	}{
		"none":                {snapshot.Snapshot{Hosts: hosts}, true},
		"one":                 {snapshot.Snapshot{Hosts: hosts, Zones: make([]infrav1.ScalewayAppleSiliconCluster, 1)}, false},
		"not to be seen":      {snapshot.Snapshot{Hosts: hosts, Missing: []snapshot.Missing{{Kind: snapshot.Zones, Why: "you may not"}}}, false},
		"an empty pool, none": {snapshot.Snapshot{}, false},
	} {
		c.s.At = clitest.Now()
		if pool := StatusOf(&c.s, reasons.Read()).Pool; pool.Unwatched != c.says || strings.Contains(pool.Says(), "no Cluster of Macs") != c.says {
			t.Errorf("%s: %+v, %q", name, pool, pool.Says())
		}
	}
}
