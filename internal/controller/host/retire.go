package host

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/requeue"
)

// returnDeadline bounds a deletion and the record of it.
const returnDeadline = 15 * time.Second

// returnToVendor deletes the server, or has the vendor delete it at its billing floor.
// The release stays until lists prove that the server is gone.
func (p *wiping) returnToVendor(ctx context.Context) (ctrl.Result, bool, error) {
	if p.deletions.lately(p.host, p.now()) {
		return ctrl.Result{RequeueAfter: p.poll()}, true, nil
	}
	if now, err := p.Confirm(ctx); err != nil || now == nil {
		return ctrl.Result{}, true, err
	}
	if p.tooOld() {
		return ctrl.Result{RequeueAfter: requeue.Delay}, true, nil
	}
	if reasonOf(p.stored, host.RetiredCondition) == infrav1.ReasonDeletionScheduled {
		p.event(corev1.EventTypeWarning, infrav1.ReasonDeletionScheduled, "the deletion was cancelled at the vendor; it is asked for again, since the release still stands")
	}
	// A manager that is told to stop still hears the answer and records it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnDeadline)
	defer cancel()
	scheduled, err := p.Cloud.DeleteServer(ctx, p.host.Spec.Zone, p.host.Spec.ServerID)
	if err != nil {
		result, err := p.Refused(ctx, err)
		return result, true, err
	}
	p.deletions.note(p.host, p.now())
	ctrl.LoggerFrom(ctx).Info("Gave the server back to the vendor", "was", p.host.Spec.ClaimRef.Name, "scheduled", scheduled)
	if !scheduled {
		if err := p.recordReturn(ctx); err != nil {
			return ctrl.Result{}, true, err
		}
		p.event(corev1.EventTypeNormal, "Deleted", "the server was given back to the vendor")
		p.inventory.ListNow()
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, true, nil
	}
	if _, _, err := p.read(ctx); err != nil && !cloud.IsForbidden(err) {
		result, err := p.Refused(ctx, err)
		return result, true, err
	}
	return ctrl.Result{RequeueAfter: p.InventoryInterval}, true, nil
}

// recordReturn notes that the vendor deleted the server, also where somebody changed the host
// meanwhile: from now on no reading tells it from one that we lost the rights to.
func (p *wiping) recordReturn(ctx context.Context) error {
	return requeue.Retry(func() error { return p.recordReturnOnce(ctx) })
}

func (p *wiping) recordReturnOnce(ctx context.Context) error {
	now, err := p.Confirm(ctx)
	if err != nil || now == nil {
		return err
	}
	now.Status = p.host.Status
	p.host = now
	return p.Update(ctx, func(h *host.Host) { host.RecordReturn(h, p.now()) })
}

// removeGone removes the object of a server that is proved gone. A claimed one stays
// and shows Gone until its Machine goes.
func (p *wiping) removeGone(ctx context.Context) error {
	claimed := p.host.Spec.ClaimRef != nil && p.host.Spec.Release == nil
	if claimed && !p.observed.OwnerGone {
		return nil
	}
	if controllerutil.ContainsFinalizer(p.host, infrav1.HostFinalizer) || p.host.Spec.Release != nil {
		if err := p.removeFinalizer(ctx, host.Free); err != nil {
			return err
		}
	}
	if err := p.delete(ctx); err != nil {
		return err
	}
	p.reinstalls.Forget(p.host.UID)
	p.deletions.Forget(p.host.UID)
	p.inventory.readings.forget(p.host.Spec.Zone, p.host.Spec.ServerID)
	return nil
}
