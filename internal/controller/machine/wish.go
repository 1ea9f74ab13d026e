package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// zone is where the Mac must be: the Machine's own word, else its failure
// domain, else the Cluster's first zone. No other zone is ever used.
func (v *visit) zone() string {
	if v.machine.Spec.Zone != "" {
		return v.machine.Spec.Zone
	}
	if v.owner != nil && v.owner.Spec.FailureDomain != "" {
		return v.owner.Spec.FailureDomain
	}
	if len(v.zones) > 0 {
		return v.zones[0]
	}
	return ""
}

// fleet is the fleet's name: the Machine's own word, else the MachineDeployment's
// name, else the Cluster's.
func (v *visit) fleet() string {
	if v.machine.Spec.FleetName != "" {
		return v.machine.Spec.FleetName
	}
	if v.owner != nil && v.owner.Labels[clusterv1.MachineDeploymentNameLabel] != "" {
		return v.owner.Labels[clusterv1.MachineDeploymentNameLabel]
	}
	return clusterName(v.machine)
}

// clusterName is the Cluster that core says the Machine belongs to.
func clusterName(m *infrav1.ScalewayAppleSiliconMachine) string {
	return m.Labels[clusterv1.ClusterNameLabel]
}

// poolPrefix is the prefix of the pool the Mac comes from and goes back to.
func (r *Reconciler) poolPrefix(m *infrav1.ScalewayAppleSiliconMachine) string {
	return r.pools().Prefix(m)
}

// pools are those known here, and whose they are.
func (r *Reconciler) pools() host.Pools {
	return host.Pools{Default: r.DefaultPoolPrefix, Of: r.NamespacePools}
}

// wish is what the Machine asks of a host; an error is a bad host selector's.
func (r *Reconciler) wish(v *visit) (host.Wish, error) {
	spec := v.machine.Spec
	wish := host.Wish{
		Namespace: v.machine.Namespace, Name: v.machine.Name, Zone: v.zone(), Type: spec.Type, OS: host.OSFamily(spec.OS),
		PoolPrefix: r.poolPrefix(v.machine), Now: r.Clock.Now(), RefuseUnseen: r.RefuseUnseen,
	}
	if r.pools().Refusal(v.machine) != "" {
		wish.PoolPrefix = "" // no host fits it, not even one of the default pool
	}
	if spec.HostSelector == nil {
		return wish, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.HostSelector.LabelSelector())
	wish.Selector = selector
	return wish, err
}

// ordered reports that the Machine has its own server made.
func ordered(m *infrav1.ScalewayAppleSiliconMachine) bool { return m.Spec.Acquisition == infrav1.Order }

// reasonHostSelector is HostClaimed's reason while spec.hostSelector makes no sense.
const reasonHostSelector = "InvalidHostSelector"

// reasonNameInPool is HostClaimed's reason while the Machine's name is a pool name.
const reasonNameInPool = "NameInPool"

// reasonNameTooLong is HostClaimed's reason while no Node could bear the Machine's
// name, which is its label kubernetes.io/hostname, too.
const reasonNameTooLong = "NameTooLong"

// namedLikeAPool returns the pool prefix that the Machine's name starts with, or
// nothing. The server of a claim bears the Machine's name: were that a pool name,
// a Host that is lost and found again would be taken for free and wiped of its
// owner, or claimed from another namespace. All pools known here are looked for.
func (r *Reconciler) namedLikeAPool(m *infrav1.ScalewayAppleSiliconMachine) string {
	for _, prefix := range append(r.pools().Known(nil), r.poolPrefix(m)) {
		if host.InPool(m.Name, "", prefix) {
			return prefix
		}
	}
	return ""
}

func nameInPool(m *infrav1.ScalewayAppleSiliconMachine, prefix string) finding {
	return no(reasonNameInPool, "the name %s starts with the pool prefix %q: a server of that name would count as free; rename the MachineDeployment or choose another prefix", m.Name, prefix)
}

// unwanted says why no host can be looked for, or nothing.
func (r *Reconciler) unwanted(v *visit) finding {
	if waiting := unready(v); waiting.reason != "" {
		return waiting
	}
	switch {
	case v.zone() == "":
		return no(infrav1.ReasonNoHostInFailureDomain, "no zone is named: neither spec.zone, nor the Machine's failureDomain, nor a zone of the Cluster")
	case r.pools().Refusal(v.machine) != "":
		return no(infrav1.ReasonPoolPrefixNotAllowed, "%s", r.pools().Refusal(v.machine))
	case r.poolPrefix(v.machine) == "" && !ordered(v.machine):
		return no(infrav1.ReasonNoAdoptPoolPrefix, "neither spec.adoptPoolPrefix nor --default-adopt-pool-prefix names a pool")
	case r.namedLikeAPool(v.machine) != "":
		return nameInPool(v.machine, r.namedLikeAPool(v.machine))
	case len(v.machine.Name) > validation.LabelValueMaxLength:
		return no(reasonNameTooLong, "the name has %d characters, and the Node of the same name may have %d: delete this Machine and make one of a shorter name", len(v.machine.Name), validation.LabelValueMaxLength)
	}
	return finding{}
}

// unready says why no Mac can be brought up for the Machine, or nothing.
func unready(v *visit) finding {
	switch {
	case v.owner == nil:
		return no(infrav1.ReasonWaitingForCluster, "no Machine owns this object yet")
	case v.cluster == nil:
		return no(infrav1.ReasonWaitingForCluster, "the Cluster %q does not exist", clusterName(v.machine))
	case !infrastructureProvisioned(v.cluster):
		return no(infrav1.ReasonWaitingForCluster, "the infrastructure of Cluster %s is not provisioned yet", v.cluster.Name)
	case v.fleet() == "":
		return no(infrav1.ReasonFleetKeyUnavailable, "no fleet is named: neither spec.fleetName, nor a MachineDeployment, nor a Cluster")
	}
	return finding{}
}

// unknownProfileError says which profile is missing, and which there are.
type unknownProfileError struct {
	name  string
	known []string
}

func (e *unknownProfileError) Error() string {
	if len(e.known) == 0 {
		return fmt.Sprintf("there is no MacNodeProfile %q, nor any other in this namespace", e.name)
	}
	return fmt.Sprintf("there is no MacNodeProfile %q; known: %s", e.name, strings.Join(e.known, ", "))
}

// profile returns the Machine's profile, the built-in one where it names none,
// or *unknownProfileError.
func (r *Reconciler) profile(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (*infrav1.MacNodeProfile, error) {
	profile := &infrav1.MacNodeProfile{}
	if m.Spec.ProfileRef == nil {
		return profile, nil
	}
	name := m.Spec.ProfileRef.Name
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, profile)
	if err == nil {
		return profile, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading MacNodeProfile %s: %w", name, err)
	}
	known, err := r.profileNames(ctx, m.Namespace)
	if err != nil {
		return nil, err
	}
	return nil, &unknownProfileError{name: name, known: known}
}

func (r *Reconciler) profileNames(ctx context.Context, namespace string) ([]string, error) {
	list := &infrav1.MacNodeProfileList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing MacNodeProfiles: %w", err)
	}
	names := make([]string, 0, len(list.Items))
	for _, profile := range list.Items {
		names = append(names, profile.Name)
	}
	slices.Sort(names)
	return names, nil
}
