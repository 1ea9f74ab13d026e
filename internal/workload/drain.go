package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeNameField is the field Pods are selected by; the API server knows it.
const NodeNameField = "spec.nodeName"

// Drainer empties Nodes where Cluster API core will not.
type Drainer struct {
	// Client patches Nodes and evicts Pods.
	Client client.Client
	// Pods lists Pods by NodeNameField, uncached.
	Pods client.Reader
}

// Cordon keeps new Pods off the Node.
func (d Drainer) Cordon(ctx context.Context, node *corev1.Node) error {
	if node.Spec.Unschedulable {
		return nil
	}
	base := node.DeepCopy()
	node.Spec.Unschedulable = true
	if err := d.Client.Patch(ctx, node, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("cordoning Node %s: %w", node.Name, err)
	}
	return nil
}

// Evict asks every Pod of the Node to leave and returns the number still there.
// A disruption budget that forbids an eviction leaves the Pod for the next call.
func (d Drainer) Evict(ctx context.Context, node string) (left int, err error) {
	pods := &corev1.PodList{}
	if err := d.Pods.List(ctx, pods, client.MatchingFields{NodeNameField: node}); err != nil {
		return 0, fmt.Errorf("listing the Pods of Node %s: %w", node, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if Stays(pod) {
			continue
		}
		left++
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if err := d.evict(ctx, pod, nil); err != nil {
			return left, err
		}
	}
	return left, nil
}

// EvictAtOnce cordons a Node whose machine is proved gone and removes its Pods, those
// of DaemonSets too: nobody is left to end them, and until they are gone their
// controllers make no others. Pods that have ended, and those that a disruption
// budget holds, are left to the garbage collector of Pods, which comes a minute after
// the Node has gone.
func (d Drainer) EvictAtOnce(ctx context.Context, node *corev1.Node) error {
	if err := d.Cordon(ctx, node); err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := d.Pods.List(ctx, pods, client.MatchingFields{NodeNameField: node.Name}); err != nil {
		return fmt.Errorf("listing the Pods of Node %s: %w", node.Name, err)
	}
	var refused []error // one Pod that cannot be evicted holds up no other
	for i := range pods.Items {
		if !hasEnded(&pods.Items[i]) {
			refused = append(refused, d.evict(ctx, &pods.Items[i], new(int64)))
		}
	}
	return errors.Join(refused...)
}

// evict takes the Pod's own grace period for nil. A Pod that nobody may disturb now,
// or that has gone, is no error.
func (d Drainer) evict(ctx context.Context, pod *corev1.Pod, grace *int64) error {
	eviction := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &pod.UID}}}
	err := d.Client.SubResource("eviction").Create(ctx, pod, eviction)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("evicting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// DeleteNode deletes exactly this Node, not a later one of its name.
func (d Drainer) DeleteNode(ctx context.Context, node *corev1.Node) error {
	err := d.Client.Delete(ctx, node, client.Preconditions{UID: &node.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Node %s: %w", node.Name, err)
	}
	return nil
}

// Stays reports whether draining leaves the Pod alone: its controller would put
// it back at once, or it has ended.
func Stays(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return true
	}
	return hasEnded(pod)
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// ReadinessChanged is when the Node became Ready, or ceased to be. A Node that never
// said so is as it is since it was made.
func ReadinessChanged(node *corev1.Node) time.Time {
	if ready := conditionOf(node, corev1.NodeReady); ready != nil && !ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	return node.CreationTimestamp.Time
}

// NodeReady reports whether the Node's Ready condition is True.
func NodeReady(node *corev1.Node) bool { return readiness(node) == corev1.ConditionTrue }

// DiskPressureSince is since when the Node has DiskPressure; zero: it has none, or there is no Node.
func DiskPressureSince(node *corev1.Node) time.Time {
	if node == nil {
		return time.Time{}
	}
	if pressure := conditionOf(node, corev1.NodeDiskPressure); pressure != nil && pressure.Status == corev1.ConditionTrue {
		return pressure.LastTransitionTime.Time
	}
	return time.Time{}
}

// NodeSilent reports that the control plane has not heard of the Node for so long
// that it no longer knows whether it is Ready.
func NodeSilent(node *corev1.Node) bool { return readiness(node) == corev1.ConditionUnknown }

// WhyNotReady is what the Node's condition Ready says while it is not True; empty: nothing,
// or there is no Node.
func WhyNotReady(node *corev1.Node) string {
	if node == nil || NodeReady(node) {
		return ""
	}
	ready := conditionOf(node, corev1.NodeReady)
	if ready == nil {
		return ""
	}
	said := fmt.Sprintf("its Node's condition Ready is %s", ready.Status)
	if ready.Reason != "" {
		said += " (" + ready.Reason
		if ready.Message != "" {
			said += ": " + strings.TrimSuffix(ready.Message, ".")
		}
		said += ")"
	}
	return said
}

// readiness is the status of the Node's condition Ready; empty where it has none.
func readiness(node *corev1.Node) corev1.ConditionStatus {
	if ready := conditionOf(node, corev1.NodeReady); ready != nil {
		return ready.Status
	}
	return ""
}

// conditionOf is the Node's condition of a kind; nil where it has none.
func conditionOf(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}
