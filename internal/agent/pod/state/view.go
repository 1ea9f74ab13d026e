package state

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
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
	// Failing: the Pod is ended for a reason of its own, and its containers have their grace.
	Failing bool
	// Disrupted: the Pod failed because of its Mac, and not by itself.
	Disrupted bool
	// Final is how the Pod ended; nil while it lives, or may be restarted.
	Final *Exit
	// Up: the VM runs.
	Up bool
	// Resized: the Pod asks for other resources than it was given.
	Resized bool
	// MainRan: each container that is none for initialization began in some attempt.
	MainRan bool
	// Image is the one that runs, or ran last; empty: not known.
	Image   string
	ImageID string
	Main    ContainerState
	// Others are the containers beside the main one.
	Inits, Others []ContainerState
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
	v.Inits, v.Others = make([]ContainerState, len(p.Spec.InitContainers)), make([]ContainerState, max(0, len(p.Spec.Containers)-1))
	r.Fit(p)
	turn := &waiting
	for _, at := range places(p) {
		s, next := stateOf(p, r, at, turn)
		s.ID = ContainerID(p, r, at)
		*v.at(at) = s
		if at.Init {
			turn = next
		}
	}
	return v
}

// stateOf returns how a container is, and what the next one waits for. The API takes
// no end of a container back that its policy does not restart: it is shown until the
// container has ended again.
func stateOf(p *corev1.Pod, r Record, at Place, turn *corev1.ContainerStateWaiting) (ContainerState, *corev1.ContainerStateWaiting) {
	l, policy := *r.Container(at), at.PolicyOf(p)
	s := ContainerState{LastExit: l.LastExit, Restarts: l.Restarts}
	switch {
	case l.backsOff(p, r, at):
		delay, _ := r.WaitsFor(p, at)
		s.Waiting = &corev1.ContainerStateWaiting{Reason: ReasonBackOff, Message: BackOffMessage(p, at.In(p).Name, delay)}
		s.LastExit = l.Exit
		return s, turn
	case l.Exit != nil:
		s.Exit = l.Exit
		return s, turn
	case l.LastExit != nil && !ShouldRestart(policy, *l.LastExit) && at.Init:
		s.Exit = l.LastExit
		return s, turn
	case !l.Begun.IsZero():
		s.Running = &l.Begun
	default:
		s.Waiting = turn
	}
	if at.IsSidecar(p) && s.Running != nil {
		return s, turn
	}
	return s, &corev1.ContainerStateWaiting{Reason: ReasonInitializing}
}

// backsOff reports that a container has ended whose command waits until it runs again in the
// same guest. What could not be taken back is never shown.
func (l ContainerRecord) backsOff(p *corev1.Pod, r Record, at Place) bool {
	if l.Exit == nil || !Several(p) || at.Init && !at.IsSidecar(p) || l.done(at.PolicyOf(p)) {
		return false
	}
	if l.Exit.RestartedAsSuccess(at.PolicyOf(p)) {
		return true
	}
	// A sidecar runs again whatever the Pod's policy is, by which the API goes.
	return r.Step == StepRunning && (restartDelay(l.Ends) > 0 || !ShouldRestart(p.Spec.RestartPolicy, *l.Exit))
}

// BackingOff shows what ended with the attempt as waiting for its restart.
func (v *View) BackingOff(e Exit, waiting corev1.ContainerStateWaiting) {
	for _, s := range v.Containers() {
		if s.Exit != nil && s.Exit.Of == e.Of && s.Exit.Finished.Equal(e.Finished) && s.Exit.VM == e.VM {
			s.Waiting, s.LastExit, s.Exit = &waiting, s.Exit, nil
		}
	}
}

// at is the state of the container at a place, for which there must be room.
func (v *View) at(a Place) *ContainerState {
	switch {
	case a.Init:
		return &v.Inits[a.Index]
	case a.Index > 0:
		return &v.Others[a.Index-1]
	}
	return &v.Main
}

// Containers are the states of all, in the order in which they begin.
func (v *View) Containers() []*ContainerState {
	list := make([]*ContainerState, 0, len(v.Inits)+1+len(v.Others))
	for i := range v.Inits {
		list = append(list, &v.Inits[i])
	}
	return append(list, v.mains()...)
}

// mains are the states of spec.containers.
func (v *View) mains() []*ContainerState {
	list := []*ContainerState{&v.Main}
	for i := range v.Others {
		list = append(list, &v.Others[i])
	}
	return list
}

// Probe lays over each container that probes can say something of what of finds.
func (v *View) Probe(p *corev1.Pod, of func(c corev1.Container, id string) *Probed) {
	for i, s := range v.mains() {
		s.Probed = of(p.Spec.Containers[i], s.ID)
	}
	for _, at := range Sidecars(p) {
		if at.Index < len(v.Inits) {
			v.Inits[at.Index].Probed = of(at.In(p), v.Inits[at.Index].ID)
		}
	}
}

const containerIDPrefix = "tart://"

// containerID is made of the name of a VM, and of what names a container other than the main
// one there.
func containerID(name string) string {
	if name == "" {
		return ""
	}
	return containerIDPrefix + name
}

// runName names the n-th run of a container in a VM.
func runName(vm, container string, n int) string {
	if n > 0 {
		return vm + "/" + container + "/" + strconv.Itoa(n)
	}
	return vm + "/" + container
}

// runOf is the n of a container ID.
func runOf(id string) int {
	parts := strings.Split(strings.TrimPrefix(id, containerIDPrefix), "/")
	if len(parts) < 3 { // VM, container, run
		return 0
	}
	n, _ := strconv.Atoi(parts[2])
	return n
}
