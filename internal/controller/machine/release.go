package machine

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/fleetsecret"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/memo"
	"github.com/macfleet/macfleet/internal/order"
	"github.com/macfleet/macfleet/internal/push"
)

// releasePhase lets go of the host of a Machine that is deleted.
type releasePhase struct {
	clock      clock.PassiveClock
	reader     client.Reader
	absences   *memo.Memo[client.ObjectKey, machine.Absence]
	checks     *job.Pool
	claims     *claims
	gone       *goneServers
	hosts      hostclaim.Hosts
	keys       *fleetsecret.Store
	leaves     *job.Pool
	machines   *machines
	nodes      *nodes
	ownerships *ownerships
	pools      host.Pools
	pusher     *push.Pusher
	pushes     *job.Pool
	releases   *releases
	secrets    bootstrapsecret.Secrets
	starter    *pushStarter
	tokens     *push.Tokens
}

// run lets go of the Machine's host, which finishes alone: its wipe needs
// nothing of the Machine once the release is recorded. In order: empty the Node
// where core will not, let the Mac leave, record the release, drop the finalizer.
func (p *releasePhase) run(ctx context.Context, v *visit) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(v.Machine, infrav1.MachineFinalizer) {
		return ctrl.Result{}, nil
	}
	held, err := p.machines.clusterPaused(ctx, v)
	if err != nil || held {
		v.skipStatus = held
		return ctrl.Result{}, err
	}
	if v.Machine.Spec.HostRef == nil {
		if result, done, err := p.releaseLegacy(ctx, v); done || err != nil {
			return result, err
		}
	}
	if v.secret, err = p.secrets.Read(ctx, client.ObjectKeyFromObject(v.Machine)); err != nil {
		return ctrl.Result{}, err
	}
	if detaching(v.Machine) {
		return ctrl.Result{}, p.detachByHand(ctx, v)
	}
	claim, err := p.ownerships.claimOwnership(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch claim {
	case ownershipUnknown:
		return ctrl.Result{RequeueAfter: v.poll}, nil
	case ownershipNone:
		return ctrl.Result{}, p.removeFinalizerUnclaimed(ctx, v, v.released.Message)
	}
	return p.releaseHost(ctx, v)
}

// releaseHost walks a host with our claim to its release.
func (p *releasePhase) releaseHost(ctx context.Context, v *visit) (ctrl.Result, error) {
	switch machine.PlanRelease(v.Host, p.gone.serverGone(v.Host)) {
	case machine.ReleaseNothing:
		return ctrl.Result{}, p.removeFinalizer(ctx, v, "the host goes on alone")
	case machine.ReleaseMoved:
		return ctrl.Result{}, p.removeFinalizer(ctx, v, "the host is another management cluster's")
	case machine.ReleaseOrder:
		return ctrl.Result{}, p.cancelOrder(ctx, v)
	case machine.ReleaseClaimOnly:
		return ctrl.Result{}, p.abandonClaim(ctx, v)
	case machine.ReleaseGone:
		return ctrl.Result{}, p.releaseGoneServer(ctx, v)
	}
	if result, done, err := p.nodes.drainNode(ctx, v, p.wipeFollows(v)); err != nil || !done {
		return result, err
	}
	if result, done := p.stopAgent(ctx, v); !done {
		return result, nil
	}
	return ctrl.Result{}, p.applyReleasePolicy(ctx, v)
}

// cancelOrder releases an order, and the server that was made of it meanwhile.
// Nobody can detach or pool what does not exist: it is given back.
func (p *releasePhase) cancelOrder(ctx context.Context, v *visit) error {
	policy := p.releases.exitPolicy(v, true)
	if policy == infrav1.Detach || p.pools.Prefix(v.Machine) == "" {
		policy = infrav1.Terminate
	}
	if err := p.releases.recordRelease(ctx, v, policy); err != nil {
		return err
	}
	server, err := order.Delivered(ctx, p.reader, host.ClaimOf(v.Machine))
	if err != nil {
		return err
	}
	if server != nil && server.Spec.Release == nil {
		v.Host = server
		if err := p.releases.recordRelease(ctx, v, policy); err != nil {
			return err
		}
	}
	return p.removeFinalizer(ctx, v, "order cancelled")
}

// wipeFollows reports that applyReleasePolicy will record a release, by which the host
// is wiped.
func (p *releasePhase) wipeFollows(v *visit) bool {
	policy, _ := host.ReleasePolicy(v.Machine, v.Host.Spec.Record.Ordered)
	return policy == infrav1.Terminate || policy == infrav1.Recycle && p.pools.Prefix(v.Machine) != ""
}

