package state

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Invariant is what does not change while a Pod lives.
type Invariant struct {
	HostIP    string
	StartTime metav1.Time
}

// Render turns a view into the part of the status that a kubelet owns. Times of
// conditions that did not change are taken from old.
func Render(p *corev1.Pod, f Invariant, v View, old []corev1.PodCondition, now time.Time) corev1.PodStatus {
	s := corev1.PodStatus{
		ObservedGeneration: p.Generation,
		Phase:              phase(v),
		StartTime:          &f.StartTime,
	}
	if f.HostIP != "" {
		s.HostIP = f.HostIP
		s.HostIPs = []corev1.HostIP{{IP: f.HostIP}}
	}
	switch {
	case v.Refused != nil:
		s.Reason, s.Message = v.Refused.Reason, v.Refused.Message
	default:
		s.ContainerStatuses, s.InitContainerStatuses = containerStatuses(p, v)
	}
	s.EphemeralContainerStatuses = EphemeralStatuses(p, metav1.NewTime(now))
	if v.Failed != nil {
		s.Reason, s.Message = v.Failed.Reason, v.Failed.Message
	}
	s.Conditions = conditions(p, v, old, now)
	return s
}

// phase never goes back: a Pod whose main container ran once is Running until its
// end.
func phase(v View) corev1.PodPhase {
	switch {
	case v.Refused != nil, v.Failed != nil:
		return corev1.PodFailed
	case v.Final != nil && v.Final.Code == 0 && !v.Final.ofInit():
		return corev1.PodSucceeded
	case v.Final != nil:
		return corev1.PodFailed
	case v.MainRan:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

func containerStatuses(p *corev1.Pod, v View) (containers, inits []corev1.ContainerStatus) {
	for i, s := range v.Inits {
		status := containerStatus(p.Spec.InitContainers[i], s, v)
		if !IsSidecar(p.Spec.InitContainers[i]) {
			// It is ready once it has done its work.
			status.Ready = s.Exit != nil && s.Exit.Code == 0
		}
		inits = append(inits, status)
	}
	mains := v.mains()
	for i, c := range p.Spec.Containers[:min(len(mains), len(p.Spec.Containers))] {
		containers = append(containers, containerStatus(c, *mains[i], v))
	}
	return containers, inits
}

func containerStatus(c corev1.Container, s ContainerState, v View) corev1.ContainerStatus {
	running, started := s.Running != nil, s.started()
	status := corev1.ContainerStatus{
		Name:         c.Name,
		Image:        cmp.Or(v.Image, c.Image),
		ImageID:      v.ImageID,
		RestartCount: s.Restarts,
		Ready:        s.ready(),
		Started:      &started,
		ContainerID:  s.ID,

		Resources: shown(c.Resources), AllocatedResources: c.Resources.Requests,
	}
	switch {
	case running:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(*s.Running)}
	case s.Exit != nil:
		status.State.Terminated = s.Exit.terminated()
		status.ContainerID = status.State.Terminated.ContainerID
	default:
		status.State.Waiting = s.Waiting
		status.ContainerID = ""
		if s.LastExit != nil {
			status.ContainerID = s.LastExit.terminated().ContainerID
		}
	}
	if s.LastExit != nil {
		status.LastTerminationState.Terminated = s.LastExit.terminated()
	}
	return status
}

// terminated has no times for what never began.
func (e Exit) terminated() *corev1.ContainerStateTerminated {
	if e.Started.IsZero() {
		e.Finished = time.Time{}
	}
	return &corev1.ContainerStateTerminated{
		ExitCode:    e.Code,
		Reason:      e.Reason,
		Message:     e.Message,
		StartedAt:   metav1.NewTime(e.Started),
		FinishedAt:  metav1.NewTime(e.Finished),
		ContainerID: containerID(e.VM),
	}
}

// ofInit reports the end of an init container.
func (e Exit) ofInit() bool { return strings.HasPrefix(e.Of, initPrefix) }

// cause is the state of a condition that is not plainly true.
type cause struct {
	Status          corev1.ConditionStatus
	Reason, Message string
}

// conditions are the five that this agent owns, PodResizePending for a Pod that asks for
// other resources than it has, and DisruptionTarget for one that it gave back. Those of
// others, readiness gates among them, are not in the list and stay as they are.
func conditions(p *corev1.Pod, v View, old []corev1.PodCondition, now time.Time) []corev1.PodCondition {
	containers := containersReady(p, v)
	list := []corev1.PodCondition{
		// It is here, whoever sent it; a kubelet says so again for each generation.
		condition(corev1.PodScheduled, cause{Status: corev1.ConditionTrue}),
		condition(corev1.PodReadyToStartContainers, cause{Status: truth(v.Up)}),
		condition(corev1.PodInitialized, initialized(p, v)),
		condition(corev1.ContainersReady, containers),
		condition(corev1.PodReady, ready(p, containers)),
	}
	if v.Resized && v.Final == nil && v.Failed == nil {
		list = append(list, condition(corev1.PodResizePending, cause{corev1.ConditionTrue, corev1.PodReasonInfeasible, noResize}))
	}
	if why := v.disruption(); why != "" {
		list = append(list, condition(corev1.DisruptionTarget, cause{corev1.ConditionTrue, corev1.PodReasonTerminationByKubelet, why}))
	}
	for i := range list {
		list[i].ObservedGeneration = p.Generation
		list[i].LastTransitionTime = since(list[i], old, now)
	}
	return list
}

func condition(kind corev1.PodConditionType, b cause) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: b.Status, Reason: b.Reason, Message: b.Message}
}

