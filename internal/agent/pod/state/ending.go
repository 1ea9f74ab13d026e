package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// PreStopID is the command of the preStop hook of the only command of the main container. It
// is none of the attempt's own.
const PreStopID = "prestop"

// PreStopOf is the command of the preStop hook of the container whose command is id.
func PreStopOf(id string) string {
	if id == MainID {
		return PreStopID
	}
	return PreStopID + "-" + id
}

// PostStartOf is the command of the postStart hook of the container whose command is id.
func PostStartOf(id string) string { return "poststart-" + id }

// Ending is how far the end of a command has come that has a grace period.
type Ending struct {
	// Since is when it began, by this host's clock.
	Since time.Time `json:"since"`
	// ContainerOnly: its Pod was to live on, for a probe that failed or another image. The
	// next agent, which does not know why, decides anew.
	ContainerOnly bool `json:"containerOnly,omitempty"`
	// Told is what the only command was told, Others what each of several was, by its ID.
	Told
	Others map[string]Told `json:"others,omitempty"`
}

// Told is what a command was told of its end.
type Told struct {
	// Hooked: the preStop hook is done. Signaled: the command was told to end.
	Hooked   bool `json:"hooked,omitempty"`
	Signaled bool `json:"signaled,omitempty"`
}

// Of is what the command of a container was told.
func (e Ending) Of(id string) Told {
	if told, found := e.Others[id]; found {
		return told
	}
	return e.Told
}

// Note sets what a command was told: the only one, or one of several.
func (e *Ending) Note(id string, several bool, told Told) {
	if !several {
		e.Told = told
		return
	}
	if e.Others == nil {
		e.Others = map[string]Told{}
	}
	e.Others[id] = told
}

const (
	// stopPart of a grace is left for the guest to go down in, between these bounds.
	stopPart            = 10
	stopLeast, stopMost = 500 * time.Millisecond, 10 * time.Second
	// TermLeast is what a command has to end by itself once it was told to, though the grace is over: a kubelet's least.
	TermLeast = 2 * time.Second
)

// StopMargin is what of a whole grace is left for the guest after its command.
func StopMargin(whole time.Duration) time.Duration {
	return min(stopMost, max(stopLeast, whole/stopPart))
}

// CommandToEnd is the container's command that runs now, of those one after the other; empty:
// none does.
func (s CommandProgress) CommandToEnd() string {
	if s.ID == SetupID || !s.Begun || s.Exit != nil {
		return ""
	}
	return s.ID
}

// PreStop is the hook of a container; nil: it has none.
func PreStop(c corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PreStop
}
