package state

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ShouldRestart reports that a restartPolicy makes another attempt after e.
func ShouldRestart(policy corev1.RestartPolicy, e Exit) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		// As a kubelet restarts what it killed for its probes, however it took that.
		return e.Code != 0 || e.Unhealthy
	}
	// Always means the main container: an init container that succeeded is no end.
	return true
}

// done reports that a container has ended and does not run again.
func (l ContainerRecord) done(policy corev1.RestartPolicy) bool {
	return l.Exit != nil && !l.Exit.Replaced && !ShouldRestart(policy, *l.Exit)
}

// Decided is how a Pod has ended whose containers run beside one another and have all ended
// for good, but for sidecars: by the first end that is a failure. False: it goes on.
func Decided(p *corev1.Pod, r Record) (Exit, bool) {
	if !Several(p) {
		return Exit{}, false
	}
	for _, at := range Mains(p) {
		if !r.Container(at).done(p.Spec.RestartPolicy) {
			return Exit{}, false
		}
	}
	return firstFailure(p, r), true
}

// firstFailure is the end of the first container that has failed, else that of the main one.
// All but sidecars have ended.
func firstFailure(p *corev1.Pod, r Record) Exit {
	for _, at := range Mains(p) {
		if e := r.Container(at).Exit; e.Code != 0 {
			return *e
		}
	}
	return *r.Exit
}

// EndUnrun gives an end to containers that never ran in an attempt which was killed with its
// Pod by e, and returns the end of the Pod.
func (r *Record) EndUnrun(p *corev1.Pod, e Exit) Exit {
	for _, at := range Mains(p) {
		if l := r.Container(at); l.Exit == nil {
			own := LostCommand(p, *r, at.Command(l.Run), "the Pod ended before this container ran", e.Finished)
			l.Exit = &own
		}
	}
	if !Several(p) {
		return e
	}
	return firstFailure(p, *r)
}

// Pending is the command of the container that the end of the VM is the end of, where
// containers run beside one another: of one that runs, else of one that is to run.
func Pending(p *corev1.Pod, r Record) CommandProgress {
	var first CommandProgress
	for _, at := range slices.Concat(Mains(p), Sidecars(p)) {
		l := r.Container(at)
		s := CommandProgress{ID: at.Command(l.Run), Begun: !l.Begun.IsZero()}
		switch {
		case l.Exit == nil && s.Begun:
			return s
		case first.ID == "" && !l.done(at.PolicyOf(p)):
			first = s
		}
	}
	return first
}

// CountEnd is the record of a container that runs beside others, with its end.
func (l ContainerRecord) CountEnd(e Exit) ContainerRecord {
	if e.Finished.Sub(e.Started) >= backOffReset {
		l.Ends = 0
	}
	l.Ends, l.Exit = l.Ends+1, &e
	return l
}

// Again is the record of the container whose command runs once more in the same guest.
func (l ContainerRecord) Again() ContainerRecord {
	return ContainerRecord{Restarts: l.Restarts + 1, LastExit: l.Exit, Run: l.Run + 1, Ends: l.Ends}
}

// WaitsFor is how long the container at a place that has ended waits until it runs again in
// the same guest; false: it does not.
func (r Record) WaitsFor(p *corev1.Pod, at Place) (time.Duration, bool) {
	l := r.Container(at)
	if l.Exit == nil || l.done(at.PolicyOf(p)) {
		return 0, false
	}
	return restartDelay(l.Ends), true
}

// infrastructure reports an end that says nothing of the container: its VM did not start
// or is lost, no guest agent answered, or the firewall around it was not proved.
func (e Exit) infrastructure() bool {
	return e.Unstarted || e.Disrupted() || e.Reason == ReasonNoAgent
}

// Disrupted reports an end that the Mac brought about, by a reboot or its agent.
func (e Exit) Disrupted() bool {
	return e.Reason == ReasonUnknown || e.Reason == ReasonNotProved
}

// CountCrash is the record with the ends in a row that the back-offs count: those of
// containers, and apart from them those of the infrastructure.
func (r Record) CountCrash(e Exit) Record {
	if e.Replaced || !e.Started.IsZero() && e.Finished.Sub(e.Started) >= backOffReset {
		r.Crashes, r.Failures = 0, 0
	}
	switch {
	case e.Replaced:
	case e.infrastructure():
		r.Failures++
	default:
		r.Crashes++
		r.Failures = 0
	}
	return r
}

// Backoff is how long the attempt after e waits, and the reason that is shown.
func (r Record) Backoff(e Exit) (time.Duration, string) {
	switch {
	case e.Unstarted && !e.Replaced:
		return PullDelay(r.Failures), e.Reason
	case e.infrastructure() && !e.Replaced:
		return restartDelay(r.Failures), e.Reason
	}
	return restartDelay(r.Crashes), ReasonBackOff
}