func truth(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func initialized(p *corev1.Pod, v View) cause {
	if phase(v) == corev1.PodSucceeded {
		return cause{corev1.ConditionTrue, "PodCompleted", ""}
	}
	var missing []string
	for i, s := range v.Inits {
		done := s.Exit != nil && s.Exit.Code == 0
		if IsSidecar(p.Spec.InitContainers[i]) {
			done = s.started()
		}
		if !done {
			missing = append(missing, p.Spec.InitContainers[i].Name)
		}
	}
	// The main container proves the others, should their record be lost.
	if len(missing) == 0 || v.Main.Running != nil || v.Main.Exit != nil && v.Main.Exit.Code == 0 || v.MainRan && Several(p) {
		return cause{Status: corev1.ConditionTrue}
	}
	return cause{corev1.ConditionFalse, "ContainersNotInitialized", "containers with incomplete status: [" + strings.Join(missing, " ") + "]"}
}

func containersReady(p *corev1.Pod, v View) cause {
	switch {
	case v.Refused != nil:
		return cause{corev1.ConditionFalse, v.Refused.Reason, ""}
	case v.Failing, v.Failed != nil, v.Final != nil && (v.Final.Code != 0 || v.Final.ofInit()):
		return cause{corev1.ConditionFalse, "PodFailed", ""}
	case v.Final != nil:
		return cause{corev1.ConditionFalse, "PodCompleted", ""}
	}
	unready := unreadyContainers(p, v)
	if len(unready) == 0 {
		return cause{Status: corev1.ConditionTrue}
	}
	return cause{corev1.ConditionFalse, "ContainersNotReady", "containers with unready status: [" + strings.Join(unready, " ") + "]"}
}

// unreadyContainers are the names of containers that run for as long as the Pod does, and are
// not ready.
func unreadyContainers(p *corev1.Pod, v View) []string {
	var names []string
	for i, s := range v.Inits {
		if c := p.Spec.InitContainers[i]; IsSidecar(c) && !s.ready() {
			names = append(names, c.Name)
		}
	}
	for i, s := range v.mains() {
		if !s.ready() {
			names = append(names, p.Spec.Containers[i].Name)
		}
	}
	return names
}

// ready is ContainersReady, unless a gate of somebody else's is closed.
func ready(p *corev1.Pod, containers cause) cause {
	if containers.Status != corev1.ConditionTrue {
		return containers
	}
	var closed []string
	for _, gate := range p.Spec.ReadinessGates {
		if ConditionOf(p.Status.Conditions, gate.ConditionType) != corev1.ConditionTrue {
			closed = append(closed, string(gate.ConditionType))
		}
	}
	if len(closed) == 0 {
		return containers
	}
	return cause{corev1.ConditionFalse, "ReadinessGatesNotReady", "readiness gates that are not True: [" + strings.Join(closed, " ") + "]"}
}

// ConditionOf is the status of a condition; Unknown where there is none.
func ConditionOf(list []corev1.PodCondition, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range list {
		if c.Type == kind {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

func since(c corev1.PodCondition, old []corev1.PodCondition, now time.Time) metav1.Time {
	for _, o := range old {
		if o.Type == c.Type && o.Status == c.Status {
			return o.LastTransitionTime
		}
	}
	return metav1.NewTime(now)
}
