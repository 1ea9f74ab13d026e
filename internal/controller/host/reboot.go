package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/requeue"
	"github.com/macfleet/macfleet/internal/workload"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=list

// rebooting does what a request for a reboot needs next, after what the host needed
// anyway. The request stays until the vendor took it: an error consumes nothing.
type rebooting struct {
	*vendor
	diagnosing diagnosing
	metrics    *metrics
}

func (p *rebooting) reconcile(ctx context.Context, after ctrl.Result) (ctrl.Result, error) {
	step, why := host.NextReboot(p.host, p.observed.Gone)
	switch step {
	case host.RebootNone:
		p.takenBack()
		return after, nil
	case host.RebootClear:
		return after, p.clear(ctx)
	case host.RebootDrop:
		return after, p.drop(ctx, why)
	case host.RebootWait:
		return sooner(after, p.waits(why)), nil
	case host.RebootAsk:
		result, err := p.ask(ctx)
		return sooner(after, result), err
	default:
		return after, nil
	}
}

// ask asks the vendor, once it is asked what it thinks, nobody is disturbed
// who must not be, and a fresh reading of server and host agrees.
func (p *rebooting) ask(ctx context.Context) (ctrl.Result, error) {
	if result, goOn, err := p.mayDisrupt(ctx); err != nil || !goOn {
		return result, err
	}
	if why, err := p.clusterBlocks(ctx); err != nil || why != "" {
		return p.waits(why), err
	}
	// There is nothing to find out about a server whose Node asks for the reboot.
	if !host.ForLeak(p.host) && !p.diagnosing.done(ctx) {
		return ctrl.Result{RequeueAfter: diagnosePoll}, nil
	}
	_, _, err := p.read(ctx)
	if cloud.IsNotFound(err) {
		return ctrl.Result{}, p.taken(ctx, err)
	}
	if err != nil {
		p.waits(host.Refused(cloud.Said(err)))
		return p.Refused(ctx, err)
	}
	if step, why := host.NextReboot(p.host, p.observed.Gone); step != host.RebootAsk {
		return p.waits(why), nil
	}
	if why, err := p.clusterBlocks(ctx); err != nil || why != "" {
		return p.waits(why), err
	}
	// Guests come and go while the vendor is asked, and a Node may be back.
	if result, goOn, err := p.mayDisrupt(ctx); err != nil || !goOn {
		return result, err
	}
	// Last of all: whose the host is can change at any moment.
	if still, err := p.stillAsked(ctx); err != nil || !still {
		return ctrl.Result{RequeueAfter: requeue.Delay}, err
	}
	err = p.Cloud.RebootServer(ctx, p.host.Spec.Zone, p.host.Spec.ServerID)
	if !host.RebootTaken(err) {
		p.waits(host.Refused(cloud.Said(err)))
		return p.Refused(ctx, err)
	}
	return ctrl.Result{}, p.taken(ctx, err)
}

// mayDisrupt says whether the power may be cut, as far as those on the host go; what
// is to be done instead was done.
func (p *rebooting) mayDisrupt(ctx context.Context) (ctrl.Result, bool, error) {
	if host.ForLeak(p.host) {
		return p.leakStands(ctx)
	}
	if p.host.Spec.Reboot.Force {
		return ctrl.Result{}, true, nil
	}
	busy, err := p.busy(ctx)
	if err != nil || busy != "" {
		return p.waits(busy), false, err
	}
	return ctrl.Result{}, true, nil
}

// leakStands looks, uncached, whether the leak that the reboot is for is still there
// and the Node is empty.
func (p *rebooting) leakStands(ctx context.Context) (ctrl.Result, bool, error) {
	leak := host.Leak{}
	node, err := nodeOf(ctx, p.NodeReader, p.host)
	if err == nil && node != nil {
		var pods []corev1.Pod
		pods, err = p.podsOn(ctx, node)
		leak = host.LeakOf(node, pods)
	}
	if err != nil {
		return ctrl.Result{}, false, err
	}
	switch step, why := host.RebootForLeak(p.host, leak); step {
	case host.RebootDrop:
		return ctrl.Result{}, false, p.drop(ctx, why)
	case host.RebootAsk:
		return ctrl.Result{}, true, nil
	default:
		return p.waits(why), false, nil
	}
}

// takenBack ends what is said of a reboot that waited, and that nobody asks for any more.
func (p *rebooting) takenBack() {
	if p.reasonOf(host.RebootedCondition) == host.ReasonRebootWaiting {
		meta.RemoveStatusCondition(&p.host.Status.Conditions, host.RebootedCondition)
	}
}

