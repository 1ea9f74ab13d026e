package state

import corev1 "k8s.io/api/core/v1"

// ShouldRestart reports that a restartPolicy makes another attempt after e.
func ShouldRestart(policy corev1.RestartPolicy, e Exit) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return e.Code != 0
	}
	// Always means the main container: an init container that succeeded is no end.
	return true
}

// CountCrash is the record with the exits in a row that the back-off counts.
func (r Record) CountCrash(e Exit) Record {
	r.Crashes++
	if !e.Started.IsZero() && e.Finished.Sub(e.Started) >= backOffReset {
		r.Crashes = 1
	}
	if e.Replaced {
		r.Crashes = 0
	}
	return r
}
