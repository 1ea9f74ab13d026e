package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
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
		return ctrl.Result{}, r.letGo(ctx, v, "it had no host")
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
		return ctrl.Result{}, r.letGo(ctx, v, "its host does not carry its claim")
	}
	return r.part(ctx, v)
}

// held reports whether the deletion waits: the object is being moved to another
// management cluster, or its Cluster is paused. The pause is read uncached; the
// Machine's own paused annotation does not hold its deletion.
func (r *Reconciler) held(ctx context.Context, v *visit) (bool, error) {
	if _, moving := v.machine.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moving {
		return true, nil
	}
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

// claimState is what a claim is worth when its Machine goes.
type claimState int

const (
	// claimOurs: the host carries our token.
	claimOurs claimState = iota
	// claimNone: there is nothing to release.
	claimNone
	// claimBlocked: it cannot be told yet.
	claimBlocked
)

// part walks a host with our claim to its release.
func (r *Reconciler) part(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.host.Spec.Release != nil {
		return ctrl.Result{}, r.letGo(ctx, v, "the host goes on alone")
	}
	if nameTaken(v.host) {
		return ctrl.Result{}, r.forsake(ctx, v)
	}
	if r.serverGone(v.host) {
		return ctrl.Result{}, r.outlive(ctx, v)
	}
	if result, done, err := r.emptyNode(ctx, v); err != nil || !done {
		return result, err
	}
	if result, done := r.leave(ctx, v); !done {
		return result, nil
	}
	if r.poolPrefix(v.machine) == "" {
		r.event(v.machine, transition{corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, "no pool prefix is known: host " + v.host.Name + " is left as it is, stranded"})
		return ctrl.Result{}, r.letGo(ctx, v, "release skipped: no pool prefix")
	}
	if err := r.recordRelease(ctx, v); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.letGo(ctx, v, "release recorded")
}

// nameTaken reports whether somebody else renamed the server after it showed our
// name. Then the host is theirs, and nothing destructive is done to it.
func nameTaken(h *host.Host) bool {
	c := apimeta.FindStatusCondition(h.Status.Conditions, infrav1.NameInSyncCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == infrav1.ReasonChangedByOther
}

// serverGone reports that there is no server to release. The phase alone may be
// an old one: lists that are newer than the first that lacked the server must
// stand behind it. Where they do not, the host is released as any other, and its
// controller ends the release of a server that it finds gone.
func (r *Reconciler) serverGone(h *host.Host) bool {
	missing := h.Status.MissingSince
	if h.Status.Phase != infrav1.HostGone || missing == nil || r.Zone == nil {
		return false
	}
	report, listed := r.Zone(h.Spec.Zone)
	return listed && report.Err == nil && !report.Suspicious && report.At.Sub(missing.Time) >= host.GoneAfter
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
	if err := r.clearClaim(ctx, v.host.Name, v.token()); err != nil {
		return err
	}
	r.event(v.machine, transition{corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, "host " + v.host.Name + " bears another name and is left as it is"})
	return r.letGo(ctx, v, "claim cleared, nothing wiped")
}

// clearClaim takes our claim off a host, if it is there.
func (r *Reconciler) clearClaim(ctx context.Context, name, token string) error {
	h := &host.Host{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, h); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !host.HoldsClaim(h, token) || h.Spec.Release != nil {
		return nil
	}
	h.Spec.ClaimRef = nil
	if err := r.Client.Update(ctx, h); err != nil {
		return fmt.Errorf("clearing the claim of host %s: %w", name, err)
	}
	return nil
}

// detaching recognises a person's recipe: the object is paused, its
// status.serverID was emptied, and it is deleted.
func detaching(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return annotations.HasPaused(m) && m.Status.ServerID == ""
}

// detachByHand forgets the Mac: neither the vendor nor the Mac is touched, since
// another owner may live on it.
func (r *Reconciler) detachByHand(ctx context.Context, v *visit) error {
	if err := r.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	if err := r.clearClaim(ctx, v.machine.Spec.HostRef.Name, v.token()); err != nil {
		return err
	}
	return r.letGo(ctx, v, "detached by hand")
}

// leaveTimeout bounds the Mac's farewell; the wipe does not depend on it.
const leaveTimeout = 15 * time.Second

// leave stops the agent on the Mac and takes its credentials away, best effort:
// done means that it worked, failed, or had its time.
func (r *Reconciler) leave(ctx context.Context, v *visit) (ctrl.Result, bool) {
	key := client.ObjectKeyFromObject(v.machine)
	if push, running := r.pushes.look(key); running && !push.done {
		r.pushes.cancel(key)
		v.released = no(infrav1.ReasonLeaving, "waiting for the push to host %s to stop", v.host.Name)
		return ctrl.Result{}, false
	}
	pin := v.host.Spec.Record.HostKey
	if pin == nil || pin.Epoch != v.host.Spec.Record.InstallEpoch || v.staged.address == "" {
		return ctrl.Result{}, true
	}
	current, begun := r.leaves.look(key)
	if begun && current.done {
		return ctrl.Result{}, true
	}
	deadline := current.began.Add(leaveTimeout)
	if begun && !r.Clock.Now().Before(deadline) {
		r.leaves.cancel(key)
		return ctrl.Result{}, true
	}
	if !begun {
		if err := r.beginLeave(ctx, v); err != nil {
			ctrl.LoggerFrom(ctx).Info("The Mac is not told to leave", "host", v.host.Name, "error", err.Error())
			return ctrl.Result{}, true
		}
		deadline = r.Clock.Now().Add(leaveTimeout)
	}
	v.released = no(infrav1.ReasonLeaving, "the agent on host %s is being stopped", v.host.Name)
	return after(r.Clock.Now(), deadline), false
}

func (r *Reconciler) beginLeave(ctx context.Context, v *visit) error {
	secret, err := r.readFleetKey(ctx, client.ObjectKey{Namespace: v.machine.Namespace, Name: v.fleet() + "-ssh"})
	if err != nil {
		return err
	}
	target := r.target(v, secret)
	log := ctrl.LoggerFrom(ctx).WithValues("host", v.host.Name)
	r.leaves.begin(client.ObjectKeyFromObject(v.machine), v.token(), func(ctx context.Context, say func(string)) error {
		say(infrav1.ReasonLeaving)
		err := r.farewell(ctx, target)
		if err != nil {
			log.Info("The Mac did not leave cleanly; the wipe goes on without", "error", err.Error())
		}
		return err
	})
	return nil
}

func (r *Reconciler) farewell(ctx context.Context, target Target) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	mac, err := r.Macs.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer mac.Close() //nolint:errcheck // nothing follows
	return mac.Leave(ctx)
}

// recordRelease gives the licence to wipe: in one locked write, after uncached
// reads that prove that the Machine is being deleted and the claim is ours.
func (r *Reconciler) recordRelease(ctx context.Context, v *visit) error {
	if err := r.confirmDeletion(ctx, v); err != nil {
		return err
	}
	h, err := r.amendHost(ctx, v.host.Name, v.token(), func(h *host.Host) bool {
		if h.Spec.Release != nil {
			return false
		}
		h.Spec.Release = &infrav1.Release{
			Token: v.token(), Policy: infrav1.Recycle, PoolPrefix: r.poolPrefix(v.machine),
			OSFamily: v.machine.Spec.OS, RequestedAt: metav1.NewMicroTime(r.Clock.Now()),
		}
		controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		return true
	})
	if err != nil {
		return err
	}
	v.host = h
	r.event(v.machine, transition{corev1.EventTypeNormal, infrav1.ReleasedCondition, "host " + h.Name + " is released to be wiped"})
	return nil
}

// confirmDeletion reads the Machine uncached: it is being deleted, still means
// this host, and is not being moved.
func (r *Reconciler) confirmDeletion(ctx context.Context, v *visit) error {
	fresh := &infrav1.ScalewayAppleSiliconMachine{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(v.machine), fresh); err != nil {
		return fmt.Errorf("confirming the deletion: %w", err)
	}
	_, moving := fresh.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	ref := fresh.Spec.HostRef
	if fresh.UID != v.machine.UID || fresh.DeletionTimestamp.IsZero() || moving || ref == nil || ref.ClaimToken != v.token() {
		return fmt.Errorf("confirming the deletion: %w", errStale)
	}
	return nil
}

// letGo ends the bootstrap token and drops the finalizer; what happened is said
// in the log, for the object goes.
func (r *Reconciler) letGo(ctx context.Context, v *visit, how string) error {
	key := client.ObjectKeyFromObject(v.machine)
	if err := r.dropToken(ctx, key); err != nil {
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
