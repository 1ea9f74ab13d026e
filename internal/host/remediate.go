package host

import (
	"cmp"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// What each step of a remediation may take, where its template says nothing.
const (
	// DefaultAgentRestartTimeout covers a push over SSH (seconds), a throttled start
	// (10 s) and the first renewal of the Node's lease.
	DefaultAgentRestartTimeout = 3 * time.Minute
	// DefaultRebootTimeout covers a power cut, a slow start of macOS and the agent's.
	DefaultRebootTimeout = 15 * time.Minute
)

// NodeState is what is seen of a Machine's Node.
type NodeState int

// The states of a Node. The zero value is the worst but one: nothing follows from
// it but patience.
const (
	NodeUnready NodeState = iota
	NodeReady
	// NodeMissing: the Node object does not exist, and only a fresh join permit can
	// bring it back, never a reboot.
	NodeMissing
)

// Remediation is what NextRemediation decides from.
type Remediation struct {
	// Step that is under way, one of the reasons of the condition Remediated; empty
	// before the first.
	Step string
	// Since when; zero: from now on.
	Since time.Time
	// RestartTimeout and RebootTimeout of the steps; 0 leaves a step out.
	RestartTimeout, RebootTimeout time.Duration
	// Restarted: the wished restart of the agent was made.
	Restarted bool
	// RebootedAt is when the vendor took the reboot; zero: not yet.
	RebootedAt time.Time
	Node       NodeState
	// Complaint is what a health check that looks at more than Ready still sees, of a Node
	// that is Ready and counts as NodeUnready for it; empty: nothing.
	Complaint string
	// Unready is what a Node that is not Ready says of that; empty: nothing.
	Unready string
	// Unreachable: the Node is not heard of, and the Mac does not answer over SSH
	// either, the only way to its agent.
	Unreachable bool
	// Wanted: a person asks for another Machine, however well the Node is.
	Wanted bool
	// Unasked says why no health check asks for the remediation now; empty: one does.
	Unasked string
	// Hindrance says why nothing may be done now; empty: it may.
	Hindrance string
	// Bringup of a Mac that is no Node yet.
	Bringup Bringup
	// Gone: the vendor no longer has the server.
	Gone bool
	// Lost: the host is another's, or was freed. Nothing here is the Machine's to mend.
	Lost bool
	// OnDelete: the Machine's owner has refused to replace it, and waits for it to be deleted.
	OnDelete bool
	// TooMany: no health check that selects the Machine may act at present.
	TooMany bool
	// Block of the storm guard, from an uncached list of hosts.
	Block Block
	Now   time.Time
}

// RemediationStep is what to do next.
type RemediationStep struct {
	// Step to be in: the same as before, or the next one of the ladder; empty: the ladder
	// is over, and begins with its first step where it is needed again.
	Step string
	// Since when; zero: the time of this step starts anew once it goes on.
	Since time.Time
	// Reason of the condition Remediated: the step's, or Diagnosing, Held, Recovered.
	Reason, Message string
	// Failure that the reboot is to mend; empty in other steps.
	Failure string
	// Until is when this step has taken too long; zero: it has no end by itself.
	Until time.Time
	// Delete the Machine: nobody else replaces it.
	Delete bool
}

// NextRemediation goes step by step through the ladder after provisioning: restart the agent, reboot,
// give the Machine up. A Node that is Ready again, and of which no health check complains, ends it at any step,
// and so does the end of the health check. Core may leave the object behind in both cases.
func NextRemediation(r Remediation) RemediationStep {
	switch {
	case r.Node == NodeReady && !r.Wanted:
		return RemediationStep{Reason: infrav1.ReasonRecovered, Message: "the Node is Ready"}
	case r.Unasked != "":
		return RemediationStep{Reason: infrav1.ReasonDiagnosing, Message: r.Unasked}
	case r.Step == infrav1.ReasonExhausted:
		return r.givenUp()
	case r.Hindrance != "":
		return RemediationStep{Step: r.Step, Reason: infrav1.ReasonDiagnosing, Message: r.Hindrance}
	case r.Gone, r.Lost:
		return r.exhausted()
	case r.Bringup.Pending:
		return r.unprovisioned()
	}
	return r.advance()
}

// advance stays on the present step until its time is over, and goes on where the
// storm guard allows it.
func (r Remediation) advance() RemediationStep {
	if r.Since.IsZero() {
		r.Since = r.Now
	}
	if r.Step != "" && r.Node != NodeReady && r.Now.Before(r.until()) && !r.restartInVain() {
		return r.current()
	}
	next := r.after()
	if next != infrav1.ReasonRestartingAgent && r.Block.Reason != "" {
		return r.held()
	}
	if next == infrav1.ReasonExhausted {
		return r.exhausted()
	}
	r.Step, r.Since = next, r.Now
	return r.current()
}

// held stays on the present step while the storm guard forbids the next one.
func (r Remediation) held() RemediationStep {
	return RemediationStep{
		Step: r.Step, Since: r.Since, Reason: infrav1.ReasonHeld,
		Message: r.Block.Reason + ": " + r.Block.Message,
	}
}

// until is when the present step has taken too long. A reboot's time counts from
// when the vendor took it.
func (r Remediation) until() time.Time {
	since := r.Since
	if r.Step == infrav1.ReasonRebooting && r.RebootedAt.After(since) {
		since = r.RebootedAt
	}
	return since.Add(r.timeout(r.Step))
}

func (r Remediation) timeout(step string) time.Duration {
	switch step {
	case infrav1.ReasonRestartingAgent:
		return r.RestartTimeout
	case infrav1.ReasonRebooting:
		return r.RebootTimeout
	}
	return 0
}

// after is the next step that is not left out.
func (r Remediation) after() string {
	switch {
	case r.Node == NodeReady:
		return infrav1.ReasonExhausted // wanted by a person: there is nothing to mend
	case r.Step == "" && r.RestartTimeout > 0 && !(r.Unreachable && r.rebootHelps()):
		return infrav1.ReasonRestartingAgent
	case r.Step != infrav1.ReasonRebooting && r.rebootHelps():
		return infrav1.ReasonRebooting
	}
	return infrav1.ReasonExhausted
}

// rebootHelps: the step is not left out, and the Node is there to come back.
func (r Remediation) rebootHelps() bool { return r.RebootTimeout > 0 && r.Node != NodeMissing }

// restartInVain reports a restart that waits for a Mac which does not answer. A reboot
// needs the vendor alone; where that is left out, the restart has all its time.
func (r Remediation) restartInVain() bool {
	return r.Step == infrav1.ReasonRestartingAgent && r.Unreachable && !r.Restarted && r.rebootHelps() && r.Block.Reason == ""
}

func (r Remediation) current() RemediationStep {
	next := RemediationStep{Step: r.Step, Since: r.Since, Reason: r.Step, Message: r.progress(), Until: r.until()}
	if r.Step == infrav1.ReasonRebooting {
		next.Failure = r.failure()
	}
	return next
}

// failure is what a reboot is to mend.
func (r Remediation) failure() string {
	switch {
	case r.Unreachable && !r.Restarted:
		return "neither the Node is heard of nor does SSH reach the Mac, so that its agent cannot be restarted"
	case r.Restarted:
		return "the agent was restarted, and " + cmp.Or(r.Complaint, r.Unready, notReadyYet)
	}
	return cmp.Or(r.Complaint, r.Unready, "its Node is not Ready")
}

func (r Remediation) progress() string {
	switch {
	case r.Step == infrav1.ReasonRebooting && r.RebootedAt.IsZero():
		return "a reboot is asked for: " + r.failure()
	case r.Step == infrav1.ReasonRebooting:
		return "the Mac was rebooted; " + cmp.Or(r.Complaint, notReadyYet)
	case r.Restarted:
		return "the agent was restarted; " + cmp.Or(r.Complaint, notReadyYet)
	case r.Complaint != "":
		return "the agent is to be restarted over SSH: " + r.Complaint
	}
	return "the agent is to be restarted over SSH"
}

const notReadyYet = "its Node is not Ready yet"

func (r Remediation) exhausted() RemediationStep {
	message := "no step brought the Node back; the Machine's owner may replace it"
	switch {
	case r.Gone:
		message = "the vendor no longer has the server; the Machine's owner may replace it"
	case r.Lost:
		message = "the Machine's host is another's, or was freed; the Machine's owner may replace it"
	case r.Bringup.Pending && !r.Wanted:
		message = "the Mac does not become a Node, and its bootstrap mends nothing of that; the Machine's owner may replace it"
	case r.Complaint != "":
		message = "no step helped: " + r.Complaint + "; the Machine's owner may replace it"
	case r.Node == NodeReady, r.Bringup.Pending:
		message = "a person asked for another Machine; its owner may replace it"
	}
	return RemediationStep{Step: infrav1.ReasonExhausted, Since: r.Now, Reason: infrav1.ReasonExhausted, Message: message}
}

// givenUp leaves the Machine to its owner. Where that waits for it to be deleted, it is: as
// soon as that may be begun now, for the giving up may be long ago.
func (r Remediation) givenUp() RemediationStep {
	next := r.exhausted()
	switch {
	case !r.OnDelete:
		return next
	case r.Hindrance != "":
		next.Reason, next.Message = infrav1.ReasonDiagnosing, "the Machine is given up and not deleted yet: "+r.Hindrance
	case r.Bringup.Pending && !r.Wanted && r.Bringup.waits(r.Now) != "":
		next.Reason, next.Message = infrav1.ReasonDiagnosing, "the Machine is given up and not deleted: "+r.Bringup.waits(r.Now)
	case r.TooMany:
		next.Reason, next.Message = infrav1.ReasonDiagnosing, "the Machine is given up and not deleted yet: its health check finds too many Machines unhealthy, and does nothing"
	case r.Block.Reason != "" && !r.Gone && !r.Lost:
		next.Reason, next.Message = infrav1.ReasonHeld, r.Block.Reason+": "+r.Block.Message
	default:
		next.Delete = true
		next.Message = "the Machine is given up, and deleted: with the strategy OnDelete its MachineDeployment replaces no other of an earlier template"
	}
	return next
}

// WithoutSelf copies hosts for the storm guard of a host that goes on to its next
// step: that it was disturbed before must not hold up its own remediation.
func WithoutSelf(hosts []infrav1.ScalewayAppleSiliconHost, name string) []infrav1.ScalewayAppleSiliconHost {
	out := make([]infrav1.ScalewayAppleSiliconHost, len(hosts))
	for i := range hosts {
		out[i] = hosts[i]
		if hosts[i].Name == name {
			out[i].Spec.Record.DisturbedAt = nil
		}
	}
	return out
}
