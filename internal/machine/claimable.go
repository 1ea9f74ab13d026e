package machine

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// ReasonHostSelector is HostClaimed's reason while spec.hostSelector makes no sense.
const ReasonHostSelector = "InvalidHostSelector"

// ReasonNameInPool is HostClaimed's reason while the Machine's name is a pool name.
const ReasonNameInPool = "NameInPool"

// ReasonNameTooLong is HostClaimed's reason while no Node could bear the Machine's
// name, which is its label kubernetes.io/hostname, too.
const ReasonNameTooLong = "NameTooLong"

// NamedLikeAPool returns the pool prefix that the Machine's name starts with, or
// nothing. The server of a claim bears the Machine's name: were that a pool name,
// a Host that is lost and found again would be taken for free and wiped of its
// owner, or claimed from another namespace. All pools known here are looked for.
func NamedLikeAPool(m *infrav1.ScalewayAppleSiliconMachine, pools host.Pools) string {
	for _, prefix := range append(pools.Known(nil), pools.Prefix(m)) {
		if host.InPool(m.Name, "", prefix) {
			return prefix
		}
	}
	return ""
}

// NameInPool is what a Machine is told whose name is a pool name.
func NameInPool(m *infrav1.ScalewayAppleSiliconMachine, prefix string) Finding {
	return False(ReasonNameInPool, "the name %s starts with the pool prefix %q: a server of that name would count as free; rename the MachineDeployment or choose another prefix", m.Name, prefix)
}

// Claimable says why no host can be looked for, in the order in which people mend it; it
// says nothing where one can.
func Claimable(s Snapshot, pools host.Pools) Finding {
	if waiting := NotReady(s); waiting.Reason != "" {
		return waiting
	}
	switch {
	case s.Zone() == "":
		return False(infrav1.ReasonNoHostInFailureDomain, "no zone is named: neither spec.zone, nor the Machine's failureDomain, nor a zone of the Cluster")
	case pools.Refusal(s.Machine) != "":
		return False(infrav1.ReasonPoolPrefixNotAllowed, "%s", pools.Refusal(s.Machine))
	case pools.Prefix(s.Machine) == "" && !OrdersServer(s.Machine):
		return False(infrav1.ReasonNoAdoptPoolPrefix, "neither spec.adoptPoolPrefix nor --default-adopt-pool-prefix names a pool")
	case NamedLikeAPool(s.Machine, pools) != "":
		return NameInPool(s.Machine, NamedLikeAPool(s.Machine, pools))
	case len(s.Machine.Name) > validation.LabelValueMaxLength:
		return False(ReasonNameTooLong, "the name has %d characters, and the Node of the same name may have %d: delete this Machine and make one of a shorter name", len(s.Machine.Name), validation.LabelValueMaxLength)
	}
	return Finding{}
}

// NotReady says why no Mac can be brought up for the Machine, or nothing.
func NotReady(s Snapshot) Finding {
	switch {
	case s.Owner == nil:
		return False(infrav1.ReasonWaitingForCluster, "no Machine owns this object yet")
	case s.Cluster == nil:
		return False(infrav1.ReasonWaitingForCluster, "the Cluster %q does not exist", ClusterName(s.Machine))
	case !InfrastructureProvisioned(s.Cluster):
		return False(infrav1.ReasonWaitingForCluster, "the infrastructure of Cluster %s is not provisioned yet", s.Cluster.Name)
	case s.Fleet() == "":
		return False(infrav1.ReasonFleetKeyUnavailable, "no fleet is named: neither spec.fleetName, nor a MachineDeployment, nor a Cluster")
	}
	return Finding{}
}

// Touchable says what the host controller has yet to do before the Mac may be touched,
// or nothing. Staged: the Secret is of this claim and install epoch. Reachable: it holds
// address and user.
func Touchable(s Snapshot, staged, reachable bool) Finding {
	switch {
	case !s.Host.Status.Server.Delivered:
		// What was ordered is dialled in vain until then, and would count as failed.
		return False(infrav1.ReasonWaitingForHost, "the vendor has not delivered host %s yet", s.Host.Name)
	case !MayBeStaged(s):
		why := ""
		if c := apimeta.FindStatusCondition(s.Host.Status.Conditions, infrav1.NameInSyncCondition); c != nil && c.Message != "" && c.Message != host.NameSettles {
			why = ": " + c.Message
		}
		return False(infrav1.ReasonWaitingForHost, "host %s does not show this Machine's name yet%s", s.Host.Name, why)
	case !staged:
		return False(infrav1.ReasonWaitingForHost, "the credentials of host %s are not staged for this claim yet", s.Host.Name)
	case !reachable:
		return False(infrav1.ReasonWaitingForHost, "the vendor shows no address or user of host %s yet", s.Host.Name)
	}
	return Finding{}
}

// MayBeStaged reports that the claim is shown. Credentials are not staged before, and the
// Secret is not worth a reading.
func MayBeStaged(s Snapshot) bool {
	return apimeta.IsStatusConditionTrue(s.Host.Status.Conditions, infrav1.NameInSyncCondition)
}

// Offer is which hosts a manager gives to Machines at all.
type Offer struct {
	Pools host.Pools
	// RefuseUnseen: none that was never seen wiped.
	RefuseUnseen bool
	// WatchFilter: those of this watch filter alone. Empty: all.
	WatchFilter string
}

// Requirements is what the Machine asks of a host; an error is a bad host selector's.
func (o Offer) Requirements(s Snapshot, now time.Time) (host.Requirements, error) {
	spec := s.Machine.Spec
	asked := host.Requirements{
		Namespace: s.Machine.Namespace, Name: s.Machine.Name, Zone: s.Zone(), Type: spec.Type, OS: host.OSFamily(spec.OS),
		PoolPrefix: o.Pools.Prefix(s.Machine), Now: now, RefuseUnseen: o.RefuseUnseen, WatchFilter: o.WatchFilter,
	}
	if o.Pools.Refusal(s.Machine) != "" {
		asked.PoolPrefix = "" // no host fits it, not even one of the default pool
	}
	if spec.HostSelector == nil {
		return asked, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.HostSelector.LabelSelector())
	asked.Selector = selector
	return asked, err
}
