package profile

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/rollout"
	"github.com/macfleet/macfleet/internal/workload"
)

// survey is what was read of a profile's Machines.
type survey struct {
	revision string
	// invalid says why no Mac could follow the profile; nil if all can.
	invalid error
	// all live Machines of the profile, those without a Mac included.
	all int
	// macs were bootstrapped.
	macs []mac
	// upkeep of their Nodes.
	upkeep upkeep
}

// mac is a Machine that was bootstrapped, and its Node where there is one.
type mac struct {
	machine *infrav1.ScalewayAppleSiliconMachine
	node    *corev1.Node
	seen    rollout.Machine
	// loss is of its last turn's guests, while that matters.
	loss loss
}

// input of the plan.
func (s survey) input(profile *infrav1.MacNodeProfile, now time.Time) rollout.Input {
	in := rollout.Input{Revision: s.revision, Policy: profile.Spec.Rollout, Now: now}
	for _, m := range s.macs {
		in.Machines = append(in.Machines, m.seen)
	}
	return in
}

// count counts the Macs that a test picks.
func (s survey) count(picks func(mac) bool) int32 {
	n := int32(0)
	for _, m := range s.macs {
		if picks(m) {
			n++
		}
	}
	return n
}

// survey reads the Machines of a profile by the given reader, and what belongs to
// them: one list a kind, however many Macs there are. Nothing of it may be changed.
func (r *Reconciler) survey(ctx context.Context, profile *infrav1.MacNodeProfile, reader client.Reader) (survey, error) {
	clientCA, err := r.ClientCA(ctx)
	if err != nil {
		return survey{}, err
	}
	s := survey{revision: rollout.Revision(profile, r.Agent, clientCA), invalid: rollout.Check(profile)}
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := reader.List(ctx, list, client.InNamespace(profile.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return survey{}, fmt.Errorf("listing Machines: %w", err)
	}
	known, err := r.listBelongings(ctx, profile.Namespace, reader)
	if err != nil {
		return survey{}, err
	}
	key := client.ObjectKeyFromObject(profile)
	lost := r.losses.Get(key)
	for i := range list.Items {
		m := &list.Items[i]
		if profileName(m) != profile.Name || !host.Obeys(m, r.WatchFilter) || !m.DeletionTimestamp.IsZero() {
			continue
		}
		s.all++
		if m.Spec.ProviderID == "" || known.anothers(m) {
			continue
		}
		found, err := r.look(ctx, m, known, lost[m.Name])
		if err != nil {
			return survey{}, err
		}
		s.macs = append(s.macs, found)
	}
	r.proofs.note(key, s.macs, r.Clock.Now())
	r.losses.note(key, s.macs)
	return s, nil
}

// belongings are the hosts and Nodes that there are, by their names.
type belongings struct {
	hosts map[string]*host.Host
	nodes map[string]*corev1.Node
	// leaving are Cluster API's Machines of the namespace that are being deleted.
	leaving map[string]bool
}

// listBelongings reads hosts and Nodes by the given reader, and Cluster API's Machines from the cache.
func (r *Reconciler) listBelongings(ctx context.Context, namespace string, reader client.Reader) (belongings, error) {
	hosts, nodes := &infrav1.ScalewayAppleSiliconHostList{}, &corev1.NodeList{}
	if err := reader.List(ctx, hosts, client.UnsafeDisableDeepCopy); err != nil {
		return belongings{}, fmt.Errorf("listing hosts: %w", err)
	}
	if err := reader.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return belongings{}, fmt.Errorf("listing Nodes: %w", err)
	}
	owners := &clusterv1.MachineList{}
	if err := r.Client.List(ctx, owners, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return belongings{}, fmt.Errorf("listing Cluster API's Machines: %w", err)
	}
	known := belongings{
		hosts: make(map[string]*host.Host, len(hosts.Items)), nodes: make(map[string]*corev1.Node, len(nodes.Items)), leaving: map[string]bool{},
	}
	for i := range hosts.Items {
		known.hosts[hosts.Items[i].Name] = &hosts.Items[i]
	}
	for i := range nodes.Items {
		known.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for i := range owners.Items {
		if !owners.Items[i].DeletionTimestamp.IsZero() {
			known.leaving[owners.Items[i].Name] = true
		}
	}
	return known, nil
}

// anothers reports that the host which the Machine means is claimed for another, or
// for none: its Node, if it bears the Machine's name, is not this Machine's. A Host
// that is being rebuilt says nothing.
func (b belongings) anothers(m *infrav1.ScalewayAppleSiliconMachine) bool {
	if m.Spec.HostRef == nil {
		return false
	}
	h := b.hosts[m.Spec.HostRef.Name]
	return h != nil && !host.MeansClaim(h, m)
}

// profileName is empty for a Machine that follows the built-in profile.
func profileName(m *infrav1.ScalewayAppleSiliconMachine) string {
	if m.Spec.ProfileRef == nil {
		return ""
	}
	return m.Spec.ProfileRef.Name
}

// look is what a plan needs of one Mac.
func (r *Reconciler) look(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine, known belongings, lost loss) (mac, error) {
	found := mac{machine: m, seen: seen(m, r.Clock.Now())}
	if node := known.nodes[m.Name]; node != nil && node.Spec.ProviderID == m.Spec.ProviderID {
		found.node = node
	}
	found.seen.ReadySince, found.seen.DownSince = readiness(m, found.node)
	found.seen.ShortSince = workload.DiskPressureSince(found.node)
	found.seen.Asleep = known.asleep(m)
	var err error
	last := rollout.LastPermit(m)
	found.seen.PermitAt = last.At
	if len(last.Guests) > 0 && r.Clock.Since(last.At) < guestsMatter {
		found.loss, err = r.guestsLost(ctx, found, last, lost)
		found.seen.Lost = found.loss.lost
	}
	return found, err
}

// seen is what the Machine itself tells.
func seen(m *infrav1.ScalewayAppleSiliconMachine, now time.Time) rollout.Machine {
	update := m.Status.Update
	return rollout.Machine{
		Name: m.Name, Applied: m.Status.Applied.Revision, ProvedAt: rollout.Instant(update.ProvedAt),
		Permit: m.Annotations[infrav1.UpdateAnnotation], Drifted: len(m.Status.Drift.Steps) > 0,
		Tried: update.Revision, Failures: int(update.Failures), FailedAt: rollout.Reachable(update.LastFailedAt, now), HeldAt: rollout.Reachable(update.HeldAt, now),
		RetriedAt: rollout.Instant(update.RetriedAt),
	}
}

// readiness says since when the Node is Ready, or since when it is not, also where it
// is not there. A Node that vanished a moment ago is not missed by its Machine yet.
func readiness(m *infrav1.ScalewayAppleSiliconMachine, node *corev1.Node) (ready, down time.Time) {
	switch {
	case node == nil:
		if c := conditions.Get(m, infrav1.NodeReadyCondition); c != nil && c.Status != metav1.ConditionTrue {
			down = c.LastTransitionTime.Time
		}
		return time.Time{}, down
	case workload.NodeReady(node):
		return workload.ReadinessChanged(node), time.Time{}
	}
	return time.Time{}, workload.ReadinessChanged(node)
}

// asleep reports a Machine that the machine controller does not push to for now:
// it is paused, moves to another cluster, is being set up, or its owner is on its
// way out.
func (b belongings) asleep(m *infrav1.ScalewayAppleSiliconMachine) bool {
	if machine.BeingMoved(m) || annotations.HasPaused(m) || conditions.IsTrue(m, infrav1.PausedCondition) {
		return true
	}
	if !conditions.IsTrue(m, infrav1.BootstrappedCondition) {
		return true // its first bootstrap writes what it applied after the providerID
	}
	return slices.ContainsFunc(m.OwnerReferences, func(owner metav1.OwnerReference) bool {
		group, err := schema.ParseGroupVersion(owner.APIVersion)
		return err == nil && group.Group == clusterv1.GroupVersion.Group && owner.Kind == "Machine" && b.leaving[owner.Name]
	})
}
