package host

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// mostSteps of a wipe within one Reconcile. A whole wipe has six, most of them with a
// wait between.
const mostSteps = 8

// wiping is the phase of a released host: the request is recorded, then made, then its
// end is observed, then the name is given back, and only then is the host free. A host
// that goes back to the vendor is deleted once its wipe has begun.
type wiping struct {
	*vendor
	idle    idling
	metrics *metrics
	// reinstalls and deletions are what the vendor acknowledged lately.
	reinstalls, deletions *requests
	// os is the image to install, once this Reconcile has looked for it; empty: the default.
	os *string
}

func (p *wiping) reconcile(ctx context.Context) (ctrl.Result, error) {
	if !host.ChangedByOther(p.host) {
		if err := p.clearClaimStatus(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	if p.stillWiping() {
		return ctrl.Result{RequeueAfter: p.untilTimeout()}, nil
	}
	for range mostSteps {
		result, done, err := p.step(ctx)
		if done || err != nil {
			return result, err
		}
	}
	return ctrl.Result{RequeueAfter: p.poll()}, nil
}

// clearClaimStatus takes what was shown of the claim off the status, for good: before
// the host can be claimed again, nothing may be left for the next owner to see.
func (p *wiping) clearClaimStatus(ctx context.Context) error {
	conditions := p.host.Status.Conditions
	if p.host.Status.ShownSince == nil && meta.FindStatusCondition(conditions, infrav1.NameInSyncCondition) == nil &&
		meta.FindStatusCondition(conditions, host.CredentialsStagedCondition) == nil {
		return nil
	}
	p.clearShown()
	return p.patchStatus(ctx)
}

// stillWiping: the inventory's own list answers what a reading would, so that
// neither a wipe of a quarter of an hour nor a month at a billing floor costs
// calls of its own.
func (p *wiping) stillWiping() bool {
	h := p.host
	seen, known := p.reading()
	if !known || !seen.missingSince.IsZero() || !host.WipeAllowed(h) {
		return false
	}
	in := p.input(seen.server)
	in.Began = seen.at
	if host.WipePending(h, in, p.now()) {
		return true
	}
	wipe, timedOut := h.Spec.Record.Wipe, host.TimedOut(h, p.now(), p.ReinstallTimeout)
	under := wipe.StartedAt != nil && wipe.ObservedAt == nil
	if h.Spec.Release.Policy == infrav1.Terminate {
		if host.NextWipe(h, in) == host.WipeEndClaim {
			return false
		}
		toObserve := under && seen.server.Status == cloud.StatusReady
		return seen.server.DeletionScheduled && (wipe.StartedAt != nil || timedOut) && !toObserve
	}
	return under && seen.at.After(in.FirstSeen.Started) && seen.server.Status == cloud.StatusReinstalling &&
		(!timedOut || host.WipeAbandoned(h, p.now()))
}

// untilTimeout is when to look again at a wipe under way.
func (p *wiping) untilTimeout() time.Duration {
	requested := p.host.Spec.Record.Wipe.RequestedAt
	if requested == nil || p.now().Sub(requested.Time) >= p.ReinstallTimeout {
		return p.InventoryInterval
	}
	return min(requested.Add(p.ReinstallTimeout).Sub(p.now()), p.InventoryInterval)
}

// input is the newest reading, with what a released host is judged by.
func (p *wiping) input(server cloud.Server) host.WipeInput {
	return host.WipeInput{
		Server: server, Began: p.readAt, Settle: p.Settle, Timeout: p.ReinstallTimeout, Pools: p.pools().Known(nil),
		FirstSeen: p.since(p.now()),
	}
}

// step reads the server and does the one next thing; done ends the Reconcile.
func (p *wiping) step(ctx context.Context) (result ctrl.Result, done bool, err error) {
	server, _, err := p.read(ctx)
	if cloud.IsForbidden(err) && host.Returned(p.host, p.now()) {
		p.observed.Refusal = cloud.Said(err)
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, true, nil // deleted, as asked; the lists prove it
	}
	if err != nil {
		result, err = p.Refused(ctx, err)
		return result, true, err
	}
	step := host.NextWipe(p.host, p.input(server))
	if step != host.WipeForeign && step != host.WipeNotAllowed && host.ChangedByOther(p.host) {
		return ctrl.Result{}, false, p.clearClaimStatus(ctx) // it was named back; decide anew
	}
	switch step {
	case host.WipeRecord:
		return ctrl.Result{}, false, p.recordRequest(ctx)
	case host.WipeReinstall:
		return p.reinstall(ctx, server)
	case host.WipeStart:
		return ctrl.Result{}, false, p.recordStart(ctx)
	case host.WipeObserve:
		return ctrl.Result{}, false, p.recordObserved(ctx)
	case host.WipeRename:
		return p.nameIntoPool(ctx)
	case host.WipeRepeat, host.WipeAbandon:
		return ctrl.Result{}, false, p.recordTimeout(ctx, step, server.Status)
	case host.WipeDelete:
		return p.returnToVendor(ctx)
	case host.WipeFree:
		return ctrl.Result{}, true, p.free(ctx)
	case host.WipeWait:
		return ctrl.Result{RequeueAfter: p.untilNext(server)}, true, nil
	case host.WipeForeign:
		p.changedByOther(ctx)
		return ctrl.Result{}, true, nil
	case host.WipeEndClaim:
		return ctrl.Result{}, true, p.endClaim(ctx)
	default:
		ctrl.LoggerFrom(ctx).Info("The recorded release is not of this claim; nothing is done")
		return ctrl.Result{}, true, nil
	}
}

func (p *wiping) recordRequest(ctx context.Context) error {
	err := p.Update(ctx, func(h *host.Host) {
		controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		host.RecordWipe(h, p.now())
	})
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Wipe requested", "generation", p.host.Spec.Record.Wipe.Generation, "was", p.host.Spec.ClaimRef.Name)
	}
	return err
}

func (p *wiping) recordStart(ctx context.Context) error {
	p.reinstalls.Forget(p.host.UID)
	return p.Update(ctx, func(h *host.Host) { host.RecordWipeStart(h, p.now()) })
}

// recordTimeout notes that a wipe failed or was not seen to end in time: once it is asked
// for again, and then the host is left to a person, and looked at all the same.
func (p *wiping) recordTimeout(ctx context.Context, step host.WipeStep, status cloud.Status) error {
	reason := host.WhyNotWiped(status)
	note := wipeNote(p.host, step, reason)
	err := p.Update(ctx, func(h *host.Host) {
		if step == host.WipeAbandon {
			host.RecordWipeAbandoned(h, reason, p.now())
			return
		}
		host.RecordRepeat(h, p.now())
	})
	if err != nil {
		return err
	}
	p.failureAnnounced = reason == infrav1.ReasonReinstallFailed
	p.event(corev1.EventTypeWarning, reason, note)
	ctrl.LoggerFrom(ctx).Info("Wipe came to nothing", "reason", reason, "generation", p.host.Spec.Record.Wipe.Generation, "quarantined", step == host.WipeAbandon)
	return nil
}

// wipeNote is the event of a wipe that came to nothing. h is as it was before.
func wipeNote(h *host.Host, step host.WipeStep, reason string) string {
	what := "the reinstall was not seen to end in time"
	if reason == infrav1.ReasonReinstallFailed {
		what = "the vendor shows the server in error after its reinstall"
	}
	switch {
	case step == host.WipeAbandon:
		return what + ", for the second time; the host is quarantined"
	case host.WipeFailedTwice(h):
		return what + "; the quarantine is over, and it is asked for again"
	}
	return what + "; it is asked for again"
}

// reinstall asks for the wipe. An act in progress is fine when it is a reinstall,
// which the next reading tells; any other is waited out. An acknowledgement is
// no proof that anything began: that too is for the next reading.
func (p *wiping) reinstall(ctx context.Context, server cloud.Server) (ctrl.Result, bool, error) {
	if p.reinstalls.lately(p.host, p.now()) {
		return ctrl.Result{RequeueAfter: p.poll()}, true, nil
	}
	image, err := p.image(ctx, server)
	if err != nil {
		return ctrl.Result{}, true, err
	}
	if allowed, err := p.mayWipe(ctx); err != nil || !allowed {
		return ctrl.Result{}, true, err
	}
	if p.tooOld() { // as after a slow list of images, which is not asked for again
		return ctrl.Result{}, false, nil
	}
	err = p.Cloud.ReinstallServer(ctx, p.host.Spec.Zone, p.host.Spec.ServerID, image)
	if image != "" && (cloud.IsInvalid(err) || cloud.IsNotFound(err)) { // fall back to the type's default
		p.os = new(string)
		return ctrl.Result{}, false, nil
	}
	if cloud.IsTransient(err) {
		if server, _, readErr := p.read(ctx); readErr == nil && server.Status == cloud.StatusReinstalling {
			return ctrl.Result{}, false, nil
		}
	}
	if err != nil {
		if server.Status != cloud.StatusReady && server.Status != cloud.StatusError {
			p.reinstalls.note(p.host, p.now()) // nobody knows how long this state lasts
		}
		return p.reinstallRefused(ctx, err)
	}
	if image == "" && p.host.Spec.Release.OSFamily != "" {
		p.event(corev1.EventTypeWarning, "OSUnpublished", "no image of "+p.host.Spec.Release.OSFamily+" is published; the type's default is installed")
	}
	p.reinstalls.note(p.host, p.now())
	return ctrl.Result{}, false, nil
}

// reinstallRefused keeps asking, and says when the refusal will not pass by
// itself. The server was read a moment ago: a lack of permission does not mean
// that it is gone. A Mac that cannot be wiped is given back to the vendor as it is.
func (p *wiping) reinstallRefused(ctx context.Context, err error) (ctrl.Result, bool, error) {
	p.observed.WipeRejected = cloud.IsInvalid(err) || cloud.IsForbidden(err) || cloud.IsFloor(err)
	if p.observed.WipeRejected && p.host.Spec.Release.Policy == infrav1.Terminate && !p.host.Status.Server.DeletionScheduled {
		p.observed.Refusal = cloud.Said(err)
		return p.returnToVendor(ctx)
	}
	result, err := p.Refused(ctx, err)
	return result, true, err
}

// image is the wanted OS family's newest, while the vendor publishes one.
func (p *wiping) image(ctx context.Context, server cloud.Server) (string, error) {
	if p.os == nil {
		image, err := p.findImage(ctx, server)
		if err != nil {
			return "", err
		}
		p.os = &image
	}
	return *p.os, nil
}

func (p *wiping) findImage(ctx context.Context, server cloud.Server) (string, error) {
	family := p.host.Spec.Release.OSFamily
	if family == "" {
		return "", nil
	}
	os, err := p.Cloud.FindOS(ctx, p.host.Spec.Zone, family, server.Type)
	if cloud.IsNotFound(err) {
		ctrl.LoggerFrom(ctx).Info("No image of the wanted OS is published; taking the type's default", "os", family)
		return "", nil
	}
	return os.ID, err
}

// mayWipe proves, uncached and right before the act, that the release still
// allows this very wipe.
func (p *wiping) mayWipe(ctx context.Context) (bool, error) {
	now, err := p.Confirm(ctx)
	if err != nil || now == nil {
		return false, err
	}
	wipe := now.Spec.Record.Wipe
	return wipe.RequestedAt != nil && wipe.StartedAt == nil, nil
}

func (p *wiping) recordObserved(ctx context.Context) error {
	if err := p.Update(ctx, func(h *host.Host) { host.RecordWiped(h, p.now()) }); err != nil {
		return err
	}
	wipe := p.host.Spec.Record.Wipe
	p.metrics.wipes.Observe(wipe.ObservedAt.Sub(wipe.RequestedAt.Time).Seconds())
	p.event(corev1.EventTypeNormal, host.ReasonObserved, "the server was reinstalled and is ready again")
	ctrl.LoggerFrom(ctx).Info("Wipe observed", "generation", wipe.Generation, "took", wipe.ObservedAt.Sub(wipe.RequestedAt.Time).String())
	return nil
}

// nameIntoPool asks for the pool name. A refusal is repeated until it reads back.
func (p *wiping) nameIntoPool(ctx context.Context) (ctrl.Result, bool, error) {
	if now, err := p.Confirm(ctx); err != nil || now == nil {
		return ctrl.Result{}, true, err
	}
	named, again, err := p.rename(ctx, host.FinalName(p.host))
	return again, !named, err
}

// free ends the release: the host is nobody's, or its owner's again.
func (p *wiping) free(ctx context.Context) error {
	was, kept := p.host.Spec.ClaimRef.Name, p.host.Spec.Release.Policy == infrav1.Reinstall
	if err := p.removeFinalizer(ctx, func(h *host.Host) { host.Finish(h, p.now()) }); err != nil {
		return err
	}
	if kept {
		p.event(corev1.EventTypeNormal, "Reinstalled", "wiped, and still of "+was)
		ctrl.LoggerFrom(ctx).Info("Host is wiped and its owner's again", "owner", was, "server", p.host.Status.Server.Name)
		return nil
	}
	p.event(corev1.EventTypeNormal, infrav1.ReleasedCondition, "wiped and no longer of "+was)
	ctrl.LoggerFrom(ctx).Info("Host is free", "was", was, "server", p.host.Status.Server.Name)
	if p.deleted {
		return nil
	}
	return p.idle.rest(ctx)
}

// endClaim ends a claim that no Machine made, as of a give-back or an adoption, without a wipe.
func (p *wiping) endClaim(ctx context.Context) error {
	p.changedByOther(ctx)
	if err := p.removeFinalizer(ctx, host.Free); err != nil || p.deleted {
		return err
	}
	return p.idle.rest(ctx)
}

// untilNext is when to look again: the inventory wakes us when the server shows
// something else, and a server that is ready already must only settle.
func (p *wiping) untilNext(server cloud.Server) time.Duration {
	wipe := p.host.Spec.Record.Wipe
	if wipe.StartedAt != nil && wipe.ObservedAt == nil && server.Status == cloud.StatusReady && server.Delivered {
		now := p.now()
		return max(p.since(now).Started.Add(p.Settle).Sub(now), p.Settle/10)
	}
	return p.untilTimeout()
}
