package state

import (
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
