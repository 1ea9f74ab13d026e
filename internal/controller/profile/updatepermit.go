package profile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/rollout"
	"github.com/macfleet/macfleet/internal/workload"
)

// guestsMatter is how long after the beginning of an update permit a guest that died is laid
// to its charge: an update permit, and the halt that may follow.
const guestsMatter = 2 * time.Hour

// lossesKnown is how long it is believed which guests of a Mac were lost, after its turn.
const lossesKnown = time.Minute

// updatePermits decides once more on what the API server itself says, and writes it
// down: a cache that lags would have more Macs changed at once than may be. Turns
// end before others begin.
func (r *Reconciler) updatePermits(ctx context.Context, profile *infrav1.MacNodeProfile) (survey, rollout.Decision, error) {
	s, err := r.survey(ctx, profile, r.Reader)
	if err != nil {
		return survey{}, rollout.Decision{}, err
	}
	decision := rollout.Plan(s.input(profile, r.Clock.Now()))
	for _, name := range decision.End {
		if err := r.endPermit(ctx, s.machine(name)); err != nil {
			return survey{}, rollout.Decision{}, err
		}
	}
	for _, name := range decision.Begin {
		if err := r.grantPermit(ctx, s.machine(name), s.revision); err != nil {
			return survey{}, rollout.Decision{}, err
		}
	}
	return s, decision, nil
}

func (s survey) machine(name string) *infrav1.ScalewayAppleSiliconMachine {
	i := slices.IndexFunc(s.macs, func(m mac) bool { return m.machine.Name == name })
	return s.macs[i].machine
}

func (r *Reconciler) grantPermit(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine, revision string) error {
	pods, err := r.pods(ctx, m.Name)
	if err != nil {
		return err
	}
	next := rollout.Permit{At: rollout.PermitAt(m, r.Clock.Now())}
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning && pods[i].DeletionTimestamp.IsZero() {
			next.Guests = append(next.Guests, pods[i].UID)
		}
	}
	data, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encoding a turn: %w", err)
	}
	mends := m.Status.Applied.Revision == revision
	err = r.annotate(ctx, m, func(annotations map[string]string) {
		annotations[infrav1.UpdateAnnotation], annotations[infrav1.TurnAnnotation] = revision, string(data)
	})
	if err != nil {
		return err
	}
	r.metrics.permit(mends)
	ctrl.LoggerFrom(ctx).Info("Turn begins", "machine", m.Name, "revision", revision, "mends", mends, "guests", len(next.Guests))
	return nil
}

func (r *Reconciler) endPermit(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) error {
	err := r.annotate(ctx, m, func(annotations map[string]string) { delete(annotations, infrav1.UpdateAnnotation) })
	if err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Turn ends", "machine", m.Name, "applied", m.Status.Applied.Revision, "failures", m.Status.Update.Failures)
	return nil
}

// annotate writes under the resourceVersion that the decision was made on.
func (r *Reconciler) annotate(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine, change func(map[string]string)) error {
	next := m.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	change(next.Annotations)
	patch := client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, next, patch); err != nil {
		return fmt.Errorf("writing the turn of %s: %w", m.Name, err)
	}
	return nil
}

// pods of a Node, uncached.
func (r *Reconciler) pods(ctx context.Context, node string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.Reader.List(ctx, list, client.MatchingFields{workload.NodeNameField: node}); err != nil {
		return nil, fmt.Errorf("listing the Pods of %s: %w", node, err)
	}
	return list.Items, nil
}

// guestLost is what the agent says of a container whose guest is gone
// without having ended.
const guestLost = "ContainerStatusUnknown"

// guestsLost looks for the guests of a Mac's last turn that were lost since. Once the turn is
// over that is done now and then, and when its Node went away or came back: for two hours, of a
// large fleet all at once.
func (r *Reconciler) guestsLost(ctx context.Context, found mac, last rollout.Permit, known loss) (loss, error) {
	now := loss{
		permitAt: last.At.UnixNano(), readySince: found.seen.ReadySince.UnixNano(), downSince: found.seen.DownSince.UnixNano(),
		over: found.machine.Annotations[infrav1.UpdateAnnotation] == "", at: r.Clock.Now(),
	}
	if now.over && now.like(known) && now.at.Sub(known.at) < lossesKnown {
		return known, nil
	}
	var err error
	now.lost, err = r.lost(ctx, found.machine.Name, last.Guests)
	return now, err
}

// lost counts the guests among the given that died without having ended. A Pod
// that ended, or that somebody deleted, was not lost.
func (r *Reconciler) lost(ctx context.Context, node string, guests []types.UID) (int, error) {
	pods, err := r.pods(ctx, node)
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range pods {
		if slices.Contains(guests, pods[i].UID) && pods[i].DeletionTimestamp.IsZero() && died(&pods[i]) {
			n++
		}
	}
	return n, nil
}

func died(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.Reason == guestLost
	})
}
