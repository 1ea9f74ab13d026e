package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=list

// reboot does what a request for a reboot needs next, after what the host needed
// anyway. The request stays until the vendor took it: an error consumes nothing.
func (p *pass) reboot(ctx context.Context, after ctrl.Result) (ctrl.Result, error) {
	step, why := host.NextReboot(p.host, p.seen.Gone)
	switch step {
	case host.RebootClear:
		return after, p.clearReboot(ctx)
	case host.RebootDrop:
		return after, p.dropReboot(ctx, why)
	case host.RebootWait:
		return sooner(after, p.rebootWaits(why)), nil
	case host.RebootAsk:
		result, err := p.askReboot(ctx)
		return sooner(after, result), err
	default:
		return after, nil
	}
}

// askReboot asks the vendor, once it is asked what it thinks, nobody is disturbed
// who must not be, and a fresh reading of server and host agrees.
func (p *pass) askReboot(ctx context.Context) (ctrl.Result, error) {
	if result, goOn, err := p.mayDisturb(ctx); err != nil || !goOn {
		return result, err
	}
	if held, err := p.rebootHeld(ctx); err != nil || held != "" {
		return p.rebootWaits(held), err
	}
	// There is nothing to find out about a server whose Node asks for the reboot.
	if !host.ForLeak(p.host) && !p.diagnosed(ctx) {
		return ctrl.Result{RequeueAfter: diagnosePoll}, nil
	}
	_, _, err := p.read(ctx)
	if cloud.IsNotFound(err) {
		return ctrl.Result{}, p.rebootTaken(ctx, err)
	}
	if err != nil {
		return p.rebootRefused(ctx, err)
	}
	if step, why := host.NextReboot(p.host, p.seen.Gone); step != host.RebootAsk {
		return p.rebootWaits(why), nil
	}
	if held, err := p.rebootHeld(ctx); err != nil || held != "" {
		return p.rebootWaits(held), err
	}
	if host.ForLeak(p.host) { // guests come and go while the vendor is asked
		if result, goOn, err := p.mayDisturb(ctx); err != nil || !goOn {
			return result, err
		}
	}
	// Last of all: whose the host is can change at any moment.
	if still, err := p.stillAsked(ctx); err != nil || !still {
		return ctrl.Result{RequeueAfter: conflictDelay}, err
	}
	err = p.Cloud.RebootServer(ctx, p.host.Spec.Zone, p.host.Spec.ServerID)
	if !host.RebootTaken(err) {
		return p.rebootRefused(ctx, err)
	}
	return ctrl.Result{}, p.rebootTaken(ctx, err)
}

// mayDisturb says whether the power may be cut, as far as those on the host go; what
// is to be done instead was done.
func (p *pass) mayDisturb(ctx context.Context) (ctrl.Result, bool, error) {
	if host.ForLeak(p.host) {
		return p.leakStands(ctx)
	}
	if p.host.Spec.Reboot.Force {
		return ctrl.Result{}, true, nil
	}
	busy, err := p.busy(ctx)
	if err != nil || busy != "" {
		return p.rebootWaits(busy), false, err
	}
	return ctrl.Result{}, true, nil
}

// leakStands looks, uncached, whether the leak that the reboot is for is still there
// and the Node is empty.
func (p *pass) leakStands(ctx context.Context) (ctrl.Result, bool, error) {
	leak := host.Leak{}
	node, err := p.nodeOf(ctx, p.host)
	if err != nil {
		return ctrl.Result{}, false, err
	}
	if node != nil {
		pods := &corev1.PodList{}
		if err := p.NodeReader.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
			return ctrl.Result{}, false, fmt.Errorf("listing the Pods of a Node: %w", err)
		}
		leak = host.LeakOf(node, pods.Items)
	}
	switch step, why := host.RebootForLeak(p.host, leak); step {
	case host.RebootDrop:
		return ctrl.Result{}, false, p.dropReboot(ctx, why)
	case host.RebootAsk:
		return ctrl.Result{}, true, nil
	default:
		return p.rebootWaits(why), false, nil
	}
}

func (p *pass) rebootWaits(why string) ctrl.Result {
	p.condition(host.RebootedCondition, metav1.ConditionFalse, host.ReasonRebootWaiting, why)
	return ctrl.Result{RequeueAfter: p.poll()}
}

func (p *pass) rebootRefused(ctx context.Context, err error) (ctrl.Result, error) {
	p.condition(host.RebootedCondition, metav1.ConditionFalse, host.ReasonRebootWaiting, host.Refused(refusal(err)))
	return p.vendor(ctx, err)
}

