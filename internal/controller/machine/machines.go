package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/requeue"
)

// machines reads and writes Machines, and what they belong to.
type machines struct {
	client   client.Client
	reader   client.Reader
	recorder events.EventRecorder
	// clusterID is the cluster's that Macs join from here; empty: nobody compares it.
	clusterID string
}

// loadSnapshot reads what the phases need. Only the Machine itself must be there.
func (p *machines) loadSnapshot(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (*visit, error) {
	v := &visit{Snapshot: machine.Snapshot{Machine: m}}
	var err error
	if v.Owner, err = util.GetOwnerMachine(ctx, p.client, m.ObjectMeta); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the owning Machine: %w", err)
	}
	if name := machine.ClusterName(m); name != "" {
		v.Cluster, err = util.GetClusterByName(ctx, p.client, m.Namespace, name)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
		}
	}
	if v.Cluster != nil {
		if v.Zones, err = p.clusterZones(ctx, v.Cluster); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// profile returns the Machine's profile, the built-in one where it names none,
// or *unknownProfileError.
func (p *machines) profile(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (*infrav1.MacNodeProfile, error) {
	profile := &infrav1.MacNodeProfile{}
	if m.Spec.ProfileRef == nil {
		return profile, nil
	}
	name := m.Spec.ProfileRef.Name
	err := p.client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, profile)
	if err == nil {
		return profile, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading MacNodeProfile %s: %w", name, err)
	}
	known, err := p.profileNames(ctx, m.Namespace)
	if err != nil {
		return nil, err
	}
	return nil, &unknownProfileError{name: name, known: known}
}

func (p *machines) profileNames(ctx context.Context, namespace string) ([]string, error) {
	list := &infrav1.MacNodeProfileList{}
	if err := p.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing MacNodeProfiles: %w", err)
	}
	names := make([]string, 0, len(list.Items))
	for _, profile := range list.Items {
		names = append(names, profile.Name)
	}
	slices.Sort(names)
	return names, nil
}

// missingOwner reads, uncached, the objects of core's that own the Machine, and those
// that own them: Machine, MachineSet, MachineDeployment, Cluster. It names the first
// that does not exist, or exists under another UID than ownerReferences name, and is
// empty where all are there. The API server deletes what such an object owned, and
// core follows down to this Machine. After a restore they all have new UIDs, until
// core has mended the references.
func (p *machines) missingOwner(ctx context.Context, owned client.Object) (string, error) {
	for _, ref := range owned.GetOwnerReferences() {
		owner := ownerObject(ref)
		if owner == nil {
			continue
		}
		err := p.reader.Get(ctx, client.ObjectKey{Namespace: owned.GetNamespace(), Name: ref.Name}, owner)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading %s %s, which owns %s: %w", ref.Kind, ref.Name, owned.GetName(), err)
		}
		if err != nil || owner.GetUID() != ref.UID {
			return fmt.Sprintf("%s %s of UID %s", ref.Kind, ref.Name, ref.UID), nil
		}
		if missing, err := p.missingOwner(ctx, owner); err != nil || missing != "" {
			return missing, err
		}
	}
	return "", nil
}

// confirmHostRef reads the Machine uncached: from a stale copy a host could be
// claimed with a token that was dropped, and would belong to nobody. A Machine
// that is being deleted gets back what is its own, and nothing new.
func (p *machines) confirmHostRef(ctx context.Context, v *visit, again bool) error {
	fresh := &infrav1.ScalewayAppleSiliconMachine{}
	if err := p.reader.Get(ctx, client.ObjectKeyFromObject(v.Machine), fresh); err != nil {
		return fmt.Errorf("confirming the chosen host: %w", err)
	}
	switch {
	case fresh.UID != v.Machine.UID, fresh.Spec.HostRef == nil, *fresh.Spec.HostRef != *v.Machine.Spec.HostRef:
		return requeue.ErrStale
	case !again && !fresh.DeletionTimestamp.IsZero():
		return requeue.ErrStale
	}
	return nil
}

// patch writes a change of the Machine under its resourceVersion. A write that
// fails is undone in memory: the status must not follow from what is not there.
func (p *machines) patch(ctx context.Context, v *visit, what string, change func(*infrav1.ScalewayAppleSiliconMachine)) error {
	base := v.Machine.DeepCopy()
	change(v.Machine)
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := p.client.Patch(ctx, v.Machine, patch); err != nil {
		v.Machine = base
		return fmt.Errorf("recording the %s: %w", what, err)
	}
	return nil
}

