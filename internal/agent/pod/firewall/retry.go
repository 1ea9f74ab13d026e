package firewall

import (
	"errors"
	"time"
)

const (
	// MaxRefusals and retryPause bound how often a guard may say no about a VM that runs.
	MaxRefusals = 5
	retryPause  = 2 * time.Second
	// awayTimeout bounds how long a guard may give no answer: it is restarted when a new
	// build comes, which must not cost a guest. launchd starts a job ten seconds after it
	// ended at the earliest, and a build on trial may have 45.
	awayTimeout = time.Minute
)

// retryBudget is what is left of the proofs of a VM that runs.
type retryBudget struct {
	since    time.Time
	refusals int
}

// exhausted takes one failed proof into account.
func (b *retryBudget) exhausted(err error, now time.Time) bool {
	var silent interface{ Away() bool }
	if errors.As(err, &silent) && silent.Away() {
		return now.Sub(b.since) >= awayTimeout
	}
	b.refusals++
	return b.refusals >= MaxRefusals
}

// provedAnyway reports an error of a guard for which the firewall is not the reason.
func provedAnyway(err error) bool {
	var holds interface{ Proved() bool }
	return errors.As(err, &holds) && holds.Proved()
}
