package profile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/rollout"
)

// kept is what KeptAnnotation holds: what of a Node is the profile's.
type kept struct {
	Labels []string `json:"labels,omitempty"`
	// Taints by key and effect, "key:effect".
	Taints []string `json:"taints,omitempty"`
}

// wanted is what the profile asks of one Node.
type wanted struct {
	labels map[string]string
	taints []corev1.Taint
}

// upkeep is what became of keeping the labels and taints of a profile's Nodes.
type upkeep struct {
	// errs of Nodes that could not be kept, one each.
	errs []error
	// stale: a Node was changed meanwhile, and is to be looked at again.
	stale bool
}

// failed is what to say of the Nodes that could not be kept, or nothing.
func (u upkeep) failed() string {
	if len(u.errs) == 0 {
		return ""
	}
	return fmt.Sprintf("%d Nodes do not bear the labels and taints that are wanted; the first: %s", len(u.errs), u.errs[0])
}

// keepNodes gives the Nodes back what the profile wants on them. A node may not
// change its own labels and taints once it has joined, so nobody else does. One
// Node that cannot be changed does not stand in the way of the others. While the
// rollout is paused all are left as they are: a taint may evict guests.
func (r *Reconciler) keepNodes(ctx context.Context, profile *infrav1.MacNodeProfile, s survey) upkeep {
	var done upkeep
	if profile.Spec.Rollout.Paused {
		return done
	}
	shared := rollout.Desired(profile, r.Agent, nil).Node
	for _, m := range s.macs {
		if m.node == nil || m.seen.Asleep || !m.node.DeletionTimestamp.IsZero() {
			continue
		}
		err := r.keepNode(ctx, m, want(shared, m.machine))
		switch {
		case apierrors.IsConflict(err):
			done.stale = true
		case err != nil:
			done.errs = append(done.errs, err)
			ctrl.LoggerFrom(ctx).Error(err, "Labels and taints of the Node could not be kept", "node", m.node.Name)
		}
	}
	return done
}

func (r *Reconciler) keepNode(ctx context.Context, m mac, w wanted) error {
	ours, err := r.ours(ctx, m)
	if err != nil {
		return err
	}
	before := m.node
	next := *before // which shares what keep replaces, and changes nothing of it
	if err := keep(&next, ours, w); err != nil {
		return err
	}
	same := equality.Semantic.DeepEqual
	if same(next.Labels, before.Labels) && same(next.Spec.Taints, before.Spec.Taints) && same(next.Annotations, before.Annotations) {
		return nil
	}
	node := next.DeepCopy()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, node, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("keeping labels and taints of Node %s: %w", node.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Labels and taints of the Node are as the profile wants them", "node", node.Name)
	return nil
}

// ours is what the manager has put on the Node: what it noted there, and before it has
// looked at the Node once, what it told the Mac to register it with. That is on the
// Host, where the Mac cannot write. It is read uncached: what is missed once stays.
func (r *Reconciler) ours(ctx context.Context, m mac) (kept, error) {
	var before kept
	if text := m.node.Annotations[infrav1.KeptAnnotation]; text != "" {
		// What cannot be read says nothing: then nothing is taken away.
		_ = json.Unmarshal([]byte(text), &before)
		return before, nil
	}
	if m.machine.Spec.HostRef == nil {
		return before, nil
	}
	h := &host.Host{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: m.machine.Spec.HostRef.Name}, h); err != nil {
		if apierrors.IsNotFound(err) {
			return before, nil
		}
		return before, fmt.Errorf("reading host %s: %w", m.machine.Spec.HostRef.Name, err)
	}
	return kept(host.Registered(h, m.machine)), nil
}

// want leaves out what is a fact about the Mac, whatever a profile says.
func want(shared document.Node, m *infrav1.ScalewayAppleSiliconMachine) wanted {
	w := wanted{labels: map[string]string{}}
	maps.Copy(w.labels, shared.Labels)
	for _, fact := range rollout.FactLabels() {
		delete(w.labels, fact)
	}
	if fleet := fleet(m); fleet != "" {
		w.labels[infrav1.FleetLabel] = fleet
	}
	for _, taint := range shared.Taints {
		w.taints = append(w.taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(taint.Effect)})
	}
	return w
}

// fleet is the name that the Machine knows itself; without one the label stays as
// the Mac has set it.
func fleet(m *infrav1.ScalewayAppleSiliconMachine) string {
	if m.Spec.FleetName != "" {
		return m.Spec.FleetName
	}
	return m.Labels[clusterv1.MachineDeploymentNameLabel]
}

// keep sets what is wanted, and takes away what is ours and not wanted any more. What
// is neither is somebody else's and stays. Labels, annotations and taints are replaced as
// a whole, so that a copy of the Node may share them.
func keep(node *corev1.Node, before kept, w wanted) error {
	node.Labels = keepLabels(node.Labels, before.Labels, w.labels)
	node.Spec.Taints = keepTaints(node.Spec.Taints, before.Taints, w.taints)
	now := kept{Labels: slices.Sorted(maps.Keys(w.labels))}
	for _, taint := range w.taints {
		now.Taints = append(now.Taints, identity(taint))
	}
	slices.Sort(now.Taints)
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encoding what is kept on Node %s: %w", node.Name, err)
	}
	annotations := maps.Clone(node.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[infrav1.KeptAnnotation] = string(data)
	node.Annotations = annotations
	return nil
}

func keepLabels(have map[string]string, before []string, want map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	for _, key := range before {
		delete(out, key)
	}
	maps.Copy(out, want)
	return out
}

func identity(taint corev1.Taint) string { return rollout.TaintID(taint.Key, taint.Effect) }

func keepTaints(have []corev1.Taint, before []string, want []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	missing := slices.Clone(want)
	for _, taint := range have {
		is := func(w corev1.Taint) bool { return identity(w) == identity(taint) }
		i := slices.IndexFunc(missing, is)
		switch {
		case i >= 0:
			taint.Value = missing[i].Value
			missing = slices.Delete(missing, i, i+1)
		case slices.Contains(before, identity(taint)):
			continue
		}
		out = append(out, taint)
	}
	return append(out, missing...)
}
