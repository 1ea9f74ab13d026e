package machine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// intendLegacy writes the intent of a Machine that the first system made: the host
// of its own server, or none.
func (r *Reconciler) intendLegacy(ctx context.Context, v *visit, legacy host.Legacy) (bool, error) {
	if waiting := unready(v); waiting.reason != "" {
		v.claimed = waiting
		return false, nil
	}
	step, h, why, err := r.nextLegacy(ctx, v, legacy)
	if err != nil {
		return false, err
	}
	if step != host.LegacyClaim {
		v.poll = waitPoll
		way := ""
		if step == host.LegacyOthers && h.Spec.ClaimRef == nil { // where it is claimed, core would drain the owner's Node
			way = ": delete this Machine"
		}
		v.claimed = no(infrav1.ReasonLegacyMachine, "the first system made this Machine, and %s; no other host is given%s", why, way)
		return false, nil
	}
	if found, err := r.haveLegacyKey(ctx, v); err != nil || !found {
		return false, err
	}
	return true, r.writeLegacyIntent(ctx, v, h)
}

// nextLegacy asks package host, from uncached lists: a claim follows.
func (r *Reconciler) nextLegacy(ctx context.Context, v *visit, legacy host.Legacy) (host.LegacyStep, *host.Host, string, error) {
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := r.Reader.List(ctx, hosts); err != nil {
		return "", nil, "", fmt.Errorf("listing hosts: %w", err)
	}
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := r.Reader.List(ctx, machines); err != nil {
		return "", nil, "", fmt.Errorf("listing Machines: %w", err)
	}
	step, h, why := host.NextLegacy(v.machine, legacy, hosts.Items, machines.Items, r.pools().Known(machines.Items)...)
	return step, h, why, nil
}

// haveLegacyKey wants the key that the Mac knows: one that is made now lets nobody
// in, for the vendor gives keys to a Mac when it is installed, and only then.
func (r *Reconciler) haveLegacyKey(ctx context.Context, v *visit) (bool, error) {
	name := v.fleetSecret()
	_, err := r.readFleetKey(ctx, name)
	if apierrors.IsNotFound(err) {
		v.poll = waitPoll
		v.claimed = no(infrav1.ReasonFleetKeyUnavailable, "the first system made this Machine, and its Mac is reached with the key that it knows: Secret %s is not in this namespace; copy it from the namespace of the first system's Secrets", name.Name)
		return false, nil
	}
	if err != nil {
		v.claimed = no(infrav1.ReasonFleetKeyUnavailable, "%s", err)
		return false, err
	}
	return true, r.haveFleetKey(ctx, v)
}

func (r *Reconciler) writeLegacyIntent(ctx context.Context, v *visit, h *host.Host) error {
	intent := &infrav1.HostReference{Name: h.Name, ClaimToken: uuid.NewString(), TakeOver: true}
	return r.patch(ctx, v, "intent", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = intent })
}

// releaseLegacy finds the host of a deleted Machine that the first system made: only
// what is claimed can be released. Done: nothing else is to be done in this visit.
func (r *Reconciler) releaseLegacy(ctx context.Context, v *visit) (ctrl.Result, bool, error) {
	legacy, is := host.LegacyServer(v.machine)
	if !is {
		return ctrl.Result{}, true, r.letGo(ctx, v, "it had no host")
	}
	if detaching(v.machine) {
		return ctrl.Result{}, true, r.leaveLegacy(ctx, v, "detached by hand")
	}
	step, h, why, err := r.nextLegacy(ctx, v, legacy)
	if err != nil {
		return ctrl.Result{}, true, err
	}
	zone := cmp.Or(legacy.Zone, v.zone())
	switch {
	case step == host.LegacyClaim:
		return ctrl.Result{}, false, r.writeLegacyIntent(ctx, v, h)
	case step == host.LegacyOthers, step == host.LegacyRenamed && r.listsAgree(v, zone, "the name of "+legacy.ServerID):
		r.event(v.machine, transition{corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, "nothing is released for this Machine of the first system: " + why})
		return ctrl.Result{}, true, r.leaveLegacy(ctx, v, "its server is not its own any more")
	case step == host.LegacyMissing && r.listsAgree(v, zone, legacy.ServerID):
		return ctrl.Result{}, true, r.leaveLegacy(ctx, v, "its server is gone")
	}
	if v.poll == 0 {
		v.poll = waitPoll
	}
	until := "its host is released once it is found, or forgotten once its server is proved gone"
	if step == host.LegacyRenamed {
		until = "it is forgotten once newer lists say so, too, and released where they show its own name"
	}
	v.released = no(infrav1.ReasonReleaseBlocked, "the first system made this Machine, and %s: %s", why, until)
	return ctrl.Result{RequeueAfter: v.poll}, true, nil
}

// leaveLegacy lets a Machine of the first system go, whose Mac is not touched.
func (r *Reconciler) leaveLegacy(ctx context.Context, v *visit, how string) error {
	if err := r.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	return r.letGo(ctx, v, how)
}

// tellLegacy emits an event about a Machine that is taken over.
func (r *Reconciler) tellLegacy(v *visit, note string) {
	r.event(v.machine, transition{corev1.EventTypeNormal, infrav1.ReasonLegacyMachine, note})
}

// takingOver: the Mac still runs the first system's agent, as far as anybody
// remembers. It has nothing to join with.
func (v *visit) takingOver() bool {
	return host.TakesOver(v.machine) && v.machine.Status.Applied.Agent == ""
}

// keptByUs reports that this system's agent keeps the Node. One of a Mac that is
// taken over is Ready by the first system's, and ours has yet to use its token.
func (v *visit) keptByUs() bool {
	return !host.TakesOver(v.machine) || host.KeptByAgent(v.node)
}

// cleanConditions removes conditions that the API no longer takes, as the first
// system wrote them: without a reason. As long as they are there no status can be
// written.
func (r *Reconciler) cleanConditions(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) error {
	var kept []metav1.Condition
	for _, c := range m.Status.Conditions {
		if c.Reason != "" {
			kept = append(kept, c)
		}
	}
	if len(kept) == len(m.Status.Conditions) {
		return nil
	}
	base := m.DeepCopy()
	m.Status.Conditions = kept
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, m, patch); err != nil {
		return fmt.Errorf("removing conditions of another system: %w", err)
	}
	return nil
}
