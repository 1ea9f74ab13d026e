package pod

import (
	"fmt"
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
	if s.ID != "" && !succeeded(s.End) {
		e = e.of(p, r, s.ID)
		if m.Exit != nil && m.Outcome.Kind == vm.ShutDown {
			e.Code, e.Reason = codeKilled, reasonError
			e.Message = "the guest shut itself down before the command ended"
		}
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
	case shim.Unreachable:
		e.Code, e.Reason = codeCrashed, reasonNoAgent
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
