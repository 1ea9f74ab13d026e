package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// view is what a worker has to say about its Pod.
type view struct {
	// Refused is set when the Pod never was accepted: then there is nothing else.
	Refused *refusal
	// Over is set when the Pod was ended for a reason of its own: a deadline, an
	// eviction.
	Over *refusal
	// Final is how the Pod ended; nil while it lives, or may be restarted.
	Final *end
	// Up: the machine runs.
	Up bool
	// Began: the main container began in some attempt.
	Began bool
	// Image is the one that runs, or ran last; empty: not known.
	Image   string
	ImageID string
	Main    state
	Inits   []state
}

type refusal struct{ Reason, Message string }

// state of one container: exactly one of Waiting, Running and Ended, and what went
// before.
type state struct {
	Waiting  *corev1.ContainerStateWaiting
	Running  *time.Time
	Ended    *end
	Last     *end
	Restarts int32
	ID       string
}

const reasonInitializing = "PodInitializing"

// viewOf is what the record says. The container whose turn it is waits for the
// given reason, those after it for their turn.
func viewOf(p *corev1.Pod, r entry, began bool, waiting corev1.ContainerStateWaiting) view {
	v := view{Up: r.Step == stepRunning, Began: began, Image: r.Image, ImageID: r.ImageID}
	turn := &waiting
	policy := p.Spec.RestartPolicy
	for i, c := range p.Spec.InitContainers {
		var l lived
		if i < len(r.Inits) {
			l = r.Inits[i]
		}
		var s state
		s, turn = stateOf(l, policy, turn)
		s.ID = containerID(r.machine(), c.Name)
		v.Inits = append(v.Inits, s)
	}
	v.Main, _ = stateOf(r.lived, corev1.RestartPolicyAlways, turn)
	v.Main.ID = containerID(r.machine(), "")
	return v
}

// stateOf returns how a container is, and what the next one waits for. The API takes
// no end of an init container back that its policy does not restart: it is shown
// until the container has ended again.
func stateOf(l lived, policy corev1.RestartPolicy, turn *corev1.ContainerStateWaiting) (state, *corev1.ContainerStateWaiting) {
	s := state{Last: l.Last, Restarts: l.Restarts}
	switch {
	case l.End != nil:
		s.Ended = l.End
		return s, turn
	case l.Last != nil && !restarts(policy, *l.Last):
		s.Ended = l.Last
		return s, turn
	case !l.Begun.IsZero():
		s.Running = &l.Begun
	default:
		s.Waiting = turn
	}
	return s, &corev1.ContainerStateWaiting{Reason: reasonInitializing}
}

// backingOff shows the container that ended as waiting for its restart.
func (v *view) backingOff(e end, waiting corev1.ContainerStateWaiting) {
	for _, s := range v.all() {
		if s.Ended != nil && s.Ended.Init == e.Init && s.Ended.Finished.Equal(e.Finished) && s.Ended.Machine == e.Machine {
			s.Waiting, s.Last, s.Ended = &waiting, s.Ended, nil
		}
	}
}

func (v *view) all() []*state {
	list := make([]*state, 0, len(v.Inits)+1)
	for i := range v.Inits {
		list = append(list, &v.Inits[i])
	}
	return append(list, &v.Main)
}

const containerIDPrefix = "tart://"

// containerID of the main container is that of its machine.
func containerID(machine, container string) string {
	if machine == "" {
		return ""
	}
	if container != "" {
		return containerIDPrefix + machine + "/" + container
	}
	return containerIDPrefix + machine
}
