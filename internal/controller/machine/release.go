package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// release lets go of the Machine's host, which finishes alone: its wipe needs
// nothing of the Machine once the release is recorded. In order: empty the Node
// where core will not, let the Mac leave, record the release, drop the finalizer.
func (r *Reconciler) release(ctx context.Context, v *visit) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(v.machine, infrav1.MachineFinalizer) {
		return ctrl.Result{}, nil
	}
	held, err := r.held(ctx, v)
	if err != nil || held {
		v.silent = held
		return ctrl.Result{}, err
	}
	if v.machine.Spec.HostRef == nil {
		if result, done, err := r.releaseLegacy(ctx, v); done || err != nil {
			return result, err
		}
	}
	if v.staged, err = r.readStaged(ctx, client.ObjectKeyFromObject(v.machine)); err != nil {
		return ctrl.Result{}, err
	}
	if detaching(v.machine) {
		return ctrl.Result{}, r.detachByHand(ctx, v)
	}
	claim, err := r.standing(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch claim {
	case claimBlocked:
		return ctrl.Result{RequeueAfter: v.poll}, nil
	case claimNone:
		return ctrl.Result{}, r.letGoUnclaimed(ctx, v, nil, v.released.message)
	}
	return r.part(ctx, v)
}

// held reports whether the deletion waits because the Cluster is paused, as an
// uncached read shows. The Machine's own paused annotation does not hold it, and a
// Cluster that is gone does not either.
func (r *Reconciler) held(ctx context.Context, v *visit) (bool, error) {
	name := clusterName(v.machine)
	if name == "" {
		return false, nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: v.machine.Namespace, Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	v.cluster = cluster
	return ptr.Deref(cluster.Spec.Paused, false), nil
}

// part walks a host with our claim to its release.
func (r *Reconciler) part(ctx context.Context, v *visit) (ctrl.Result, error) {
	if host.Ending(v.host) {
		return ctrl.Result{}, r.letGo(ctx, v, "the host goes on alone")
	}
	switch {
	case v.host.Spec.Record.HandedOverAt != nil:
		return ctrl.Result{}, r.letGo(ctx, v, "the host is another management cluster's")
	case v.host.Spec.Order != nil:
		return ctrl.Result{}, r.cancelOrder(ctx, v)
	case host.ChangedByOther(v.host):
		return ctrl.Result{}, r.forsake(ctx, v)
	case r.serverGone(v.host):
		return ctrl.Result{}, r.outlive(ctx, v)
	}
	if result, done, err := r.emptyNode(ctx, v); err != nil || !done {
		return result, err
	}
	if result, done := r.leave(ctx, v); !done {
		return result, nil
	}
	return ctrl.Result{}, r.exit(ctx, v)
}

// exit does what the release policy says, once the Node is empty and the Mac was
// told to leave. Only a return to the pool needs the pool's prefix.
func (r *Reconciler) exit(ctx context.Context, v *visit) error {
	policy := r.exitPolicy(v, v.host.Spec.Record.Ordered)
	if policy == infrav1.Detach {
		return r.detach(ctx, v)
	}
	if policy == infrav1.Recycle && r.poolPrefix(v.machine) == "" {
		r.event(v.machine, transition{corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, "no pool prefix is known: host " + v.host.Name + " is left as it is, stranded"})
		return r.letGo(ctx, v, "release skipped: no pool prefix")
	}
	if err := r.recordRelease(ctx, v, policy); err != nil {
		return err
	}
	return r.letGo(ctx, v, "release recorded")
}

// exitPolicy is package host's, and tells of an annotation that is no policy.
func (r *Reconciler) exitPolicy(v *visit, ordered bool) infrav1.ReleasePolicy {
	policy, unknown := host.ExitPolicy(v.machine, ordered)
	if unknown != "" && conditions.GetReason(v.machine, infrav1.ReleasedCondition) != reasonNoPolicy {
		told := noPolicy(unknown, policy)
		r.event(v.machine, transition{corev1.EventTypeWarning, told.reason, told.message})
	}
	return policy
}

// serverGone reports that there is no server to release. The phase alone may be
// an old one, and its times are by the clock of the manager that wrote them: the own
// last list must lack the server too. Where it does not, the host is released as any
// other, and its controller ends the release of a server that it finds gone.
func (r *Reconciler) serverGone(h *host.Host) bool {
	if h.Status.Phase != infrav1.HostGone || h.Status.MissingSince == nil || r.Zone == nil || r.Lacks == nil {
		return false
	}
	report, listed := r.Zone(h.Spec.Zone)
	return listed && report.Err == nil && !report.Suspicious && r.Lacks(h.Spec.Zone, h.Spec.ServerID)
}

// outlive lets go of a host whose server is gone. The claim stays for the host
// controller, which removes the Host once no Machine holds it: a Machine that
// cleared it first could find no Host when it looks again, and wait for it.
func (r *Reconciler) outlive(ctx context.Context, v *visit) error {
	if err := r.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	return r.letGo(ctx, v, "its server is gone")
}

// forsake gives up a host that is somebody else's: the claim is cleared, and
// nothing is wiped.
func (r *Reconciler) forsake(ctx context.Context, v *visit) error {
	if err := r.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	if err := r.endClaim(ctx, v.host.Name, host.ClaimOf(v.machine)); err != nil {
		return err
	}
	r.event(v.machine, transition{corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, "host " + v.host.Name + " bears another name and is left as it is"})
	return r.letGo(ctx, v, "claim cleared, nothing wiped")
}

// recordRelease gives the licence to wipe: in one locked write, after uncached
// reads that prove that the Machine is being deleted and the claim is ours.
func (r *Reconciler) recordRelease(ctx context.Context, v *visit, policy infrav1.ReleasePolicy) error {
	if err := r.confirmDeletion(ctx, v); err != nil {
		return err
	}
	h, err := r.amendHost(ctx, v.host.Name, host.ClaimOf(v.machine), func(h *host.Host) bool {
		if host.Ending(h) {
			return false
		}
		h.Spec.Release = r.newRelease(v, policy)
		controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		return true
	})
	if err != nil {
		return err
	}
	v.host = h
	if refusal := r.pools().Refusal(v.machine); refusal != "" && policy == infrav1.Recycle {
		r.event(v.machine, transition{corev1.EventTypeWarning, infrav1.ReasonPoolPrefixNotAllowed, refusal + "; host " + h.Name + " goes to the pool " + h.Spec.Release.PoolPrefix})
	}
	r.event(v.machine, transition{corev1.EventTypeNormal, infrav1.ReleasedCondition, "host " + h.Name + " is released to be wiped: " + string(policy)})
	return nil
}

func (r *Reconciler) newRelease(v *visit, policy infrav1.ReleasePolicy) *infrav1.Release {
	return &infrav1.Release{
		Token: v.token(), Policy: policy, Origin: infrav1.OriginMachine, PoolPrefix: r.poolPrefix(v.machine),
		OSFamily: host.OSFamily(v.machine.Spec.OS), RequestedAt: metav1.NewMicroTime(r.Clock.Now()),
	}
}

// confirmDeletion reads the Machine uncached: it is being deleted, still means
// this host, and is not being moved.
func (r *Reconciler) confirmDeletion(ctx context.Context, v *visit) error {
	fresh := &infrav1.ScalewayAppleSiliconMachine{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(v.machine), fresh); err != nil {
		return fmt.Errorf("confirming the deletion: %w", err)
	}
	ref := fresh.Spec.HostRef
	if fresh.UID != v.machine.UID || fresh.DeletionTimestamp.IsZero() || moving(fresh) || ref == nil || ref.ClaimToken != v.token() {
		return fmt.Errorf("confirming the deletion: %w", errStale)
	}
	return nil
}

// letGoUnclaimed lets a Machine go that holds no host, and says why nothing is
// released where there is more to say.
func (r *Reconciler) letGoUnclaimed(ctx context.Context, v *visit, err error, why string) error {
	if err != nil {
		return err
	}
	if why != "" {
		r.event(v.machine, transition{corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, why})
	}
	return r.letGo(ctx, v, "its host does not carry its claim")
}

// letGo ends the bootstrap token and drops the finalizer; what happened is said
// in the log, for the object goes.
func (r *Reconciler) letGo(ctx context.Context, v *visit, how string) error {
	key := client.ObjectKeyFromObject(v.machine)
	if err := r.dropToken(ctx, key, v.meant()); err != nil {
		return err
	}
	err := r.patch(ctx, v, "end", func(m *infrav1.ScalewayAppleSiliconMachine) {
		controllerutil.RemoveFinalizer(m, infrav1.MachineFinalizer)
	})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	v.silent = true
	r.pushes.cancel(key)
	r.pushes.forget(key)
	r.leaves.forget(key)
	r.absences.forget(key)
	log := ctrl.LoggerFrom(ctx)
	if v.host != nil {
		log = log.WithValues("host", v.host.Name, "serverID", v.host.Spec.ServerID)
	}
	log.Info("Machine let go", "how", how)
	return nil
}
