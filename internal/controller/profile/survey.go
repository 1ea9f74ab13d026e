package profile

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
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
// them.
func (r *Reconciler) survey(ctx context.Context, profile *infrav1.MacNodeProfile, reader client.Reader) (survey, error) {
	clientCA, err := r.ClientCA(ctx)
	if err != nil {
		return survey{}, err
	}
	s := survey{revision: rollout.Revision(profile, r.Agent, clientCA), invalid: rollout.Check(profile)}
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := reader.List(ctx, list, client.InNamespace(profile.Namespace)); err != nil {
		return survey{}, fmt.Errorf("listing Machines: %w", err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if profileName(m) != profile.Name || !r.watched(m) || !m.DeletionTimestamp.IsZero() {
			continue
		}
		s.all++
		if m.Spec.ProviderID == "" {
			continue
		}
		lost, err := r.anothers(ctx, m, reader)
		if err != nil {
			return survey{}, err
		}
		if lost {
			continue
		}
		found, err := r.look(ctx, m, reader)
		if err != nil {
			return survey{}, err
		}
		s.macs = append(s.macs, found)
	}
	r.proofs.note(client.ObjectKeyFromObject(profile), s.macs, r.Clock.Now())
	return s, nil
}

// anothers reports that the host which the Machine means is claimed for another, or
// for none: its Node, if it bears the Machine's name, is not this Machine's. A Host
// that is being rebuilt says nothing.
func (r *Reconciler) anothers(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine, reader client.Reader) (bool, error) {
	if m.Spec.HostRef == nil {
		return false, nil
	}
	h := &host.Host{}
	if err := reader.Get(ctx, client.ObjectKey{Name: m.Spec.HostRef.Name}, h); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("reading host %s: %w", m.Spec.HostRef.Name, err)
	}
	return !host.MeansClaim(h, m), nil
}

// profileName is empty for a Machine that follows the built-in profile.
func profileName(m *infrav1.ScalewayAppleSiliconMachine) string {
	if m.Spec.ProfileRef == nil {
		return ""
	}
	return m.Spec.ProfileRef.Name
}

func (r *Reconciler) watched(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return r.WatchFilter == "" || labels.HasWatchLabel(m, r.WatchFilter)
}

// look reads what a plan needs of one Mac, its Node by the given reader.
func (r *Reconciler) look(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine, reader client.Reader) (mac, error) {
	found := mac{machine: m, seen: seen(m)}
	node := &corev1.Node{}
	err := reader.Get(ctx, client.ObjectKey{Name: m.Name}, node)
	if client.IgnoreNotFound(err) != nil {
		return mac{}, fmt.Errorf("reading Node %s: %w", m.Name, err)
	}
	if err == nil && node.Spec.ProviderID == m.Spec.ProviderID {
		found.node = node
	}
	found.seen.ReadySince, found.seen.DownSince = readiness(m, found.node)
	if found.seen.Asleep, err = r.asleep(ctx, m); err != nil {
		return mac{}, err
	}
	last := rollout.LastPermit(m)
	found.seen.PermitAt = last.At
	if len(last.Guests) > 0 && r.Clock.Since(last.At) < guestsMatter {
		found.seen.Lost, err = r.lost(ctx, m.Name, last.Guests)
	}
	return found, err
}

// seen is what the Machine itself tells.
func seen(m *infrav1.ScalewayAppleSiliconMachine) rollout.Machine {
	update := m.Status.Update
	return rollout.Machine{
		Name: m.Name, Applied: m.Status.Applied.Revision, ProvedAt: rollout.Instant(update.ProvedAt),
		Permit: m.Annotations[infrav1.UpdateAnnotation], Drifted: len(m.Status.Drift.Steps) > 0,
		Tried: update.Revision, Failures: int(update.Failures), FailedAt: rollout.Instant(update.LastFailedAt), HeldAt: rollout.Instant(update.HeldAt),
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
func (r *Reconciler) asleep(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (bool, error) {
	_, moves := m.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	if moves || annotations.HasPaused(m) || conditions.IsTrue(m, infrav1.PausedCondition) {
		return true, nil
	}
	if !conditions.IsTrue(m, infrav1.BootstrappedCondition) {
		return true, nil // its first bootstrap writes what it applied after the providerID
	}
	owner, err := util.GetOwnerMachine(ctx, r.Client, m.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the owner of %s: %w", m.Name, err)
	}
	return owner != nil && !owner.DeletionTimestamp.IsZero(), nil
}
