package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// noResize is the message of a Pod whose resources were changed while its VM runs.
const noResize = "A running VM is not resized: the changed resources count from its next start, where the Mac has them"

// Resources are what the containers of a Pod have, by their names.
type Resources map[string]corev1.ResourceRequirements

// ResourcesOf are those that the Pod asks for.
func ResourcesOf(p *corev1.Pod) Resources {
	asked := Resources{}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		asked[c.Name] = corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits}
	}
	return asked
}

// ShownResources are those that the Pod was given when it was last started, as its status
// says, or those it asks for where that says nothing: a Pod that had none cannot get any, as
// that would be another QoS class.
func ShownResources(p *corev1.Pod) Resources {
	given := ResourcesOf(p)
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.Resources != nil {
			given[s.Name] = corev1.ResourceRequirements{Requests: s.Resources.Requests, Limits: s.Resources.Limits}
		}
	}
	return given
}

// WithResources is the Pod as it would be with these resources: p itself, where it has them.
func WithResources(p *corev1.Pod, given Resources) *corev1.Pod {
	if equality.Semantic.DeepEqual(ResourcesOf(p), given) {
		return p
	}
	changed := *p
	for _, list := range []*[]corev1.Container{&changed.Spec.InitContainers, &changed.Spec.Containers} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Resources = given[(*list)[i].Name]
		}
	}
	return &changed
}

// shown are resources as a status has them: nil for none, as an empty field would say that
// limits were taken away.
func shown(r corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if len(r.Requests)+len(r.Limits) == 0 {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: r.Requests, Limits: r.Limits}
}