func (p *rebooting) waits(why string) ctrl.Result {
	p.condition(host.RebootedCondition, metav1.ConditionFalse, host.ReasonRebootWaiting, why)
	return ctrl.Result{RequeueAfter: p.poll()}
}

// stillAsked reads the host uncached, right before the power cut: the request
// still stands, and nothing has changed hands since it was looked at.
func (p *rebooting) stillAsked(ctx context.Context) (bool, error) {
	now := &host.Host{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.host), now); err != nil {
		return false, fmt.Errorf("reading the request for a reboot again: %w", err)
	}
	now.Status = p.host.Status
	step, _ := host.NextReboot(now, p.observed.Gone)
	none := infrav1.ClaimReference{}
	return now.UID == p.host.UID && step == host.RebootAsk && now.Spec.Reboot.ID == p.host.Spec.Reboot.ID &&
		ptr.Deref(now.Spec.ClaimRef, none).Token == ptr.Deref(p.host.Spec.ClaimRef, none).Token, nil
}

// clusterBlocks says, from an uncached read, why the Cluster of the claim keeps its Mac
// from a reboot. A person's forced request is none of the Cluster's business.
func (p *rebooting) clusterBlocks(ctx context.Context) (string, error) {
	claim := p.host.Spec.ClaimRef
	if claim == nil || claim.Cluster == "" || host.ForcedByHand(p.host) {
		return "", nil
	}
	still, err := p.clusterActive(ctx)
	if err != nil || still {
		return "", err
	}
	return "Cluster " + claim.Namespace + "/" + claim.Cluster + " is paused, or not here; its Mac may be on its way elsewhere", nil
}

// taken says on the status that the request was met, before it is taken
// off: a crash between the two must not cut the power again.
func (p *rebooting) taken(ctx context.Context, answer error) error {
	request := p.host.Spec.Reboot
	at := metav1.NewMicroTime(p.now().Truncate(time.Microsecond))
	p.host.Status.LastReboot = infrav1.RebootStatus{ID: request.ID, At: at}
	p.condition(host.RebootedCondition, metav1.ConditionTrue, host.ReasonRebootTaken, request.Reason)
	p.diagnosing.known.Forget(p.host.UID)
	p.metrics.reboots.Inc()
	p.event(corev1.EventTypeNormal, host.RebootedCondition, "the vendor restarts the server: "+request.Reason)
	ctrl.LoggerFrom(ctx).Info("Rebooted", "id", request.ID, "why", request.Reason, "answer", fmt.Sprint(answer))
	return errors.Join(p.patchStatus(ctx), p.clear(ctx))
}

func (p *rebooting) clear(ctx context.Context) error {
	id := p.host.Status.LastReboot.ID
	return p.Update(ctx, func(h *host.Host) { host.ClearReboot(h, id) })
}

// drop takes a request off that makes no sense any more.
func (p *rebooting) drop(ctx context.Context, why string) error {
	id := p.host.Spec.Reboot.ID
	if err := p.Update(ctx, func(h *host.Host) { h.Spec.Reboot = nil }); err != nil {
		return err
	}
	p.diagnosing.known.Forget(p.host.UID)
	p.condition(host.RebootedCondition, metav1.ConditionFalse, host.ReasonRebootDropped, why)
	p.event(corev1.EventTypeWarning, "RebootDropped", why)
	ctrl.LoggerFrom(ctx).Info("Dropped a request for a reboot", "id", id, "why", why)
	return nil
}

// busy says whom a reboot would disturb: the Pods on the host's Ready Node that
// were not put on every Node anyway. Empty: nobody.
func (p *rebooting) busy(ctx context.Context) (string, error) {
	node, err := nodeOf(ctx, p.NodeReader, p.host)
	if err != nil || node == nil || !workload.NodeReady(node) {
		return "", err
	}
	pods, err := p.podsOn(ctx, node)
	running := slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return workload.Stays(&pod) })
	if err != nil || len(running) == 0 {
		return "", err
	}
	return fmt.Sprintf("Pods on Node %s: %d; the request does not force it", node.Name, len(running)), nil
}

func (p *rebooting) podsOn(ctx context.Context, node *corev1.Node) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := p.NodeReader.List(ctx, pods, client.MatchingFields{workload.NodeNameField: node.Name}); err != nil {
		return nil, fmt.Errorf("listing the Pods of a Node: %w", err)
	}
	return pods.Items, nil
}

// sooner is the result that comes first; an empty one asks for nothing.
func sooner(a, b ctrl.Result) ctrl.Result {
	return ctrl.Result{RequeueAfter: earlier(a.RequeueAfter, b.RequeueAfter)}
}