// stillAsked reads the host uncached, right before the power cut: the request
// still stands, and nothing has changed hands since it was looked at.
func (p *pass) stillAsked(ctx context.Context) (bool, error) {
	now := &host.Host{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.host), now); err != nil {
		return false, fmt.Errorf("reading the request for a reboot again: %w", err)
	}
	now.Status = p.host.Status
	step, _ := host.NextReboot(now, p.seen.Gone)
	return now.UID == p.host.UID && step == host.RebootAsk && now.Spec.Reboot.ID == p.host.Spec.Reboot.ID && tokenOf(now) == tokenOf(p.host), nil
}

// rebootHeld says, from an uncached read, why the Cluster of the claim keeps its Mac
// from a reboot. A person's forced request is none of the Cluster's business.
func (p *pass) rebootHeld(ctx context.Context) (string, error) {
	claim := p.host.Spec.ClaimRef
	if claim == nil || claim.Cluster == "" || host.ForcedByHand(p.host) {
		return "", nil
	}
	still, err := p.clusterStill(ctx)
	if err != nil || still {
		return "", err
	}
	return "Cluster " + claim.Namespace + "/" + claim.Cluster + " is paused, or not here; its Mac may be on its way elsewhere", nil
}

func tokenOf(h *host.Host) string {
	if h.Spec.ClaimRef == nil {
		return ""
	}
	return h.Spec.ClaimRef.Token
}

// rebootTaken says on the status that the request was met, before it is taken
// off: a crash between the two must not cut the power again.
func (p *pass) rebootTaken(ctx context.Context, answer error) error {
	request := p.host.Spec.Reboot
	at := metav1.NewMicroTime(p.Clock.Now().Truncate(time.Microsecond))
	p.host.Status.LastReboot = infrav1.RebootStatus{ID: request.ID, At: at}
	p.condition(host.RebootedCondition, metav1.ConditionTrue, host.ReasonRebootTaken, request.Reason)
	p.diagnoses.forget(p.host)
	p.metrics.reboot()
	p.event(corev1.EventTypeNormal, host.RebootedCondition, "the vendor restarts the server: "+request.Reason)
	ctrl.LoggerFrom(ctx).Info("Rebooted", "id", request.ID, "why", request.Reason, "answer", fmt.Sprint(answer))
	return errors.Join(p.record(ctx), p.clearReboot(ctx))
}

func (p *pass) clearReboot(ctx context.Context) error {
	id := p.host.Status.LastReboot.ID
	return p.update(ctx, func(h *host.Host) { host.ClearReboot(h, id) })
}

// dropReboot takes a request off that makes no sense any more.
func (p *pass) dropReboot(ctx context.Context, why string) error {
	id := p.host.Spec.Reboot.ID
	if err := p.update(ctx, func(h *host.Host) { h.Spec.Reboot = nil }); err != nil {
		return err
	}
	p.diagnoses.forget(p.host)
	p.condition(host.RebootedCondition, metav1.ConditionFalse, host.ReasonRebootDropped, why)
	p.event(corev1.EventTypeWarning, "RebootDropped", why)
	ctrl.LoggerFrom(ctx).Info("Dropped a request for a reboot", "id", id, "why", why)
	return nil
}

// busy says whom a reboot would disturb: the Pods on the host's Ready Node that
// were not put on every Node anyway. Empty: nobody.
func (p *pass) busy(ctx context.Context) (string, error) {
	node, err := p.nodeOf(ctx, p.host)
	if err != nil || node == nil || !workload.NodeReady(node) {
		return "", err
	}
	pods := &corev1.PodList{}
	if err := p.NodeReader.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return "", fmt.Errorf("listing the Pods of a Node: %w", err)
	}
	running := 0
	for i := range pods.Items {
		if disturbed(&pods.Items[i]) {
			running++
		}
	}
	if running == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d Pods run on Node %s; the request does not force it", running, node.Name), nil
}

// disturbed: a Pod that has not ended, is no mirror, and is of no DaemonSet.
func disturbed(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}

// sooner is the result that comes first; an empty one asks for nothing.
func sooner(a, b ctrl.Result) ctrl.Result {
	switch {
	case a.RequeueAfter <= 0:
		return b
	case b.RequeueAfter <= 0 || a.RequeueAfter < b.RequeueAfter:
		return a
	}
	return b
}
