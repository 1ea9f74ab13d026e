// Package eviction ends Pods of a host that is short of disk or memory, as a kubelet does:
// one at a time, in its order and with its words.
package eviction

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/pod/admission"
)

// Candidate is a Pod that may have to go.
type Candidate struct {
	Pod *corev1.Pod
	// Container that runs: one guest is all containers of its Pod. Empty: none does yet.
	Container string
	// Used bytes of what is short; negative: nobody knows.
	Used int64
}

// choose returns the Pod that goes first: one of which nothing is known, as it has hardly
// begun, then those that use more than they asked for, then the less important ones, then
// those that are furthest above what they asked for. False: none may be ended.
func choose(r corev1.ResourceName, all []Candidate) (Candidate, bool) {
	list := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool { return admission.Critical(c.Pod) })
	if len(list) == 0 {
		return Candidate{}, false
	}
	slices.SortStableFunc(list, func(a, b Candidate) int {
		return cmp.Or(
			firstIf(a.Used < 0, b.Used < 0),
			firstIf(a.above(r) > 0, b.above(r) > 0),
			cmp.Compare(corev1helpers.PodPriority(a.Pod), corev1helpers.PodPriority(b.Pod)),
			cmp.Compare(b.above(r), a.above(r)),
		)
	})
	return list[0], true
}

// above is how far the Pod is above what it asked for.
func (c Candidate) above(r corev1.ResourceName) int64 {
	asked := admission.Promised(c.Pod, r)
	return c.Used - asked.Value()
}

// firstIf puts what is before what is not.
func firstIf(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// message is a kubelet's, to the letter.
func message(s health.Shortage, c Candidate) string {
	text := fmt.Sprintf("The node was low on resource: %s. Threshold quantity: %s, available: %s. ", s.Resource, s.Threshold, s.Available)
	asked := requestOf(c, s.Resource)
	if c.Container == "" || c.Used <= asked.Value() {
		return text
	}
	return text + fmt.Sprintf("Container %s was using %s, request is %s, has larger consumption of %s. ",
		c.Container, resource.NewQuantity(c.Used, resource.BinarySI), &asked, s.Resource)
}

// requestOf is that of the container that runs.
func requestOf(c Candidate, r corev1.ResourceName) resource.Quantity {
	for _, k := range slices.Concat(c.Pod.Spec.Containers, c.Pod.Spec.InitContainers) {
		if k.Name == c.Container {
			return k.Resources.Requests[r]
		}
	}
	return resource.Quantity{}
}
