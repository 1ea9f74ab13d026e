package pod

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Exit codes and reasons of a container status, as a kubelet has them.
const (
	codeLost        = 137 // 128 + SIGKILL: unknown ends count as kills
	codeKilled      = 137
	codeCrashed     = 1
	codeNotExecuted = 128
	reasonUnknown   = "ContainerStatusUnknown"
	reasonCompleted = "Completed"
	reasonError     = "Error"
	reasonStart     = "StartError"
	reasonConfig    = "CreateContainerConfigError"
	reasonNoAgent   = "GuestAgentMissing"
	reasonLimited   = "LicenseLimitReached"
	reasonSession   = "NoConsoleSession"
	reasonBackOff   = "CrashLoopBackOff"
)

// remains is what is left of an attempt whose machine runs no more.
type remains struct {
	Standing standing
	// Exit of the machine's process and what it means; nil: nobody wrote it down, for
	// the reason Why.
	Exit    *shim.Exit
	Outcome vm.Outcome
	Why     string
	// Report is the exit code that the guest left behind.
	Report *int32
}

// endOf puts what remains in the words of a container status: the end of the first
// command that failed, else that of the machine.
func endOf(p *corev1.Pod, r entry, m remains, now time.Time) end {
	s := m.Standing
	if e := s.End; e != nil && e.Outcome == shim.Exited && (e.Code != 0 || s.ID == mainID) {
		return endOfCommand(p, r, *e)
	}
	if e := s.End; e != nil && e.Outcome == shim.NotExecuted {
		return endOfCommand(p, r, *e)
	}
	e := endOfMachine(r, m, now)
	if m.Exit != nil && neverRan(p, r, m) {
		return e.unstarted(m.Outcome)
	}
	if s.ID != "" && !succeeded(s.End) {
		e = e.of(p, r, s.ID)
		if m.Exit != nil && m.Outcome.Kind == vm.ShutDown {
			e.Code, e.Reason = codeKilled, reasonError
			e.Message = "the guest shut itself down before the command ended"
		}
	}
	return e
}

// neverRan reports whether a machine that ended did so before anything of the Pod ran
// in it. Where the container is the machine, that is said by one that did not start,
// and soon enough that no guest can have booted.
func neverRan(p *corev1.Pod, r entry, m remains) bool {
	s := m.Standing
	switch {
	case s.ID == "":
		took := m.Exit.Ended.Sub(m.Exit.Started)
		return m.Outcome.Kind == vm.NotStarted && took >= 0 && took < settledAfter
	case r.hasBegun():
		return false
	case s.ID == setupID:
		return !succeeded(s.End)
	}
	return s.ID == commandIDs(p, false)[0] && !s.Begun
}

// unstarted is the end of a machine in which nothing ran.
func (e end) unstarted(o vm.Outcome) end {
	e.Unstarted, e.Code = true, codeNotExecuted
	switch {
	case o.Kind == vm.Limited:
		return e
	case o.Kind != vm.NotStarted:
		e.Message = "the VM ended before anything of the Pod ran in it: " + firstOf(o.Message, string(o.Kind))
	}
	if e.Reason = reasonRunError; o.NoSession {
		e.Reason = reasonSession
	}
	return e
}

// of is the end as that of the container which a command belongs to.
func (e end) of(p *corev1.Pod, r entry, id string) end {
	c, i := containerOf(p, id)
	if i < 0 {
		return e
	}
	e.Init, e.Machine = initID(i), r.machine()+"/"+c.Name
	if i < len(r.Inits) && !r.Inits[i].Begun.IsZero() {
		e.Started = r.Inits[i].Begun
	}
	return e
}

// endOfCommand is that of a container which is a command in the guest.
func endOfCommand(p *corev1.Pod, r entry, c shim.CommandEnd) end {
	e := end{Machine: r.machine(), Message: c.Message, Started: c.Begun, Finished: c.Ended}
	if c.Begun.IsZero() {
		e.Started = c.Ended
	}
	switch c.Outcome {
	case shim.Exited:
		e.Code, e.Reason = int32(c.Code), reasonError
		if c.Code == 0 {
			e.Reason = reasonCompleted
		}
	case shim.NotExecuted:
		e.Code, e.Reason = codeNotExecuted, reasonStart
		e.Message = notExecuted(p, c)
	case shim.Unreachable:
		e.Code, e.Reason = codeNotExecuted, reasonNoAgent
	default:
		e.Code, e.Reason = codeLost, reasonUnknown
	}
	if c.ID == setupID && c.Outcome != shim.Unreachable && c.Outcome != shim.Lost {
		// Nothing of the Pod has run, so that its restart policy has no say.
		e.Unstarted, e.Reason = true, reasonConfig
		e.Message = firstOf(c.Message, fmt.Sprintf("the volumes could not be mounted in the guest: exit code %d", c.Code))
	}
	return e.of(p, r, c.ID)
}

// notExecuted names what could not be run, as the Pod has it: what it is expanded to
// may hold a secret.
func notExecuted(p *corev1.Pod, end shim.CommandEnd) string {
	c, _ := containerOf(p, end.ID)
	argv := slices.Concat(c.Command, c.Args)
	if end.ID == setupID || len(argv) == 0 {
		return end.Message
	}
	where := ""
	if c.WorkingDir != "" {
		where = fmt.Sprintf(" in the directory %q", c.WorkingDir)
	}
	return fmt.Sprintf("the guest could not run %q%s: %s", argv[0], where, firstOf(end.Message, "it says no more"))
}

// endOfMachine: only a guest that shut itself down has succeeded, and it may say
// otherwise.
func endOfMachine(r entry, m remains, now time.Time) end {
	if m.Exit == nil {
		return lost(r, m.Why, now)
	}
	e := end{
		Code: codeCrashed, Reason: reasonError, Message: m.Outcome.Message,
		Machine: r.machine(), Started: startedAt(r, *m.Exit), Finished: m.Exit.Ended,
	}
	switch m.Outcome.Kind {
	case vm.ShutDown:
		e.Code, e.Reason = 0, reasonCompleted
		if m.Report != nil && *m.Report != 0 {
			e.Code, e.Reason = *m.Report, reasonError
		}
	case vm.Stopped:
		e.Code = codeKilled
	case vm.Killed:
		e.Code = int32(128 + m.Exit.Signal)
	case vm.Limited:
		e.Unstarted, e.Reason = true, reasonLimited
	case vm.NotStarted:
		e.Code = int32(max(1, m.Exit.Code))
		e.Message = fmt.Sprintf("the VM did not start: %s", m.Outcome.Message)
	}
	return e
}

func startedAt(r entry, exit shim.Exit) time.Time {
	switch {
	case !r.Begun.IsZero():
		return r.Begun
	case !r.Started.IsZero():
		return r.Started
	}
	return exit.Started
}

func lost(r entry, why string, now time.Time) end {
	started := r.Begun
	if started.IsZero() {
		started = r.Started
	}
	return end{Code: codeLost, Reason: reasonUnknown, Message: why, Machine: r.machine(), Started: started, Finished: now}
}