// applyReleasePolicy does what the release policy says, once the Node is empty and the Mac was
// told to leave. Only a return to the pool needs the pool's prefix.
func (p *releasePhase) applyReleasePolicy(ctx context.Context, v *visit) error {
	policy := p.releases.exitPolicy(v, v.Host.Spec.Record.Ordered)
	if policy == infrav1.Detach {
		return p.detach(ctx, v)
	}
	if policy == infrav1.Recycle && p.pools.Prefix(v.Machine) == "" {
		p.machines.event(v.Machine, corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, "no pool prefix is known: host "+v.Host.Name+" is left as it is, stranded")
		return p.removeFinalizer(ctx, v, "release skipped: no pool prefix")
	}
	if err := p.releases.recordRelease(ctx, v, policy); err != nil {
		return err
	}
	return p.removeFinalizer(ctx, v, "release recorded")
}

// releaseGoneServer lets go of a host whose server is gone. The claim stays for the host
// controller, which removes the Host once no Machine holds it: a Machine that
// cleared it first could find no Host when it looks again, and wait for it.
func (p *releasePhase) releaseGoneServer(ctx context.Context, v *visit) error {
	if err := p.nodes.deleteLostNode(ctx, v); err != nil {
		return err
	}
	return p.removeFinalizer(ctx, v, "its server is gone")
}

// abandonClaim gives up a host that is somebody else's: the claim is cleared, and
// nothing is wiped.
func (p *releasePhase) abandonClaim(ctx context.Context, v *visit) error {
	if err := p.nodes.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	if err := p.hosts.End(ctx, v.claimOnHost(), p.clock.Now()); err != nil {
		return err
	}
	p.machines.event(v.Machine, corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, "host "+v.Host.Name+" bears another name and is left as it is")
	return p.removeFinalizer(ctx, v, "claim cleared, nothing wiped")
}

// removeFinalizerUnclaimed lets a Machine go that holds no host, and says why nothing is
// released where there is more to say.
func (p *releasePhase) removeFinalizerUnclaimed(ctx context.Context, v *visit, why string) error {
	if why != "" {
		p.machines.event(v.Machine, corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, why)
	}
	return p.removeFinalizer(ctx, v, "its host does not carry its claim")
}

// removeFinalizer ends the bootstrap token and drops the finalizer; what happened is said
// in the log, for the object goes.
func (p *releasePhase) removeFinalizer(ctx context.Context, v *visit, how string) error {
	key := client.ObjectKeyFromObject(v.Machine)
	if err := p.tokens.End(ctx, key, hostclaim.RefOf(v.Machine)); err != nil {
		return err
	}
	err := p.machines.patch(ctx, v, "end", func(m *infrav1.ScalewayAppleSiliconMachine) {
		controllerutil.RemoveFinalizer(m, infrav1.MachineFinalizer)
	})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	v.skipStatus = true
	p.pushes.Cancel(key)
	p.pushes.Forget(key)
	p.leaves.Forget(key)
	p.absences.Forget(key)
	log := ctrl.LoggerFrom(ctx)
	if v.Host != nil {
		log = log.WithValues("host", v.Host.Name, "serverID", v.Host.Spec.ServerID)
	}
	log.Info("Machine let go", "how", how)
	return nil
}

// releases records on hosts that they are to be wiped.
type releases struct {
	clock    clock.PassiveClock
	hosts    hostclaim.Hosts
	machines *machines
	pools    host.Pools
}

// exitPolicy is package host's, and tells of an annotation that is no policy.
func (p *releases) exitPolicy(v *visit, ordered bool) infrav1.ReleasePolicy {
	policy, unknown := host.ReleasePolicy(v.Machine, ordered)
	if unknown != "" && conditions.GetReason(v.Machine, infrav1.ReleasedCondition) != machine.ReasonNoPolicy {
		told := machine.NoPolicy(unknown, policy)
		p.machines.event(v.Machine, corev1.EventTypeWarning, told.Reason, told.Message)
	}
	return policy
}

// recordRelease gives the licence to wipe: in one locked write, after uncached
// reads that prove that the Machine is being deleted and the claim is ours.
func (p *releases) recordRelease(ctx context.Context, v *visit, policy infrav1.ReleasePolicy) error {
	if err := p.machines.confirmDeletion(ctx, v); err != nil {
		return err
	}
	h, err := p.hosts.Amend(ctx, v.claimOnHost(), func(h *host.Host) bool {
		if host.Ending(h) {
			return false
		}
		h.Spec.Release = p.newRelease(v, policy)
		controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		return true
	})
	if err != nil {
		return err
	}
	v.Host = h
	if refusal := p.pools.Refusal(v.Machine); refusal != "" && policy == infrav1.Recycle {
		p.machines.event(v.Machine, corev1.EventTypeWarning, infrav1.ReasonPoolPrefixNotAllowed, refusal+"; host "+h.Name+" goes to the pool "+h.Spec.Release.PoolPrefix)
	}
	p.machines.event(v.Machine, corev1.EventTypeNormal, infrav1.ReleasedCondition, "host "+h.Name+" is released to be wiped: "+string(policy))
	return nil
}

func (p *releases) newRelease(v *visit, policy infrav1.ReleasePolicy) *infrav1.Release {
	return &infrav1.Release{
		Token: v.Token(), Policy: policy, Origin: infrav1.OriginMachine, PoolPrefix: p.pools.Prefix(v.Machine),
		OSFamily: host.OSFamily(v.Machine.Spec.OS), RequestedAt: metav1.NewMicroTime(p.clock.Now()),
	}
}

