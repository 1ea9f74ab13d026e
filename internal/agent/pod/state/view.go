package state

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// View is what a worker has to say about its Pod.
type View struct {
	// Refused is set when the Pod never was accepted: then there is nothing else.
	Refused *Failure
	// Failed is set when the Pod was ended for a reason of its own: a deadline, an
	// eviction.
	Failed *Failure
	// Disrupted: the Pod failed because of its Mac, and not by itself.
	Disrupted bool
	// Final is how the Pod ended; nil while it lives, or may be restarted.
	Final *Exit
	// Up: the VM runs.
	Up bool
	// Resized: the Pod asks for other resources than it was given.
	Resized bool
	// MainRan: the main container began in some attempt.
	MainRan bool
	// Image is the one that runs, or ran last; empty: not known.
	Image   string
	ImageID string
	Main    ContainerState
	Inits   []ContainerState
}

// disruption is why the Mac ended the Pod; empty: it did not.
func (v View) disruption() string {
	switch {
	case !v.Disrupted:
		return ""
	case v.Failed != nil:
		return v.Failed.Message
	case v.Final != nil:
		return cmp.Or(v.Final.Message, v.Final.Reason)
	}
	return ""
}

// Failure is why a Pod has failed as a whole: its status.reason and status.message.
type Failure struct{ Reason, Message string }

// NotEnough is a kubelet's message: bytes, or thousandths of CPUs.
func NotEnough(name corev1.ResourceName, wanted, used, capacity int64) string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, wanted, used, capacity)
}

// ContainerState of one container: exactly one of Waiting, Running and Exit, and the exit
// before it.
type ContainerState struct {
	Waiting  *corev1.ContainerStateWaiting
	Running  *time.Time
	Exit     *Exit
	LastExit *Exit
	Restarts int32
	ID       string
	// Probed is what probes say of the container while it runs; nil: it has none, and is
	// started and ready.
	Probed *Probed
}

// Probed is what the probes of a container say.
type Probed struct{ Started, Ready bool }

// started and ready report what the status of a container says by these names.
func (s ContainerState) started() bool {
	return s.Running != nil && (s.Probed == nil || s.Probed.Started)
}

func (s ContainerState) ready() bool {
	return s.Running != nil && (s.Probed == nil || s.Probed.Started && s.Probed.Ready)
}

// InitialReason is the reason of a container that waits for nothing special.
func InitialReason(p *corev1.Pod) string {
	if len(p.Spec.InitContainers) > 0 {
		return ReasonInitializing
	}
	return "ContainerCreating"
}

// ReasonInitializing is the reason of a container that waits for others before it.
const ReasonInitializing = "PodInitializing"

// ViewOf is what the record says. The container whose turn it is waits for the
// given reason, those after it for their turn.
func ViewOf(p *corev1.Pod, r Record, began bool, waiting corev1.ContainerStateWaiting) View {
	v := View{Up: r.Step == StepRunning, MainRan: began, Image: r.Image, ImageID: r.ImageID}
	turn := &waiting
	policy := p.Spec.RestartPolicy
	for i, c := range p.Spec.InitContainers {
		var l ContainerRecord
		if i < len(r.Inits) {
			l = r.Inits[i]
		}
		var s ContainerState
		s, turn = stateOf(l, policy, turn)
		s.ID = containerID(r.VMName(), c.Name)
		v.Inits = append(v.Inits, s)
	}
	v.Main, _ = stateOf(r.ContainerRecord, corev1.RestartPolicyAlways, turn)
	v.Main.ID = containerID(r.VMName(), "")
	return v
}

// stateOf returns how a container is, and what the next one waits for. The API takes
// no end of an init container back that its policy does not restart: it is shown
// until the container has ended again.
func stateOf(l ContainerRecord, policy corev1.RestartPolicy, turn *corev1.ContainerStateWaiting) (ContainerState, *corev1.ContainerStateWaiting) {
	s := ContainerState{LastExit: l.LastExit, Restarts: l.Restarts}
	switch {
	case l.Exit != nil:
		s.Exit = l.Exit
		return s, turn
	case l.LastExit != nil && !ShouldRestart(policy, *l.LastExit):
		s.Exit = l.LastExit
		return s, turn
	case !l.Begun.IsZero():
		s.Running = &l.Begun
	default:
		s.Waiting = turn
	}
	return s, &corev1.ContainerStateWaiting{Reason: ReasonInitializing}
}

// BackingOff shows the container that ended as waiting for its restart.
func (v *View) BackingOff(e Exit, waiting corev1.ContainerStateWaiting) {
	for _, s := range v.Containers() {
		if s.Exit != nil && s.Exit.Init == e.Init && s.Exit.Finished.Equal(e.Finished) && s.Exit.VM == e.VM {
			s.Waiting, s.LastExit, s.Exit = &waiting, s.Exit, nil
		}
	}
}

// Containers are the init containers and, last, the main one.
func (v *View) Containers() []*ContainerState {
	list := make([]*ContainerState, 0, len(v.Inits)+1)
	for i := range v.Inits {
		list = append(list, &v.Inits[i])
	}
	return append(list, &v.Main)
}

const containerIDPrefix = "tart://"

// containerID of the main container is that of its VM.
func containerID(machine, container string) string {
	if machine == "" {
		return ""
	}
	if container != "" {
		return containerIDPrefix + machine + "/" + container
	}
	return containerIDPrefix + machine
}
