package pod

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/status"
)

// reporter tells the cluster of one Pod: by its status and by events.
type reporter struct {
	pod       *object
	progress  *progress
	writer    *status.Writer
	events    record.EventRecorder
	invariant state.Invariant
	probed    *probeResults
	clock     clock.Clock

	mu sync.Mutex
	// shown is what was published last.
	shown *state.View
}

// show publishes a view; nil: the last one again, for a Pod that changed.
func (r *reporter) show(v *state.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v == nil {
		v = r.shown
	}
	if r.shown = v; v != nil {
		v.Resized = r.pod.resized() != nil
		v.Probe(r.pod.current(), r.probed.of)
		r.writer.Set(state.Render(r.pod.current(), r.invariant, *v, r.writer.Conditions(), r.clock.Now()))
	}
}

// failing tells of a Pod that is ended for a reason of its own. It is not ready, though its
// containers run until their grace is over.
func (r *reporter) failing(cause error) {
	var failed *podFailedError
	if !errors.As(cause, &failed) {
		return
	}
	r.mu.Lock()
	if r.shown != nil {
		r.shown.Failing = true
	}
	r.mu.Unlock()
	r.show(nil)
	if failed.Reason == reasonDeadline {
		r.event(corev1.EventTypeNormal, reasonDeadline, failed.Message)
	}
}

// killing tells of the containers of commands that they are ended with their Pod.
func (r *reporter) killing(groups [][]string) {
	for _, id := range slices.Concat(groups...) {
		c, _ := state.ContainerOf(r.pod.current(), id)
		r.containerEvent(id, corev1.EventTypeNormal, "Killing", "Stopping container "+c.Name)
	}
}

// showEphemeral publishes the ends of ephemeral containers alone, of a Pod that an agent
// before this one saw end: nothing else is known of it.
func (r *reporter) showEphemeral() {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pod.current()
	if r.shown != nil || !state.HasEnded(p) || len(p.Spec.EphemeralContainers) == 0 {
		return
	}
	s := r.writer.Current()
	s.Conditions = nil // they stay as they are
	s.ObservedGeneration, s.EphemeralContainerStatuses = p.Generation, state.EphemeralStatuses(p, metav1.NewTime(r.clock.Now()))
	r.writer.Set(s)
}

// view is what the record says while the container whose turn it is waits.
func (r *reporter) view(reason, message string) *state.View {
	r.progress.publish()
	known, ran := r.progress.seen()
	v := state.ViewOf(r.pod.current(), known, ran, corev1.ContainerStateWaiting{Reason: reason, Message: message})
	return &v
}

// showProgress publishes what the record says of an attempt that goes on.
func (r *reporter) showProgress() {
	message := ""
	if r.progress.Step == state.StepRunning {
		message = "the guest boots; its agent has not answered yet"
	}
	r.showWaiting(state.InitialReason(r.pod.current()), message)
}

// showWaiting publishes why the container whose turn it is does not run.
func (r *reporter) showWaiting(reason, message string) { r.show(r.view(reason, message)) }

// unwritten tells what cannot be written down: nothing goes on without its record. What
// ends or has ended shows that instead.
func (r *reporter) unwritten(err error) {
	r.event(corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
	if r.progress.Step != state.StepEnded && r.progress.Ending == nil {
		r.showWaiting(state.ReasonRunError, err.Error())
	}
}

// showBackOff publishes that the container that ended waits for its restart. It says what a
// kubelet says, and before it why nothing ran where only this agent knows such a reason.
func (r *reporter) showBackOff(e state.Exit, delay time.Duration, reason string) {
	p := r.pod.current()
	c, _ := state.ContainerOf(p, e.CommandOf())
	message, event := state.BackOffMessage(p, c.Name, delay), state.BackOffEvent(p, c.Name)
	if reason != state.ReasonBackOff {
		why := cmp.Or(e.Message, e.Reason)
		message, event = why+": "+message, event+": "+why
	}
	// Before it is shown: who sees that it backs off finds the event.
	r.containerEvent(e.CommandOf(), corev1.EventTypeWarning, "BackOff", event)
	v := r.view(reason, message)
	v.BackingOff(e, corev1.ContainerStateWaiting{Reason: reason, Message: message})
	r.show(v)
}

// showsLicenseLimit reports that the license refused the attempt before.
func (r *reporter) showsLicenseLimit() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown != nil && slices.ContainsFunc(r.shown.Containers(), func(s *state.ContainerState) bool {
		return s.Waiting != nil && s.Waiting.Reason == state.ReasonLimited
	})
}

// event is about the Pod, or its main container where a kubelet says so of containers.
func (r *reporter) event(kind, reason, message string) {
	switch reason {
	case "Pulling", "Pulled", "Created", "Started", "Killing", "BackOff", "Failed", reasonNeverPull:
		r.containerEvent(state.MainID, kind, reason, message)
		return
	}
	r.events.Event(r.pod.current(), kind, reason, message)
}

// hookFellBack tells that a hook's request went without TLS.
func (r *reporter) hookFellBack(hook string) func(host string) {
	return func(host string) {
		r.event(corev1.EventTypeWarning, "LifecycleHTTPFallback", "The "+hook+" hook's request to "+host+" by HTTPS was answered by HTTP, and was sent again without TLS")
	}
}

// containerEvent is about the container of a command.
func (r *reporter) containerEvent(id, kind, reason, message string) {
	p := r.pod.current()
	r.events.Event(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		ResourceVersion: p.ResourceVersion, FieldPath: state.FieldPath(p, id),
	}, kind, reason, message)
}