// detach forgets a host whose Node is empty and whose Mac was told to leave. The
// Node goes first: once the claim has ended nothing here remembers it.
func (p *releasePhase) detach(ctx context.Context, v *visit) error {
	if err := p.machines.confirmDeletion(ctx, v); err != nil {
		return err
	}
	if err := p.forget(ctx, v, v.Host.Name); err != nil {
		return err
	}
	p.machines.event(v.Machine, corev1.EventTypeNormal, infrav1.ReasonDetached, "host "+v.Host.Name+" is let go as it is; the vendor was asked for nothing")
	return p.removeFinalizer(ctx, v, "detached")
}

// detaching recognises a person's recipe: the object is paused, its
// status.serverID was emptied, and it is deleted. An order has no server yet, and
// so an empty serverID that is nobody's word.
func detaching(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return annotations.HasPaused(m) && m.Status.ServerID == "" && !host.OrderMeant(m)
}

// detachByHand forgets the Mac: neither the vendor nor the Mac is touched, since
// another owner may live on it.
func (p *releasePhase) detachByHand(ctx context.Context, v *visit) error {
	_, verdict, err := p.claims.judgeClaim(ctx, v, p.reader)
	if err != nil {
		return err
	}
	if verdict == host.Recreated {
		missing, err := p.machines.missingOwner(ctx, v.Machine)
		if err != nil {
			return err
		}
		if missing != "" {
			return p.removeFinalizerUnclaimed(ctx, v, host.Orphaned(v.Machine.Spec.HostRef.Name, missing))
		}
	}
	if err := p.forget(ctx, v, v.Machine.Spec.HostRef.Name); err != nil {
		return err
	}
	return p.removeFinalizer(ctx, v, "detached by hand")
}

// forget deletes the Machine's Node and ends its claim without a wipe.
func (p *releasePhase) forget(ctx context.Context, v *visit, name string) error {
	if err := p.nodes.deleteOwnNode(ctx, v); err != nil {
		v.released = machine.False(infrav1.ReasonDraining, "the Node cannot be deleted: %s", err)
		return err
	}
	return p.hosts.End(ctx, hostclaim.Ref{Host: name, Claim: host.ClaimOf(v.Machine)}, p.clock.Now())
}

// leaveTimeout bounds the Mac's farewell; the wipe does not depend on it.
const leaveTimeout = 15 * time.Second

// stopAgent stops the agent on the Mac and takes its credentials away, best effort:
// done means that it worked, failed, or had its time.
func (p *releasePhase) stopAgent(ctx context.Context, v *visit) (ctrl.Result, bool) {
	key := client.ObjectKeyFromObject(v.Machine)
	p.checks.Cancel(key) // it only looks
	if p.pushes.Running(key) {
		p.pushes.Cancel(key)
		v.released = machine.False(infrav1.ReasonLeaving, "waiting for the push to host %s to stop", v.Host.Name)
		return ctrl.Result{}, false
	}
	pin := v.Host.Spec.Record.HostKey
	if pin == nil || pin.Epoch != v.Host.Spec.Record.InstallEpoch || v.secret.Address == "" {
		return ctrl.Result{}, true
	}
	current, begun := p.leaves.Look(key)
	if begun && current.Done {
		return ctrl.Result{}, true
	}
	deadline := current.Began.Add(leaveTimeout)
	if begun && !p.clock.Now().Before(deadline) {
		p.leaves.Cancel(key)
		return ctrl.Result{}, true
	}
	if !begun {
		if err := p.beginStopAgent(ctx, v); err != nil {
			ctrl.LoggerFrom(ctx).Info("The Mac is not told to leave", "host", v.Host.Name, "error", err.Error())
			return ctrl.Result{}, true
		}
		deadline = p.clock.Now().Add(leaveTimeout)
	}
	v.released = machine.False(infrav1.ReasonLeaving, "the agent on host %s is being stopped", v.Host.Name)
	return after(p.clock.Now(), deadline), false
}

func (p *releasePhase) beginStopAgent(ctx context.Context, v *visit) error {
	key, err := p.keys.ReadSSH(ctx, v.fleetOf())
	if err != nil {
		return err
	}
	signing, err := p.keys.ReadSigning(ctx, v.fleetOf())
	if err != nil {
		return err
	}
	target, signer := p.starter.target(v, key), signing.Signer(identity(v), p.clock.Now)
	log := ctrl.LoggerFrom(ctx).WithValues("host", v.Host.Name)
	p.leaves.Begin(client.ObjectKeyFromObject(v.Machine), v.Token(), func(ctx context.Context, say func(string)) (any, error) {
		say(infrav1.ReasonLeaving)
		ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
		defer cancel()
		err := p.pusher.Leave(ctx, target, signer)
		if err != nil {
			log.Info("The Mac did not leave cleanly; the wipe goes on without", "error", err.Error())
		}
		return nil, err
	})
	return nil
}
