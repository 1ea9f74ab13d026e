package host

import (
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Bringup is how far a Mac is that a Machine has claimed, and that is no Node of it yet.
type Bringup struct {
	// Pending: the Machine is not provisioned.
	Pending bool
	// Reason of its condition Bootstrapped, and the class of its last failure.
	Reason string
	Class  FailureClass
	// ClaimedAt is when the Machine got the Mac, or got it back wiped.
	ClaimedAt time.Time
	// AskedAt is when the health check began to ask for it, as right after a pause of its
	// Cluster, before anybody has looked at the Mac again.
	AskedAt time.Time
	// Allowed is how long a Machine may take to become a Node, as its health check has it;
	// 0: for ever.
	Allowed time.Duration
	// Spared says why only a person's wish takes the Mac away; empty: nothing says so.
	Spared string
}

// stuck: the bootstrap's own recovery comes to no tier any more, and another Mac may do better:
// the server answers no call, its password is hidden, it is not what it should be, or every tier
// is forbidden. What would be the same on every other Mac, as a profile that cannot be, is not
// among them. A password that was rejected counts, and a wipe brings another.
func (b Bringup) stuck() bool {
	switch b.Reason {
	case infrav1.ReasonWaitingForHost, infrav1.ReasonCredentialsSealed, infrav1.ReasonBootstrapExhausted,
		infrav1.ReasonFileVault, infrav1.ReasonWrongHardware, infrav1.ReasonHostKeyMismatch:
		return true
	case infrav1.ReasonMissingSudoPassword:
		return b.Class == ClassWait
	}
	return false
}

// atFault: what keeps the Mac from being a Node is the Mac's own, and has counted nowhere else.
// The vendor's locks and sealed passwords cost it nothing.
func (b Bringup) atFault() bool {
	switch b.Reason {
	case infrav1.ReasonWaitingForHost, infrav1.ReasonCredentialsSealed, infrav1.ReasonMissingSudoPassword:
		return false
	}
	return b.stuck()
}

// forAPerson: NextRecovery climbs no tier for it, and no push is made, or the next fails as the
// last one did.
func (b Bringup) forAPerson() bool {
	switch b.Reason {
	case infrav1.ReasonInvalidProfile, infrav1.ReasonUnknownProfile, infrav1.ReasonEndpointUnknown:
		return true
	}
	return b.Class == ClassHuman || b.Class == ClassBug
}

// bringupPatience is how long a Mac has after it was first complained of.
const bringupPatience = 10 * time.Minute

// waits says why the Mac is left to its bootstrap; empty: nothing comes of that any more. The
// health check counts from when the Machine was made, and that may have waited for a Mac all
// the time: the Mac has as much from its claim on.
func (b Bringup) waits(now time.Time) string {
	const notYet = "the Mac is not provisioned yet"
	until := b.ClaimedAt.Add(b.Allowed)
	if asked := b.AskedAt.Add(bringupPatience); asked.After(until) {
		until = asked
	}
	switch {
	case b.Spared != "":
		return notYet + ", and not given up by itself: " + b.Spared
	case !b.stuck() && b.forAPerson():
		return notYet + " (" + b.Reason + "); a person mends what the Machine's condition Bootstrapped names, or named before the attempt that runs, and recovery does nothing about it"
	case !b.stuck():
		return notYet + "; its bootstrap recovers by itself"
	case b.Allowed == 0:
		return notYet + " (" + b.Reason + "), and its health check gives it all the time there is"
	case now.Before(until):
		return notYet + " (" + b.Reason + "); it is given up after " + until.UTC().Format(time.RFC3339)
	}
	return ""
}

// unprovisioned gives a Machine up whose Mac does not come up by itself, or that a person wants
// replaced: neither a restart nor a reboot makes a Node of it.
func (r Remediation) unprovisioned() RemediationStep {
	if why := r.Bringup.waits(r.Now); why != "" && !r.Wanted {
		return RemediationStep{Step: r.Step, Reason: infrav1.ReasonDiagnosing, Message: why}
	}
	if r.Block.Reason != "" {
		return r.held()
	}
	return r.exhausted()
}
