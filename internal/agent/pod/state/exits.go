package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/volume"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Exit codes and reasons of a container status, as a kubelet has them.
const (
	codeLost        = 137 // 128 + SIGKILL: unknown exits count as kills
	CodeKilled      = 137
	codeCrashed     = 1
	codeNotExecuted = 128

	ReasonUnknown   = "ContainerStatusUnknown"
	ReasonCompleted = "Completed"
	reasonError     = "Error"
	ReasonStart     = "StartError"
	ReasonConfig    = "CreateContainerConfigError"
	ReasonRunError  = "RunContainerError"
	ReasonBackOff   = "CrashLoopBackOff"
)

// Reasons that only this agent has.
const (
	ReasonNoAgent   = "GuestAgentMissing"
	ReasonLimited   = "LicenseLimitReached"
	ReasonSession   = "NoConsoleSession"
	ReasonNotProved = "FirewallNotProved"
	// ReasonUnsupported is that of what is asked for and a VM cannot honour.
	ReasonUnsupported = "UnsupportedField"
	// ReasonEvicted is that of a Pod that its Mac has no room for.
	ReasonEvicted = "Evicted"
)

// StartedAfter is how long a VM runs before its start counts as one that macOS
// allowed: a start that is refused holds the lock for a second or two.
const StartedAfter = 10 * time.Second

// ExitEvidence is what is left of an attempt whose VM runs no more.
type ExitEvidence struct {
	Progress CommandProgress
	// Exit of the VM's process and what it means; nil: nobody wrote it down, for
	// the reason Why.
	Exit    *shim.Exit
	Outcome vm.Outcome
	Why     string
	// BootSession of the host now.
	BootSession string
	// Report is the exit code that the guest left behind.
	Report *int32
}

// ExitOf puts what remains in the words of a container status: the end of the first
// command that failed, else that of the VM.
func ExitOf(p *corev1.Pod, r Record, m ExitEvidence, now time.Time) Exit {
	s := m.Progress
	if e, over := Decided(p, r); over {
		return e
	}
	if e := s.Exit; e != nil && e.Outcome == shim.Exited && (e.Code != 0 || s.ID == MainID) {
		return CommandExit(p, r, *e)
	}
	if e := s.Exit; e != nil && e.Outcome == shim.NotExecuted {
		return CommandExit(p, r, *e)
	}
	e := vmExit(r, m, now)
	if m.Exit != nil && nothingRan(p, r, m) {
		return e.unstarted(m.Outcome)
	}
	if s.ID != "" && !Succeeded(s.Exit) {
		e = e.ofContainer(p, r, s.ID)
		if m.Exit != nil && m.Outcome.Kind == vm.ShutDown {
			e.Code, e.Reason = CodeKilled, reasonError
			e.Message = "the guest shut itself down before the command ended"
		}
	}
	return e
}

// nothingRan reports whether a VM that ended did so before anything of the Pod ran
// in it. Where the container is the VM, that is said by one that did not start,
// and soon enough that no guest can have booted.
func nothingRan(p *corev1.Pod, r Record, m ExitEvidence) bool {
	s := m.Progress
	switch {
	case s.ID == "":
		took := m.Exit.Ended.Sub(m.Exit.Started)
		return m.Outcome.Kind == vm.NotStarted && took >= 0 && took < StartedAfter
	case r.hasBegun():
		return false
	case s.ID == SetupID:
		return !Succeeded(s.Exit)
	}
	_, at := ContainerOf(p, s.ID)
	return !s.Begun && (Several(p) || at == places(p)[0])
}

// unstarted is the end of a VM in which nothing ran.
func (e Exit) unstarted(o vm.Outcome) Exit {
	e.Unstarted, e.Code = true, codeNotExecuted
	switch {
	case o.Kind == vm.Limited:
		return e
	case o.Kind != vm.NotStarted:
		e.Message = "the VM ended before anything of the Pod ran in it: " + cmp.Or(o.Message, string(o.Kind))
	}
	if e.Reason = ReasonRunError; o.NoSession {
		e.Reason = ReasonSession
	}
	return e
}

// ofContainer is the end as that of the container which a command belongs to.
func (e Exit) ofContainer(p *corev1.Pod, r Record, id string) Exit {
	c, at := ContainerOf(p, id)
	if _, n, _ := placeOf(p, id); n > 0 || !at.isMain() {
		e.Of, e.VM = at.Command(n), runName(r.VMName(), c.Name, n)
	}
	if begun := r.Container(at).Begun; !begun.IsZero() && e.Of != "" {
		e.Started = begun
	}
	return e
}

