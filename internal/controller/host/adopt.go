package host

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// adopt does what a person wishes for a host that nobody has: wipe it into the
// pool, or, where the person answers for the disk, only name it so. Acting says
// that the pass ends here.
func (p *pass) adopt(ctx context.Context) (result ctrl.Result, acting bool, err error) {
	if p.host.Spec.Adopt == nil {
		meta.RemoveStatusCondition(&p.host.Status.Conditions, host.AdoptedCondition)
		return ctrl.Result{}, false, nil
	}
	step, reason, message, err := p.nextAdoption(ctx)
	if err != nil {
		return ctrl.Result{}, true, err
	}
	switch step {
	case host.AdoptWait:
		p.adoptionWaits(ctx, reason, message)
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, false, nil
	case host.AdoptDrop:
		return ctrl.Result{}, false, p.dropAdoption(ctx, message)
	case host.AdoptWipe:
		return ctrl.Result{RequeueAfter: conflictDelay}, true, p.adoptAndWipe(ctx)
	case host.AdoptRename:
		result, err = p.adoptName(ctx)
		return result, true, err
	case host.AdoptTrust:
		return ctrl.Result{}, false, p.trustDisk(ctx)
	default:
		return ctrl.Result{}, false, nil
	}
}

// nextAdoption decides from an uncached list of the Machines of all namespaces.
func (p *pass) nextAdoption(ctx context.Context) (step host.AdoptStep, reason, message string, err error) {
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := p.Reader.List(ctx, machines); err != nil {
		return "", "", "", fmt.Errorf("listing Machines: %w", err)
	}
	step, reason, message = host.NextAdoption(p.host, machines.Items)
	return step, reason, message, nil
}

func (p *pass) adoptionWaits(ctx context.Context, reason, message string) {
	before := meta.FindStatusCondition(p.host.Status.Conditions, host.AdoptedCondition)
	if before == nil || before.Reason != reason {
		p.event(corev1.EventTypeWarning, "AdoptionWaits", message)
		ctrl.LoggerFrom(ctx).Info("An adoption waits", "reason", reason)
	}
	p.condition(host.AdoptedCondition, metav1.ConditionFalse, reason, message)
}

// dropAdoption takes the wish off: it is fulfilled, or of another life of the host.
// It must not lie in wait for the time after the present owner.
func (p *pass) dropAdoption(ctx context.Context, why string) error {
	if err := p.update(ctx, func(h *host.Host) { h.Spec.Adopt = nil }); err != nil {
		return err
	}
	meta.RemoveStatusCondition(&p.host.Status.Conditions, host.AdoptedCondition)
	if why == "" {
		p.event(corev1.EventTypeNormal, host.AdoptedCondition, "the host is in the pool")
		return nil
	}
	p.event(corev1.EventTypeWarning, "AdoptionDropped", why)
	return nil
}

// dropLateAdoption takes a wish off a host that has an owner: it was for the time
// before that claim, and must not wait for its end.
func (p *pass) dropLateAdoption(ctx context.Context) error {
	if p.host.Spec.Adopt == nil || p.host.Spec.ClaimRef == nil {
		return nil
	}
	return p.dropAdoption(ctx, "the host has an owner; it is not adopted, also not later")
}

func (p *pass) adoptAndWipe(ctx context.Context) error {
	token := uuid.NewString()
	err := p.update(ctx, func(h *host.Host) {
		controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		host.Adopt(h, token, p.Clock.Now())
	})
	if err != nil {
		return err
	}
	meta.RemoveStatusCondition(&p.host.Status.Conditions, host.AdoptedCondition)
	p.event(corev1.EventTypeNormal, host.AdoptedCondition, "adopted; the server is wiped and joins the pool")
	ctrl.LoggerFrom(ctx).Info("Host is adopted", "server", p.host.Status.Server.Name, "pool", p.host.Spec.Release.PoolPrefix)
	return nil
}

// adoptName gives the server its name in the pool. Until the disk is recorded as
// trusted the wish itself keeps the host from being claimed.
func (p *pass) adoptName(ctx context.Context) (ctrl.Result, error) {
	if _, _, err := p.read(ctx); err != nil {
		return p.vendor(ctx, err)
	}
	step, _, _, err := p.nextAdoption(ctx)
	if err != nil || step != host.AdoptRename {
		return ctrl.Result{RequeueAfter: conflictDelay}, err
	}
	if still, err := p.freshIdle(ctx); err != nil || !still || p.outdated() {
		return ctrl.Result{RequeueAfter: conflictDelay}, err
	}
	want := host.PoolName(p.host.Spec.Adopt.PoolPrefix, p.host.Spec.ServerID)
	if err := p.askName(ctx, want); err != nil {
		p.condition(host.AdoptedCondition, metav1.ConditionFalse, infrav1.ReasonRenaming, host.Refused(refusal(err)))
		return p.vendor(ctx, err)
	}
	if _, _, err := p.read(ctx); err != nil {
		return p.vendor(ctx, err)
	}
	return ctrl.Result{RequeueAfter: conflictDelay}, nil
}

func (p *pass) trustDisk(ctx context.Context) error {
	if err := p.update(ctx, func(h *host.Host) { host.Trust(h, p.Clock.Now()) }); err != nil {
		return err
	}
	meta.RemoveStatusCondition(&p.host.Status.Conditions, host.AdoptedCondition)
	p.event(corev1.EventTypeWarning, host.ReasonTrusted, "adopted without a wipe: a person answers for the disk")
	ctrl.LoggerFrom(ctx).Info("Host is adopted without a wipe, at a person's word", "server", p.host.Status.Server.Name)
	return nil
}
