package admission

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/volume"
)

// reasonNodeAffinity is a kubelet's, for Pods that came here although their
// selector or required affinity does not match the Node.
const reasonNodeAffinity = "NodeAffinity"

// reasonTaint is a kubelet's, for Pods that do not tolerate a taint NoExecute.
const reasonTaint = "TaintToleration"

// nodeTimeout bounds how long a Pod waits for a look at the Node.
const nodeTimeout = 2 * time.Second

// Admit says why this host does not take a Pod that has not begun; nil: it does. Its
// answers change with the Node and its configuration, so that they are not for Pods
// that run.
func (h Host) Admit(ctx context.Context, p *corev1.Pod) *state.Failure {
	if why := h.cannotHonour(p); why != "" {
		return &state.Failure{Reason: state.ReasonUnsupported, Message: why}
	}
	return h.refuseOnNode(ctx, p)
}

func (h Host) refuseOnNode(ctx context.Context, p *corev1.Pod) *state.Failure {
	if r := h.refuseUnderPressure(p); r != nil {
		return r
	}
	if r := h.refuseByNode(ctx, p); r != nil {
		return r
	}
	return h.refuseResources(p)
}

// refuseTaints: the scheduler may not have seen the Pod, and a taint that evicts would
// do so at once.
func refuseTaints(p *corev1.Pod, node *corev1.Node) *state.Failure {
	taint, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, p.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }, true)
	if !untolerated {
		return nil
	}
	return &state.Failure{Reason: reasonTaint, Message: fmt.Sprintf("Predicate TaintToleration failed: the Pod does not tolerate %s of node %s", taint.ToString(), node.Name)}
}

// refuseByNode looks at the Node's labels and taints. When the Node cannot be read, the
// scheduler's word stands.
func (h Host) refuseByNode(ctx context.Context, p *corev1.Pod) *state.Failure {
	if h.Node == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	node, err := h.Node(ctx)
	if err != nil || node == nil {
		return nil
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(node)
	switch {
	case err != nil:
		return &state.Failure{Reason: reasonNodeAffinity, Message: fmt.Sprintf("The Pod's node affinity cannot be read: %v", err)}
	case !match:
		return &state.Failure{Reason: reasonNodeAffinity, Message: fmt.Sprintf("The Pod's node selector or required node affinity does not match the labels of node %s", node.Name)}
	}
	return refuseTaints(p, node)
}

// refuseResources uses the reasons of a kubelet: OutOfcpu and its like.
func (h Host) refuseResources(p *corev1.Pod) *state.Failure {
	for _, limit := range []struct {
		name  corev1.ResourceName
		gives *resource.Quantity
	}{
		{corev1.ResourceCPU, resource.NewMilliQuantity(h.milliCPUs(), resource.DecimalSI)},
		{corev1.ResourceMemory, resource.NewQuantity(h.MemoryBytes, resource.BinarySI)},
		{corev1.ResourceEphemeralStorage, resource.NewQuantity(h.StorageBytes, resource.BinarySI)},
	} {
		want := Promised(p, limit.name)
		if limit.gives.Sign() > 0 && want.Cmp(*limit.gives) > 0 {
			return &state.Failure{
				Reason:  "OutOf" + string(limit.name),
				Message: state.NotEnough(limit.name, counted(limit.name, want), 0, counted(limit.name, *limit.gives)),
			}
		}
	}
	return nil
}

// counted is a quantity as a kubelet counts it, and no more than fits in a number.
func counted(name corev1.ResourceName, q resource.Quantity) int64 {
	switch {
	case q.CmpInt64(maxDiskBytes) > 0:
		return math.MaxInt64
	case name == corev1.ResourceCPU:
		return q.MilliValue()
	}
	return q.Value()
}

// Requests are what the scheduler counts of a Pod that fits on the host.
func Requests(p *corev1.Pod) (milliCPUs, memoryBytes int64) {
	cpus, memory := Promised(p, corev1.ResourceCPU), Promised(p, corev1.ResourceMemory)
	return counted(corev1.ResourceCPU, cpus), counted(corev1.ResourceMemory, memory)
}

// Allocatable is what Pods can have of the host together.
func (h Host) Allocatable() (milliCPUs, memoryBytes int64) { return h.milliCPUs(), h.MemoryBytes }

// milliCPUs may be more than whole CPUs: requests are held against what the Node
// says it can give, only VMs have whole ones.
func (h Host) milliCPUs() int64 {
	const milli = 1000
	return max(h.MilliCPUs, int64(h.CPUs)*milli)
}

// remedy is what to do about fields that cannot be honoured.
const remedy = "Leave each of these out, or change it as the brackets after it say; what Macs honour is listed in docs/pods.md of macfleet"

// cannotHonour says all at once which fields of the Pod no guest here can honour,
// and which directories of the host its profile does not allow; empty: none.
func (h Host) cannotHonour(p *corev1.Pod) string {
	var why []string
	if fields := Unsupported(p); len(fields) > 0 {
		why = append(why, "This node runs a Pod as one macOS VM and cannot honour: "+strings.Join(fields, ", ")+". "+remedy)
	}
	if paths := h.forbiddenHostPaths(p); paths != "" {
		why = append(why, paths)
	}
	return strings.Join(why, ". ")
}

func (h Host) forbiddenHostPaths(p *corev1.Pod) string {
	var found []string
	for i, v := range p.Spec.Volumes {
		if v.HostPath != nil && !volume.Allowed(v.HostPath.Path, h.HostPaths) {
			found = append(found, fmt.Sprintf("spec.volumes[%d].hostPath.path (%s)", i, v.HostPath.Path))
		}
	}
	if len(found) == 0 {
		return ""
	}
	allowed := "none, until spec.pods.hostPaths of its MacNodeProfile names a directory"
	if len(h.HostPaths) > 0 {
		allowed = strings.Join(slices.Sorted(slices.Values(h.HostPaths)), ", ") + ", as spec.pods.hostPaths of its MacNodeProfile says"
	}
	return fmt.Sprintf("This node does not allow %s; it allows paths below: %s", strings.Join(found, ", "), allowed)
}
