package state

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// RecordFor is the Pod's record with room for its containers, or what the API shows of a
// Pod whose record is lost.
func RecordFor(p *corev1.Pod, bootSession string, r *Record) Record {
	if r == nil {
		return recordOfPod(p, bootSession)
	}
	known := r.Clone()
	known.Fit(p)
	return known
}

func recordOfPod(p *corev1.Pod, bootSession string) Record {
	r := Record{UID: p.UID, Namespace: p.Namespace, Name: p.Name, BootSession: bootSession}
	r.Fit(p)
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if at, ok := PlaceOf(p, s.Name); ok {
			*r.Container(at) = recordOfStatus(s, at)
			if n, ours := AttemptOf(p.UID, s.ContainerID); ours && n < attemptShown(p) {
				r.Container(at).Run = 0 // its number is of another attempt
			}
		}
	}
	if len(p.Status.ContainerStatuses) > 0 {
		s := p.Status.ContainerStatuses[0]
		r.Image, r.ImageID, r.Started, r.Attempt = s.Image, s.ImageID, r.Begun, max(0, attemptShown(p))
		if !Several(p) {
			r.Attempt = max(int(s.RestartCount), r.Attempt)
		}
	}
	return r
}

// Reconstruct is the record of a Pod whose checkpoint is lost. last is the highest
// attempt of which a directory or a running VM is left, -1 for none, and at how far
// it came. Nil: neither the host nor the API shows one that ran.
func Reconstruct(p *corev1.Pod, bootSession string, last int, at Step) *Record {
	r, shown := recordOfPod(p, bootSession), attemptShown(p)
	if shown >= 0 && last > shown {
		r = r.Next(p) // the status shows the attempt before
	} else if e := r.exitShown(p); e != nil {
		r.Step, r.Outcome = StepEnded, e
		return &r
	}
	if last < 0 {
		return nil
	}
	r.Attempt, r.Step = last, at
	return &r
}

// attemptShown is the highest attempt that the status knows of; -1: none.
func attemptShown(p *corev1.Pod) int {
	highest := -1
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		name, _, _ := strings.Cut(strings.TrimPrefix(s.ContainerID, containerIDPrefix), "/")
		if uid, attempt, ours := ParseVMName(name); ours && uid == p.UID {
			highest = max(highest, attempt)
		}
	}
	return highest
}

// recordOfStatus is what a status tells of a container.
func recordOfStatus(s corev1.ContainerStatus, at Place) ContainerRecord {
	l := ContainerRecord{Restarts: s.RestartCount, Run: runOf(s.ContainerID)}
	if t := s.LastTerminationState.Terminated; t != nil {
		l.LastExit = exitOfStatus(*t, at)
	}
	switch {
	case s.State.Running != nil:
		l.Begun = s.State.Running.StartedAt.Time
	case s.State.Terminated != nil:
		l.Begun, l.Exit = s.State.Terminated.StartedAt.Time, exitOfStatus(*s.State.Terminated, at)
	case s.State.Waiting != nil && backsOff(s.State.Waiting.Reason) && l.LastExit != nil:
		// It ended in the last attempt, and the next one has not begun.
		l.Begun, l.Exit, l.LastExit = l.LastExit.Started, l.LastExit, nil
	}
	return l
}

// backsOff: a container that waits for this reason has ended before.
func backsOff(reason string) bool {
	return reason == ReasonBackOff || reason == ReasonNoAgent || reason == ReasonUnknown
}

func exitOfStatus(t corev1.ContainerStateTerminated, at Place) *Exit {
	e := &Exit{
		Code: t.ExitCode, Reason: t.Reason, Message: t.Message, Of: at.CommandID(t.ContainerID),
		VM: strings.TrimPrefix(t.ContainerID, containerIDPrefix), Started: t.StartedAt.Time, Finished: t.FinishedAt.Time,
	}
	if e.Of == MainID {
		e.Of = ""
	}
	return e
}

// exitShown is how the attempt that a status shows has ended: by the end of the main
// container or by that of an init container that failed. Where no container runs
// since, it is the last end there was. Nil: it has not ended.
func (r Record) exitShown(p *corev1.Pod) *Exit {
	var last *Exit
	if e, over := Decided(p, r); over {
		return &e
	}
	runsOn := beside(p)
	for _, at := range places(p) {
		l := r.Container(at)
		if l.Exit != nil && (!at.Init || l.Exit.Code != 0) && !slices.Contains(runsOn, at) {
			return l.Exit
		}
		if l.LastExit != nil {
			last = l.LastExit
		}
	}
	if r.hasBegun() {
		return nil
	}
	return last
}