// requests lists the Machines that a test picks, from the cache.
func (p *machines) requests(ctx context.Context, picks func(*infrav1.ScalewayAppleSiliconMachine) bool) []reconcile.Request {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := p.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing Machines to wake")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if picks(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// clusterPaused reports whether the deletion waits because the Cluster is paused, as an
// uncached read shows. The Machine's own paused annotation does not hold it, and a
// Cluster that is gone does not either.
func (p *machines) clusterPaused(ctx context.Context, v *visit) (bool, error) {
	name := machine.ClusterName(v.Machine)
	if name == "" {
		return false, nil
	}
	cluster := &clusterv1.Cluster{}
	err := p.reader.Get(ctx, client.ObjectKey{Namespace: v.Machine.Namespace, Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	v.Cluster = cluster
	return ptr.Deref(cluster.Spec.Paused, false), nil
}

// confirmDeletion reads the Machine uncached: it is being deleted, still means
// this host, and is not being moved.
func (p *machines) confirmDeletion(ctx context.Context, v *visit) error {
	fresh := &infrav1.ScalewayAppleSiliconMachine{}
	if err := p.reader.Get(ctx, client.ObjectKeyFromObject(v.Machine), fresh); err != nil {
		return fmt.Errorf("confirming the deletion: %w", err)
	}
	ref := fresh.Spec.HostRef
	if fresh.UID != v.Machine.UID || fresh.DeletionTimestamp.IsZero() || machine.BeingMoved(fresh) || ref == nil || ref.ClaimToken != v.Token() {
		return fmt.Errorf("confirming the deletion: %w", requeue.ErrStale)
	}
	return nil
}

// event tells people, on the Machine.
func (p *machines) event(m *infrav1.ScalewayAppleSiliconMachine, kind, reason, note string) {
	p.recorder.Eventf(m, nil, kind, reason, "Reconcile", "%s", cmp.Or(note, reason))
}

// tellOfConverge tells people, on the Machine, what a converge did to its Mac; of one that found
// all as it should be, nothing.
func (p *machines) tellOfConverge(m *infrav1.ScalewayAppleSiliconMachine) func(document.Report) {
	m = m.DeepCopy() // reconciles go on meanwhile
	return func(report document.Report) {
		did, failed := machine.Converged(report)
		if did == "" {
			return
		}
		kind := corev1.EventTypeNormal
		if failed {
			kind = corev1.EventTypeWarning
		}
		if _, again := report.FailedStep(); again { // of two versions of an object no events are counted as one
			m.ResourceVersion = ""
		}
		// Of events with another note alone the API keeps the first: what was done is part of the action.
		p.recorder.Eventf(m, nil, kind, eventConverged, host.Bounded("Converge "+did, host.MostAction), "%s", did)
	}
}

// eventConverged is of one run of converge that changed something, or failed.
const eventConverged = "Converged"

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

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines;machinesets;machinedeployments,verbs=get

// ownerObject is an empty object of core's that the reference can be read into; nil
// for what others own it by.
func ownerObject(ref metav1.OwnerReference) client.Object {
	if group, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || group.Group != clusterv1.GroupVersion.Group {
		return nil
	}
	switch ref.Kind {
	case "Machine":
		return &clusterv1.Machine{}
	case "MachineSet":
		return &clusterv1.MachineSet{}
	case "MachineDeployment":
		return &clusterv1.MachineDeployment{}
	case "Cluster":
		return &clusterv1.Cluster{}
	}
	return nil
}

// clusterZones returns the zones of the Cluster's infrastructure; a Cluster
// without ours has none, and its Machines name their zone.
func (p *machines) clusterZones(ctx context.Context, cluster *clusterv1.Cluster) ([]string, error) {
	ref := cluster.Spec.InfrastructureRef
	if !ref.IsDefined() || ref.Kind != "ScalewayAppleSiliconCluster" {
		return nil, nil
	}
	infra := &infrav1.ScalewayAppleSiliconCluster{}
	err := p.client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, infra)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return infra.Spec.Zones, nil
}
