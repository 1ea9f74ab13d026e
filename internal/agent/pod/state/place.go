package state

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Place is where a Pod lists a container.
type Place struct {
	// Init: in spec.initContainers, and else in spec.containers.
	Init  bool
	Index int
}

// runMark stands between the ID of a container's first command in an attempt and the number
// of a further one.
const runMark = "-r"

// Command is the n-th command of a container in one attempt, from 0 on: it names files of
// the shim, and never runs twice. Only a Pod with several containers has more than one.
func (a Place) Command(n int) string {
	id := MainID
	switch {
	case a.Init:
		id = initPrefix + strconv.Itoa(a.Index)
	case a.Index > 0:
		id = otherPrefix + strconv.Itoa(a.Index)
	}
	if n > 0 {
		id += runMark + strconv.Itoa(n)
	}
	return id
}

// In is the container at that place.
func (a Place) In(p *corev1.Pod) corev1.Container {
	if a.Init {
		return p.Spec.InitContainers[a.Index]
	}
	return p.Spec.Containers[a.Index]
}

// isMain reports the first of spec.containers.
func (a Place) isMain() bool { return a == Place{} }

// placeOf takes the ID of a container's command apart; false for another command.
func placeOf(p *corev1.Pod, id string) (at Place, n int, ok bool) {
	id, number, again := strings.Cut(id, runMark)
	if again {
		n, _ = strconv.Atoi(number)
	}
	for _, at := range places(p) {
		if at.Command(0) == id {
			return at, n, true
		}
	}
	return Place{}, 0, false
}

// places are those of all containers, in the order in which they begin.
func places(p *corev1.Pod) []Place {
	list := make([]Place, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers))
	for i := range p.Spec.InitContainers {
		list = append(list, Place{Init: true, Index: i})
	}
	return append(list, Mains(p)...)
}

// Mains are the places of spec.containers.
func Mains(p *corev1.Pod) []Place {
	list := make([]Place, len(p.Spec.Containers))
	for i := range list {
		list[i].Index = i
	}
	return list
}

// IsSidecar reports an init container that is restarted always: it runs beside those after it.
func (a Place) IsSidecar(p *corev1.Pod) bool {
	return a.Init && IsSidecar(p.Spec.InitContainers[a.Index])
}

// IsSidecar reports an init container that is restarted always.
func IsSidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Sidecars are the places of those that the Pod has.
func Sidecars(p *corev1.Pod) []Place {
	return slices.DeleteFunc(places(p), func(a Place) bool { return !a.IsSidecar(p) })
}

// Several reports that the Pod has containers that run beside one another. Where one of them
// ends, its command runs again in the same guest; the only container of a Pod has a fresh
// clone for that.
func Several(p *corev1.Pod) bool { return len(p.Spec.Containers) > 1 || len(Sidecars(p)) > 0 }

// beside are the containers that run beside one another; none in a Pod of one.
func beside(p *corev1.Pod) []Place {
	if !Several(p) {
		return nil
	}
	return append(Sidecars(p), Mains(p)...)
}

// PolicyOf is what restarts a container that runs beside others.
func (a Place) PolicyOf(p *corev1.Pod) corev1.RestartPolicy {
	if a.IsSidecar(p) {
		return corev1.RestartPolicyAlways
	}
	return p.Spec.RestartPolicy
}
