package machine

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

// setLegacyHostRef writes spec.hostRef of a Machine that the first system made: the host
// of its own server, or none.
func (p *claimPhase) setLegacyHostRef(ctx context.Context, v *visit, legacy host.Legacy) (bool, error) {
	if waits(v) {
		return false, nil
	}
	step, h, why, err := p.claims.nextLegacy(ctx, v, legacy)
	if err != nil {
		return false, err
	}
	if step != host.LegacyClaim {
		v.poll = waitPoll
		way := ""
		if step == host.LegacyOthers && h.Spec.ClaimRef == nil { // where it is claimed, core would drain the owner's Node
			way = ": delete this Machine"
		}
		v.claimed = machine.False(infrav1.ReasonLegacyMachine, "the first system made this Machine, and %s; no other host is given%s", why, way)
		return false, nil
	}
	if found, err := p.requireLegacyKey(ctx, v); err != nil || !found {
		return false, err
	}
	return true, p.claims.patchLegacyHostRef(ctx, v, h)
}

// requireLegacyKey wants the key that the Mac knows: one that is made now lets nobody
// in, for the vendor gives keys to a Mac when it is installed, and only then.
func (p *claimPhase) requireLegacyKey(ctx context.Context, v *visit) (bool, error) {
	_, err := p.keys.ReadSSH(ctx, v.fleetOf())
	if apierrors.IsNotFound(err) {
		v.poll = waitPoll
		v.claimed = machine.False(infrav1.ReasonFleetKeyUnavailable, "the first system made this Machine, and its Mac is reached with the key that it knows: Secret %s is not in this namespace; copy it from the namespace of the first system's Secrets", v.fleetOf().SSHSecret().Name)
		return false, nil
	}
	if err != nil {
		v.claimed = machine.False(infrav1.ReasonFleetKeyUnavailable, "%s", err)
		return false, err
	}
	return true, p.requireFleetKey(ctx, v)
}

// releaseLegacy finds the host of a deleted Machine that the first system made: only
// what is claimed can be released. Done: nothing else is to be done in this visit.
func (p *releasePhase) releaseLegacy(ctx context.Context, v *visit) (ctrl.Result, bool, error) {
	legacy, is := host.LegacyServer(v.Machine)
	if !is {
		return ctrl.Result{}, true, p.removeFinalizer(ctx, v, "it had no host")
	}
	if detaching(v.Machine) {
		return ctrl.Result{}, true, p.finishLegacy(ctx, v, "detached by hand")
	}
	step, h, why, err := p.claims.nextLegacy(ctx, v, legacy)
	if err != nil {
		return ctrl.Result{}, true, err
	}
	zone := cmp.Or(legacy.Zone, v.Zone())
	switch {
	case step == host.LegacyClaim:
		return ctrl.Result{}, false, p.claims.patchLegacyHostRef(ctx, v, h)
	case step == host.LegacyOthers, step == host.LegacyRenamed && p.gone.provedByLists(v, zone, "the name of "+legacy.ServerID):
		p.machines.event(v.Machine, corev1.EventTypeWarning, infrav1.ReasonReleaseSkipped, "nothing is released for this Machine of the first system: "+why)
		return ctrl.Result{}, true, p.finishLegacy(ctx, v, "its server is not its own any more")
	case step == host.LegacyMissing && p.gone.provedByLists(v, zone, legacy.ServerID):
		return ctrl.Result{}, true, p.finishLegacy(ctx, v, "its server is gone")
	}
	v.poll = cmp.Or(v.poll, waitPoll)
	until := "its host is released once it is found, or forgotten once its server is proved gone"
	if step == host.LegacyRenamed {
		until = "it is forgotten once newer lists say so, too, and released where they show its own name"
	}
	v.released = machine.False(infrav1.ReasonReleaseBlocked, "the first system made this Machine, and %s: %s", why, until)
	return ctrl.Result{RequeueAfter: v.poll}, true, nil
}

// finishLegacy lets a Machine of the first system go, whose Mac is not touched.
func (p *releasePhase) finishLegacy(ctx context.Context, v *visit, how string) error {
	if err := p.nodes.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	return p.removeFinalizer(ctx, v, how)
}
