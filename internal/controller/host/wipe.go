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

// mostSteps of a wipe within one pass. A whole wipe has six, most of them with a
// wait between.
const mostSteps = 8

// wipe ends a release: the request is recorded, then made, then the name is given
// back, then the end is observed, and only then is the host free. A host that
// goes back to the vendor is deleted once its wipe has begun.
func (p *pass) wipe(ctx context.Context) (ctrl.Result, error) {
	if !host.ChangedByOther(p.host) {
		if err := p.forgetClaim(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	if p.stillWiping() {
		return ctrl.Result{RequeueAfter: p.untilTimeout()}, nil
	}
	for range mostSteps {
		result, done, err := p.wipeStep(ctx)
		if done || err != nil {
			return result, err
		}
	}
	return ctrl.Result{RequeueAfter: p.poll()}, nil
}

// forgetClaim takes what was shown of the claim off the status, for good: before
// the host can be claimed again, nothing may be left for the next owner to see.
func (p *pass) forgetClaim(ctx context.Context) error {
	conditions := p.host.Status.Conditions
	if p.host.Status.ShownSince == nil && meta.FindStatusCondition(conditions, infrav1.NameInSyncCondition) == nil &&
		meta.FindStatusCondition(conditions, host.CredentialsStagedCondition) == nil {
		return nil
	}
	p.unshow()
	return p.record(ctx)
}

// stillWiping: the inventory's own list answers what a reading would, so that
// neither a wipe of a quarter of an hour nor a month at a billing floor costs
// calls of its own.
func (p *pass) stillWiping() bool {
	h := p.host
	seen, known := p.Inventory.readings.look(h.Spec.Zone, h.Spec.ServerID)
	if !known || !seen.missingSince.IsZero() || !host.Licensed(h) {
		return false
	}
	look := p.look(seen.server)
	look.Began = seen.at
	if host.WipeRests(h, look, p.Clock.Now()) {
		return true
	}
	wipe, timedOut := h.Spec.Record.Wipe, host.TimedOut(h, p.Clock.Now(), p.ReinstallTimeout)
	under := wipe.StartedAt != nil && wipe.ObservedAt == nil
	if h.Spec.Release.Policy == infrav1.Terminate {
		toObserve := under && seen.server.Status == cloud.StatusReady
		return seen.server.DeletionScheduled && (wipe.StartedAt != nil || timedOut) && !toObserve
	}
	return under && seen.at.After(look.Known.Started) && seen.server.Status == cloud.StatusReinstalling &&
		seen.server.Name == host.FinalName(h) && (!timedOut || host.GivenUp(h, p.Clock.Now()))
}

// untilTimeout is when to look again at a wipe under way.
func (p *pass) untilTimeout() time.Duration {
	requested := p.host.Spec.Record.Wipe.RequestedAt
	if requested == nil || p.Clock.Since(requested.Time) >= p.ReinstallTimeout {
		return p.InventoryInterval
	}
	return min(requested.Add(p.ReinstallTimeout).Sub(p.Clock.Now()), p.InventoryInterval)
}

// look is the newest reading, with what a released host is judged by.
func (p *pass) look(server cloud.Server) host.WipeLook {
	return host.WipeLook{
		Server: server, Began: p.began, Settle: p.Settle, Timeout: p.ReinstallTimeout, Pools: []string{p.DefaultPoolPrefix},
		Known: p.known.note(p.host, p.Clock.Now()),
	}
}

// wipeStep reads the server and does the one next thing; done ends the pass.
func (p *pass) wipeStep(ctx context.Context) (result ctrl.Result, done bool, err error) {
	server, _, err := p.read(ctx)
	if cloud.IsForbidden(err) && p.returned.lately(p.host, p.Clock.Now()) {
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, true, nil // deleted, as asked; the lists prove it
	}
	if err != nil {
		result, err = p.vendor(ctx, err)
		return result, true, err
	}
	step := host.NextWipe(p.host, p.look(server))
	if step != host.WipeHeld && step != host.WipeUnlicensed && host.ChangedByOther(p.host) {
		return ctrl.Result{}, false, p.forgetClaim(ctx) // it was named back; decide anew
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
		return p.giveBackName(ctx)
	case host.WipeRepeat, host.WipeGiveUp:
		return ctrl.Result{}, false, p.recordTimeout(ctx, step)
	case host.WipeDelete:
		return p.giveBack(ctx)
	case host.WipeFree:
		return ctrl.Result{}, true, p.free(ctx)
	case host.WipeWait:
		return ctrl.Result{RequeueAfter: p.untilNext(server)}, true, nil
	case host.WipeHeld:
		p.changedByOther(ctx)
		return ctrl.Result{}, true, nil
	default:
		ctrl.LoggerFrom(ctx).Info("The recorded release is not of this claim; nothing is done")
		return ctrl.Result{}, true, nil
	}
}

func (p *pass) recordRequest(ctx context.Context) error {
	err := p.update(ctx, func(h *host.Host) {
		controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		host.RecordWipe(h, p.Clock.Now())
	})
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Wipe requested", "generation", p.host.Spec.Record.Wipe.Generation, "was", p.host.Spec.ClaimRef.Name)
	}
	return err
}

func (p *pass) recordStart(ctx context.Context) error {
	p.asked.forget(p.host)
	return p.update(ctx, func(h *host.Host) { host.RecordWipeStart(h, p.Clock.Now()) })
}

// recordTimeout notes that a wipe did not end in time: once it is asked for again,
// and then the host is left to a person, and looked at all the same.
func (p *pass) recordTimeout(ctx context.Context, step host.WipeStep) error {
	change, note := func(h *host.Host) { host.RecordRepeat(h, p.Clock.Now()) }, "the reinstall did not end in time; it is asked for again"
	if step == host.WipeGiveUp {
		change, note = func(h *host.Host) { host.RecordGivenUp(h, p.Clock.Now()) }, "the reinstall did not end in time again; the host is quarantined"
	}
	if err := p.update(ctx, change); err != nil {
		return err
	}
	p.event(corev1.EventTypeWarning, infrav1.ReasonWipeTimedOut, note)
	ctrl.LoggerFrom(ctx).Info("Wipe timed out", "generation", p.host.Spec.Record.Wipe.Generation, "quarantined", step == host.WipeGiveUp)
	return nil
}

// reinstall asks for the wipe. An act in progress is fine when it is a reinstall,
// which the next reading tells; any other is waited out. An acknowledgement is
// no proof that anything began: that too is for the next reading.
func (p *pass) reinstall(ctx context.Context, server cloud.Server) (ctrl.Result, bool, error) {
	if p.asked.lately(p.host, p.Clock.Now()) {
		return ctrl.Result{RequeueAfter: p.poll()}, true, nil
	}
	image, err := p.image(ctx, server)
	if err != nil {
		return ctrl.Result{}, true, err
	}
	if licensed, err := p.mayWipe(ctx); err != nil || !licensed {
		return ctrl.Result{}, true, err
	}
	image, err = p.askReinstall(ctx, image)
	if cloud.IsTransient(err) {
		if server, _, readErr := p.read(ctx); readErr == nil && server.Status == cloud.StatusReinstalling {
			return ctrl.Result{}, false, nil
		}
	}
	if err != nil {
		if server.Status != cloud.StatusReady && server.Status != cloud.StatusError {
			p.asked.note(p.host, p.Clock.Now()) // nobody knows how long this state lasts
		}
		return p.reinstallRefused(ctx, err)
	}
	if image == "" && p.host.Spec.Release.OSFamily != "" {
		p.event(corev1.EventTypeWarning, "OSUnpublished", "no image of "+p.host.Spec.Release.OSFamily+" is published; the type's default is installed")
	}
	p.asked.note(p.host, p.Clock.Now())
	return ctrl.Result{}, false, nil
}

// askReinstall falls back to the type's default when the image is refused.
func (p *pass) askReinstall(ctx context.Context, image string) (used string, err error) {
	err = p.Cloud.ReinstallServer(ctx, p.host.Spec.Zone, p.host.Spec.ServerID, image)
	if image == "" || (!cloud.IsInvalid(err) && !cloud.IsNotFound(err)) {
		return image, err
	}
	return "", p.Cloud.ReinstallServer(ctx, p.host.Spec.Zone, p.host.Spec.ServerID, "")
}

// reinstallRefused keeps asking, and says when the refusal will not pass by
// itself. The server was read a moment ago: a lack of permission does not mean
// that it is gone. A Mac that cannot be wiped is given back to the vendor as it is.
func (p *pass) reinstallRefused(ctx context.Context, err error) (ctrl.Result, bool, error) {
	p.seen.WipeRejected = cloud.IsInvalid(err) || cloud.IsForbidden(err) || cloud.IsFloor(err)
	if p.seen.WipeRejected && p.host.Spec.Release.Policy == infrav1.Terminate && !p.host.Status.Server.DeletionScheduled {
		return p.giveBack(ctx)
	}
	result, err := p.vendor(ctx, err)
	return result, true, err
}

// image is the wanted OS family's newest, while the vendor publishes one.
func (p *pass) image(ctx context.Context, server cloud.Server) (string, error) {
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
// licenses this very wipe.
func (p *pass) mayWipe(ctx context.Context) (bool, error) {
	now, err := p.fresh(ctx)
	if err != nil || now == nil {
		return false, err
	}
	wipe := now.Spec.Record.Wipe
	return wipe.RequestedAt != nil && wipe.StartedAt == nil, nil
}

func (p *pass) recordObserved(ctx context.Context) error {
	if err := p.update(ctx, func(h *host.Host) { host.RecordWiped(h, p.Clock.Now()) }); err != nil {
		return err
	}
	wipe := p.host.Spec.Record.Wipe
	p.metrics.wiped(wipe.ObservedAt.Sub(wipe.RequestedAt.Time))
	p.event(corev1.EventTypeNormal, host.ReasonObserved, "the server was reinstalled and is ready again")
	ctrl.LoggerFrom(ctx).Info("Wipe observed", "generation", wipe.Generation, "took", wipe.ObservedAt.Sub(wipe.RequestedAt.Time).String())
	return nil
}

// giveBackName asks for the pool name. A refusal is repeated until it reads back.
func (p *pass) giveBackName(ctx context.Context) (ctrl.Result, bool, error) {
	want := host.FinalName(p.host)
	if now, err := p.fresh(ctx); err != nil || now == nil {
		return ctrl.Result{}, true, err
	}
	if p.outdated() {
		return ctrl.Result{RequeueAfter: conflictDelay}, true, nil
	}
	if err := p.askName(ctx, want); err != nil {
		result, err := p.renameRefused(ctx, err)
		return result, true, err
	}
	server, _, err := p.read(ctx)
	if err != nil {
		result, err := p.vendor(ctx, err)
		return result, true, err
	}
	if server.Name != want {
		return ctrl.Result{RequeueAfter: p.poll()}, true, nil
	}
	return ctrl.Result{}, false, nil
}

// free ends the release: the host is nobody's, or its owner's again.
func (p *pass) free(ctx context.Context) error {
	was, kept := p.host.Spec.ClaimRef.Name, p.host.Spec.Release.Policy == infrav1.Reinstall
	if err := p.letGo(ctx, func(h *host.Host) { host.Finish(h, p.Clock.Now()) }); err != nil {
		return err
	}
	if kept {
		p.event(corev1.EventTypeNormal, "Reinstalled", "wiped, and still of "+was)
		ctrl.LoggerFrom(ctx).Info("Host is wiped and its owner's again", "owner", was, "server", p.host.Status.Server.Name)
		return nil
	}
	p.event(corev1.EventTypeNormal, infrav1.ReleasedCondition, "wiped and no longer of "+was)
	ctrl.LoggerFrom(ctx).Info("Host is free", "was", was, "server", p.host.Status.Server.Name)
	if p.ended {
		return nil
	}
	return p.rest(ctx)
}

// untilNext is when to look again: the inventory wakes us when the server shows
// something else, and a server that is ready already must only settle.
func (p *pass) untilNext(server cloud.Server) time.Duration {
	wipe := p.host.Spec.Record.Wipe
	if wipe.StartedAt != nil && wipe.ObservedAt == nil && server.Status == cloud.StatusReady && server.Delivered {
		now := p.Clock.Now()
		return max(p.known.note(p.host, now).Started.Add(p.Settle).Sub(now), p.Settle/10)
	}
	return p.untilTimeout()
}
