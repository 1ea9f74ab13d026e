package host

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/requeue"
	"github.com/macfleet/macfleet/internal/workload"
)

// adoption does what a person wishes in spec.adopt of a host that nobody has: take its
// name away and wipe it into the pool, or, where the person answers for the disk, only
// name it so.
type adoption struct {
	*vendor
}

// reconcile says with acting that the Reconcile ends here.
func (p *adoption) reconcile(ctx context.Context) (result ctrl.Result, acting bool, err error) {
	if p.host.Spec.Adopt == nil {
		meta.RemoveStatusCondition(&p.host.Status.Conditions, host.AdoptedCondition)
		return ctrl.Result{}, false, nil
	}
	step, reason, message, err := p.next(ctx)
	if err != nil {
		return ctrl.Result{}, true, err
	}
	switch step {
	case host.AdoptWait:
		p.waits(ctx, reason, message)
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, false, nil
	case host.AdoptDrop:
		return ctrl.Result{}, false, p.drop(ctx, message)
	case host.AdoptWipe:
		return ctrl.Result{RequeueAfter: requeue.Delay}, true, p.wipe(ctx)
	case host.AdoptNote, host.AdoptRename:
		result, err = p.name(ctx)
		return result, true, err
	case host.AdoptTrust:
		return ctrl.Result{}, false, p.trustDisk(ctx)
	default:
		return ctrl.Result{}, false, nil
	}
}

// next decides from an uncached list of the Machines of all namespaces, and of the Nodes
// where the server bears the name of one of these.
func (p *adoption) next(ctx context.Context) (step host.AdoptStep, reason, message string, err error) {
	machines, err := allMachines(ctx, p.Reader)
	if err != nil {
		return "", "", "", err
	}
	nodeReady := false
	if host.OwnersOf(machines).Have(p.host) {
		node, err := nodeOf(ctx, p.NodeReader, p.host)
		if err != nil {
			return "", "", "", err
		}
		nodeReady = node != nil && workload.NodeReady(node)
	}
	step, reason, message = host.NextAdoption(p.host, machines, nodeReady)
	return step, reason, message, nil
}

func (p *adoption) waits(ctx context.Context, reason, message string) {
	if p.reasonOf(host.AdoptedCondition) != reason {
		p.event(corev1.EventTypeWarning, "AdoptionWaits", message)
		ctrl.LoggerFrom(ctx).Info("An adoption waits", "reason", reason)
	}
	p.condition(host.AdoptedCondition, metav1.ConditionFalse, reason, message)
}

// drop takes the wish off: it is fulfilled, or of another life of the host.
// It must not lie in wait for the time after the present owner.
func (p *adoption) drop(ctx context.Context, why string) error {
	if err := p.Update(ctx, func(h *host.Host) { h.Spec.Adopt = nil }); err != nil {
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

// dropLate takes a wish off a host that has an owner: it was for the time
// before that claim, and must not wait for its end.
func (p *adoption) dropLate(ctx context.Context) error {
	if p.host.Spec.Adopt == nil || p.host.Spec.ClaimRef == nil {
		return nil
	}
	return p.drop(ctx, "the host has an owner; it is not adopted, also not later")
}

func (p *adoption) wipe(ctx context.Context) error {
	token := uuid.NewString()
	err := p.Update(ctx, func(h *host.Host) {
		controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		host.Adopt(h, token, p.now())
	})
	if err != nil {
		return err
	}
	meta.RemoveStatusCondition(&p.host.Status.Conditions, host.AdoptedCondition)
	p.event(corev1.EventTypeNormal, host.AdoptedCondition, "adopted; the server is wiped and joins the pool")
	ctrl.LoggerFrom(ctx).Info("Host is adopted", "server", p.host.Status.Server.Name, "pool", p.host.Spec.Release.PoolPrefix)
	return nil
}

// name gives the server the name of its adoption, once its name before that is on record.
// Until the wish is fulfilled, it keeps the host from being claimed here.
func (p *adoption) name(ctx context.Context) (ctrl.Result, error) {
	if _, _, err := p.read(ctx); err != nil {
		return p.Refused(ctx, err)
	}
	step, _, _, err := p.next(ctx)
	if err == nil && step == host.AdoptNote {
		before := p.host.Status.Server.Name
		return ctrl.Result{RequeueAfter: requeue.Delay}, p.Update(ctx, func(h *host.Host) { h.Spec.Adopt.ServerName = before })
	}
	if err != nil || step != host.AdoptRename {
		return ctrl.Result{RequeueAfter: requeue.Delay}, err
	}
	if still, err := p.confirmAdoption(ctx); err != nil || !still || p.tooOld() {
		return ctrl.Result{RequeueAfter: requeue.Delay}, err
	}
	if err := p.askName(ctx, host.AdoptionName(p.host)); err != nil {
		p.condition(host.AdoptedCondition, metav1.ConditionFalse, infrav1.ReasonRenaming, host.Refused(cloud.Said(err)))
		return p.Refused(ctx, err)
	}
	if _, _, err := p.read(ctx); err != nil {
		return p.Refused(ctx, err)
	}
	return ctrl.Result{RequeueAfter: requeue.Delay}, nil
}

func (p *adoption) trustDisk(ctx context.Context) error {
	if err := p.Update(ctx, func(h *host.Host) { host.Trust(h, p.now()) }); err != nil {
		return err
	}
	meta.RemoveStatusCondition(&p.host.Status.Conditions, host.AdoptedCondition)
	p.event(corev1.EventTypeWarning, host.ReasonTrusted, "adopted without a wipe: a person answers for the disk")
	ctrl.LoggerFrom(ctx).Info("Host is adopted without a wipe, at a person's word", "server", p.host.Status.Server.Name)
	return nil
}

// confirmAdoption reads the host uncached, right before it is renamed: nobody has it still,
// and the person's wish is the same.
func (p *adoption) confirmAdoption(ctx context.Context) (bool, error) {
	now := &host.Host{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.host), now); err != nil {
		return false, fmt.Errorf("reading the host again: %w", err)
	}
	return now.UID == p.host.UID && now.Spec.ClaimRef == nil && now.Spec.Release == nil && now.Spec.Maintenance == nil &&
		equality.Semantic.DeepEqual(now.Spec.Adopt, p.host.Spec.Adopt), nil
}
