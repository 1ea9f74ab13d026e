package show

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/cluster"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// silence is how long a manager may leave its Lease alone: it renews it every few seconds,
// and another takes it over within half a minute.
const silence = time.Minute

// noManager is the reason of what nobody works on.
const noManager = "NoManager"

// NoManager tells of releases whose manager does not work: all else that is shown is as
// it left it. A Lease that nobody renews may be left of a release that was removed: where
// another manager works, it counts only where clusters are beside it.
func NoManager(s *snapshot.Snapshot) []Item {
	works := slices.ContainsFunc(s.Leases, func(l coordinationv1.Lease) bool { return s.At.Sub(renewed(&l)) < silence })
	var found []Item
	for i := range s.Leases {
		l := &s.Leases[i]
		if last := renewed(l); s.At.Sub(last) >= silence && (!works || hasZone(s, l.Namespace)) {
			found = append(found, managerAway(l.Namespace, &last, "no manager has renewed its Lease"))
		}
	}
	if s.Read(snapshot.Leases) && len(s.Leases) == 0 && s.Namespace == "" && len(s.Zones) > 0 {
		found = append(found, managerAway(s.Zones[0].Namespace, nil, "no manager has a Lease "+cluster.ManagerLease+" in any namespace"))
	}
	return found
}

func managerAway(namespace string, since *time.Time, says string) Item {
	return Item{
		Kind: "manager", Namespace: namespace, Name: cluster.ManagerLease, Since: since, Reason: noManager,
		Message: says + ": nothing is claimed, mended or wiped, and what is shown may be old; Macs and Pods run on",
		Command: fmt.Sprintf("kubectl -n %s get deployments,pods -l app.kubernetes.io/name=macfleet", namespace),
	}
}

func renewed(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return l.CreationTimestamp.Time
	}
	return l.Spec.RenewTime.Time
}

func hasZone(s *snapshot.Snapshot, namespace string) bool {
	return slices.ContainsFunc(s.Zones, func(z infrav1.ScalewayAppleSiliconCluster) bool { return z.Namespace == namespace })
}
