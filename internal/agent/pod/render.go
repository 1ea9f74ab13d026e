package pod

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// view is what a worker has to say about its Pod: exactly one of Waiting, Running
// and Ended, and what went before.
type view struct {
	Waiting *corev1.ContainerStateWaiting
	// Running is when the machine was started.
	Running *time.Time
	Ended   *end
	// Last is the end before this attempt.
	Last     *end
	Restarts int32
	Machine  string
	ImageID  string
	// Refused is set when the Pod never was accepted.
	Refused *refusal
	// Ran: some attempt of the Pod has run.
	Ran bool
}

type refusal struct{ Reason, Message string }

// frame is what does not change while a Pod lives.
type frame struct {
	HostIP    string
	StartTime metav1.Time
}

// render turns a view into the part of the status that a kubelet owns. Times of
// conditions that did not change are taken from old.
func render(p *corev1.Pod, f frame, v view, old []corev1.PodCondition, now time.Time) corev1.PodStatus {
	s := corev1.PodStatus{
		ObservedGeneration: p.Generation,
		Phase:              phase(v),
		StartTime:          &f.StartTime,
	}
	if f.HostIP != "" {
		s.HostIP = f.HostIP
		s.HostIPs = []corev1.HostIP{{IP: f.HostIP}}
	}
	if v.Refused != nil {
		s.Reason, s.Message = v.Refused.Reason, v.Refused.Message
	} else if len(p.Spec.Containers) > 0 {
		s.ContainerStatuses = []corev1.ContainerStatus{containerStatus(p.Spec.Containers[0], v)}
	}
	s.Conditions = conditions(p, v, old, now)
	return s
}

// phase never goes back: a Pod that ran once is Running until its end.
func phase(v view) corev1.PodPhase {
	switch {
	case v.Refused != nil:
		return corev1.PodFailed
	case v.Ended != nil && v.Ended.Code == 0:
		return corev1.PodSucceeded
	case v.Ended != nil:
		return corev1.PodFailed
	case v.Running != nil || v.Ran:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

func containerStatus(c corev1.Container, v view) corev1.ContainerStatus {
	running := v.Running != nil
	s := corev1.ContainerStatus{
		Name:         c.Name,
		Image:        c.Image,
		ImageID:      v.ImageID,
		RestartCount: v.Restarts,
		Ready:        running,
		Started:      &running,
		ContainerID:  containerID(v.Machine),
	}
	switch {
	case running:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(*v.Running)}
	case v.Ended != nil:
		s.State.Terminated = v.Ended.terminated()
	default:
		s.State.Waiting = v.Waiting
		s.ContainerID = ""
		if v.Last != nil {
			s.ContainerID = containerID(v.Last.Machine)
		}
	}
	if v.Last != nil {
		s.LastTerminationState.Terminated = v.Last.terminated()
	}
	return s
}

func containerID(machine string) string {
	if machine == "" {
		return ""
	}
	return "tart://" + machine
}

func (e end) terminated() *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode:    e.Code,
		Reason:      e.Reason,
		Message:     e.Message,
		StartedAt:   metav1.NewTime(e.Started),
		FinishedAt:  metav1.NewTime(e.Finished),
		ContainerID: containerID(e.Machine),
	}
}

// conditions are the four that this agent owns. Those of others, readiness gates
// among them, are not in the list and stay as they are.
func conditions(p *corev1.Pod, v view, old []corev1.PodCondition, now time.Time) []corev1.PodCondition {
	ready, reason, message := corev1.ConditionFalse, "ContainersNotReady", "containers with unready status"
	switch {
	case v.Refused != nil:
		reason, message = v.Refused.Reason, ""
	case v.Running != nil:
		ready, reason, message = corev1.ConditionTrue, "", ""
	case v.Ended != nil && v.Ended.Code == 0:
		reason, message = "PodCompleted", ""
	case v.Ended != nil:
		reason, message = "PodFailed", ""
	}
	list := []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: readyToStart(v)},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: ready, Reason: reason, Message: message},
		{Type: corev1.PodReady, Status: ready, Reason: reason, Message: message},
	}
	for i := range list {
		list[i].ObservedGeneration = p.Generation
		list[i].LastTransitionTime = since(list[i], old, now)
	}
	return list
}

// readyToStart: a VM has no sandbox apart from itself, so that it is ready to
// start exactly when it has been started.
func readyToStart(v view) corev1.ConditionStatus {
	if v.Running != nil {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func since(c corev1.PodCondition, old []corev1.PodCondition, now time.Time) metav1.Time {
	i := slices.IndexFunc(old, func(o corev1.PodCondition) bool { return o.Type == c.Type && o.Status == c.Status })
	if i >= 0 {
		return old[i].LastTransitionTime
	}
	return metav1.NewTime(now)
}
