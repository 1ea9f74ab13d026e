package state

import (
	"testing"
	"time"
)

// Ends that no container is to blame for are counted apart, so that a container that
// crashes once after them does not wait for minutes.
func TestEndsOfTheInfrastructureAreCountedApart(t *testing.T) {
	now := time.Now()
	crash := Exit{Code: 1, Reason: reasonError, Started: now, Finished: now.Add(time.Second)}
	lost := Exit{Code: codeLost, Reason: ReasonUnknown, Started: now, Finished: now.Add(time.Second)}
	agentless := Exit{Code: codeNotExecuted, Reason: ReasonNoAgent, Finished: now}
	unstarted := Exit{Unstarted: true, Reason: ReasonLimited, Finished: now}
	long := Exit{Code: 1, Reason: reasonError, Started: now, Finished: now.Add(backOffReset)}
	replaced := Exit{Code: 1, Reason: reasonError, Replaced: true, Finished: now}
	for name, c := range map[string]struct {
		ends              []Exit
		crashes, failures int
		delay             time.Duration
		reason            string
	}{
		"crashes":                     {[]Exit{crash, crash}, 2, 0, 10 * time.Second, ReasonBackOff},
		"a crash after failures":      {[]Exit{unstarted, agentless, lost, crash}, 1, 0, 0, ReasonBackOff},
		"failures after a crash":      {[]Exit{crash, unstarted, unstarted}, 1, 2, 20 * time.Second, ReasonLimited},
		"a VM that is lost twice":     {[]Exit{lost, lost}, 0, 2, 10 * time.Second, ReasonUnknown},
		"a guest without an agent":    {[]Exit{agentless}, 0, 1, 0, ReasonNoAgent},
		"a crash after ten minutes":   {[]Exit{crash, crash, long}, 1, 0, 0, ReasonBackOff},
		"another image":               {[]Exit{crash, crash, replaced}, 0, 0, 0, ReasonBackOff},
		"a crash between, then no VM": {[]Exit{unstarted, unstarted, crash, unstarted}, 1, 1, 10 * time.Second, ReasonLimited},
	} {
		var r Record
		var last Exit
		for _, last = range c.ends {
			r = r.CountCrash(last)
		}
		delay, reason := r.Backoff(last)
		if r.Crashes != c.crashes || r.Failures != c.failures || delay != c.delay || reason != c.reason {
			t.Errorf("%s: %d crashes, %d failures, %s for %s; want %d, %d, %s for %s",
				name, r.Crashes, r.Failures, delay, reason, c.crashes, c.failures, c.delay, c.reason)
		}
	}
}
