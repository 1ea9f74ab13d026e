package pod

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/probe"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
)

// probing runs the probes of the container whose command runs in the guest.
type probing struct {
	// agent is the context of the agent: readiness is probed until the container has ended,
	// which outlasts the Pod's life where that ends with a deletion.
	agent context.Context
	// life is the Pod's: with it end the other probes.
	life     context.Context
	pod      *object
	progress *progress
	report   *reporter
	inputs   *podInputs
	runtime  *vmruntime.Runtime
	metrics  *probe.Metrics
	clock    clock.Clock
	log      *slog.Logger

	// cancel and running are those of the attempt's probes. Only the worker's own goroutine
	// touches cancel.
	cancel  context.CancelFunc
	running sync.WaitGroup
	failed  chan *containerFailedError
}

func newProbing(agent context.Context, w *worker, metrics *probe.Metrics) *probing {
	return &probing{
		agent: agent, life: w.life, pod: w.pod, progress: w.progress, report: w.report, inputs: w.inputs, runtime: w.runtime, metrics: metrics,
		clock: w.clock, log: w.log, failed: make(chan *containerFailedError, 1),
	}
}

// begin probes the container that a command is, which began at a time, until stop.
func (g *probing) begin(id string, at time.Time) {
	p := g.pod.current()
	c, i := state.ContainerOf(p, id)
	if i >= 0 || !probe.Any(c) || g.cancel != nil {
		return
	}
	containerID := state.MainContainerID(g.progress.Record)
	ctx, cancel := context.WithCancel(g.agent)
	g.cancel = cancel
	before := g.report.probed.begin(c, containerID)
	o := probe.Options{
		Container: c, Begun: at, Status: probe.Status(before),
		Guest:       guestAccess{shims: g.runtime.Shims, dir: g.progress.dir(), pod: g.pod, inputs: g.inputs, container: c.Name},
		Clock:       g.clock,
		Terminating: g.life.Done(),
		Changed: func(s probe.Status) {
			g.log.Info("probes have decided", "container", c.Name, "started", s.Started, "ready", s.Ready)
			g.report.probed.set(containerID, state.Probed(s))
			g.report.show(nil)
		},
		Failed:  func(kind probe.Kind) { g.fail(p, c, kind) },
		Event:   g.report.event,
		Metrics: g.metrics,
		Labels:  probe.Labels{Container: c.Name, Pod: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
	}
	g.running.Go(func() { probe.Run(ctx, o) })
}

// fail says that a container is to be killed for a probe. The first one counts.
func (g *probing) fail(p *corev1.Pod, c corev1.Container, kind probe.Kind) {
	select {
	case g.failed <- unhealthy(p, c, kind):
	default:
	}
}

// awaitFailure returns that a probe wants the container killed, or nil with ctx.
func (g *probing) awaitFailure(ctx context.Context) error {
	select {
	case failed := <-g.failed:
		return failed
	case <-ctx.Done():
		return nil
	}
}

// stop ends the probes of an attempt, whose container has ended.
func (g *probing) stop() {
	if g.cancel == nil {
		return
	}
	g.cancel()
	g.cancel = nil
	g.running.Wait()
	select {
	case <-g.failed: //nolint:errcheck // of a container that is gone
	default:
	}
}

// end ends all that is known of the Pod's probes.
func (g *probing) end() {
	g.stop()
	g.metrics.Forget(string(g.pod.uid))
}

// probeResults are what probes have found of the Pod's containers. Any goroutine may ask.
type probeResults struct {
	mu sync.Mutex
	// known by the container's ID, of containers that run or ran last.
	known map[string]state.Probed
}

func newProbeResults(p *corev1.Pod) *probeResults {
	return &probeResults{known: state.ProbedBefore(p.Status.ContainerStatuses)}
}

// of is what probes say of one run of a container; nil: it has none that say anything. Of
// one that is the VM, whether its guest agent answers is the probe.
func (r *probeResults) of(c corev1.Container, id string) *state.Probed {
	if state.IsCommand(c) && c.StartupProbe == nil && c.ReadinessProbe == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.find(c, id)
	return &found
}

// find is what is known of one run, at first: nothing.
func (r *probeResults) find(c corev1.Container, id string) state.Probed {
	if found, known := r.known[id]; known {
		return found
	}
	if !state.IsCommand(c) {
		return state.Probed{Started: true}
	}
	return state.Probed(probe.Initial(c))
}

func (r *probeResults) isReady(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[id].Ready
}

// begin forgets other runs of the container, and returns what is known of this one.
func (r *probeResults) begin(c corev1.Container, id string) state.Probed {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.find(c, id)
	r.known = map[string]state.Probed{id: found}
	return found
}

func (r *probeResults) set(id string, found state.Probed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[id] = found
}

// unhealthy is why a container is killed whose probe has failed.
func unhealthy(p *corev1.Pod, c corev1.Container, kind probe.Kind) *containerFailedError {
	word := map[probe.Kind]string{probe.Liveness: "liveness", probe.Startup: "startup"}[kind]
	message := fmt.Sprintf("Container %s failed %s probe", c.Name, word)
	if p.Spec.RestartPolicy != corev1.RestartPolicyNever {
		message += ", will be restarted"
	}
	return &containerFailedError{message: message, grace: state.KillGrace(p, probe.Grace(c, kind)), unhealthy: true}
}