// beside is the end of a container that ran beside the one whose end this is, and ended with
// the VM.
func (e Exit) beside() Exit {
	own := Exit{Code: CodeKilled, Reason: reasonError, Message: "its VM ended", Replaced: e.Replaced, VM: e.VM, Started: e.Started, Finished: e.Finished}
	if e.Disrupted() {
		own.Reason, own.Message = e.Reason, e.Message
	}
	return own
}

// CommandExit is that of a container which is a command in the guest.
func CommandExit(p *corev1.Pod, r Record, c shim.CommandEnd) Exit {
	e := Exit{VM: r.VMName(), Message: c.Message, Started: c.Begun, Finished: c.Ended}
	if c.Begun.IsZero() {
		e.Started = c.Ended
	}
	switch c.Outcome {
	case shim.Exited:
		e.Code, e.Reason = int32(c.Code), reasonError
		if c.Code == 0 {
			e.Reason = ReasonCompleted
		}
	case shim.NotExecuted:
		e.Code, e.Reason = codeNotExecuted, ReasonStart
		e.Message = notExecutedMessage(p, c)
	case shim.Unreachable:
		e.Code, e.Reason = codeNotExecuted, ReasonNoAgent
	default:
		e.Code, e.Reason = codeLost, ReasonUnknown
	}
	if c.ID == SetupID && c.Outcome != shim.Unreachable && c.Outcome != shim.Lost {
		e = e.notMounted(c)
	}
	return e.ofContainer(p, r, c.ID)
}

// notMounted is the end of an attempt in which nothing of the Pod has run, so that its
// restart policy has no say; unless no other attempt would come further: that is the end of
// a container that cannot start.
func (e Exit) notMounted(c shim.CommandEnd) Exit {
	e.Message = cmp.Or(c.Message, fmt.Sprintf("the volumes could not be mounted in the guest: exit code %d", c.Code))
	if c.Outcome == shim.Exited && c.Code == volume.NeverMounted {
		e.Code, e.Reason = codeNotExecuted, ReasonStart
		return e
	}
	e.Unstarted, e.Reason = true, ReasonConfig
	return e
}

// notExecutedMessage names what could not be run, as the Pod has it: what it is expanded to
// may hold a secret.
func notExecutedMessage(p *corev1.Pod, end shim.CommandEnd) string {
	c, _ := ContainerOf(p, end.ID)
	argv := slices.Concat(c.Command, c.Args)
	if end.ID == SetupID || len(argv) == 0 {
		return end.Message
	}
	where := ""
	if c.WorkingDir != "" {
		where = fmt.Sprintf(" in the directory %q", c.WorkingDir)
	}
	return fmt.Sprintf("the guest could not run %q%s: %s", argv[0], where, cmp.Or(end.Message, "it says no more"))
}

// vmExit: only a guest that shut itself down has succeeded, and it may say
// otherwise.
func vmExit(r Record, m ExitEvidence, now time.Time) Exit {
	if m.Exit == nil {
		return lostExit(r, m.Why, now)
	}
	if m.Outcome.Kind == vm.Killed && r.BootSession != m.BootSession {
		// A Mac that goes down tells all processes to end before it kills them.
		return lostExit(r, whyRebooted, m.Exit.Ended)
	}
	e := Exit{
		Code: codeCrashed, Reason: reasonError, Message: m.Outcome.Message,
		VM: r.VMName(), Started: startOf(r, *m.Exit), Finished: m.Exit.Ended,
	}
	switch m.Outcome.Kind {
	case vm.ShutDown:
		e.Code, e.Reason = 0, ReasonCompleted
		if m.Report != nil && *m.Report != 0 {
			e.Code, e.Reason = *m.Report, reasonError
		}
	case vm.Stopped:
		e.Code = CodeKilled
	case vm.Killed:
		e.Code = int32(128 + m.Exit.Signal)
	case vm.Limited:
		e.Unstarted, e.Reason = true, ReasonLimited
	case vm.NotStarted:
		e.Code = int32(max(1, m.Exit.Code))
		e.Message = fmt.Sprintf("the VM did not start: %s", m.Outcome.Message)
	}
	return e
}

func startOf(r Record, exit shim.Exit) time.Time {
	switch {
	case !r.Begun.IsZero():
		return r.Begun
	case !r.Started.IsZero():
		return r.Started
	}
	return exit.Started
}

// lostExit is the exit of a VM of which nobody knows more.
func lostExit(r Record, why string, now time.Time) Exit {
	started := r.Begun
	if started.IsZero() {
		started = r.Started
	}
	return Exit{Code: codeLost, Reason: ReasonUnknown, Message: why, VM: r.VMName(), Started: started, Finished: now}
}

// LostCommand is the exit of a command of which nobody knows more.
func LostCommand(p *corev1.Pod, r Record, id, why string, now time.Time) Exit {
	return lostExit(r, why, now).ofContainer(p, r, id)
}
