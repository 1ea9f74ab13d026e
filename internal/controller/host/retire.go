package host

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// giveBack deletes the server, or has the vendor delete it at its billing floor.
// The release stays until lists prove that the server is gone.
func (p *pass) giveBack(ctx context.Context) (ctrl.Result, bool, error) {
	if p.returned.lately(p.host, p.Clock.Now()) {
		return ctrl.Result{RequeueAfter: p.poll()}, true, nil
	}
	now, err := p.fresh(ctx)
	if err != nil || now == nil || now.Spec.Release.Policy != infrav1.Terminate {
		return ctrl.Result{}, true, err
	}
	if c := meta.FindStatusCondition(p.stored.Conditions, host.RetiredCondition); c != nil && c.Reason == infrav1.ReasonDeletionScheduled {
		p.event(corev1.EventTypeWarning, infrav1.ReasonDeletionScheduled, "the deletion was cancelled at the vendor; it is asked for again, since the release still stands")
	}
	scheduled, err := p.Cloud.DeleteServer(ctx, p.host.Spec.Zone, p.host.Spec.ServerID)
	if err != nil {
		result, err := p.vendor(ctx, err)
		return result, true, err
	}
	p.returned.note(p.host, p.Clock.Now())
	ctrl.LoggerFrom(ctx).Info("Gave the server back to the vendor", "was", p.host.Spec.ClaimRef.Name, "scheduled", scheduled)
	if !scheduled {
		p.event(corev1.EventTypeNormal, "Deleted", "the server was given back to the vendor")
		p.Inventory.hasten()
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, true, nil
	}
	if _, _, err := p.read(ctx); err != nil && !cloud.IsForbidden(err) {
		result, err := p.vendor(ctx, err)
		return result, true, err
	}
	return ctrl.Result{RequeueAfter: p.InventoryInterval}, true, nil
}

// retire removes the object of a server that is proved gone. A claimed one stays
// and shows Gone until its Machine goes.
func (p *pass) retire(ctx context.Context) error {
	claimed := p.host.Spec.ClaimRef != nil && p.host.Spec.Release == nil
	if claimed && !p.seen.OwnerGone {
		return nil
	}
	if controllerutil.ContainsFinalizer(p.host, infrav1.HostFinalizer) || p.host.Spec.Release != nil {
		if err := p.letGo(ctx, host.Free); err != nil {
			return err
		}
	}
	if err := p.remove(ctx); err != nil {
		return err
	}
	p.asked.forget(p.host)
	p.returned.forget(p.host)
	p.known.forget(p.host)
	p.Inventory.readings.forget(p.host.Spec.Zone, p.host.Spec.ServerID)
	return nil
}

// remove deletes the object, as the version that was read, unless dropping its
// finalizer did that already.
func (p *pass) remove(ctx context.Context) error {
	if !p.ended {
		uid, version := p.host.UID, p.host.ResourceVersion
		err := p.Client.Delete(ctx, p.host, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing host %s: %w", p.host.Name, err)
		}
	}
	p.ended = true
	return nil
}
