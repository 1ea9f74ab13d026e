package pod

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/probe"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
)

// probing runs the probes of the containers whose commands run in the guest.
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

	// failed wants the VM ended with its only container.
	failed chan *containerFailedError

	mu sync.Mutex
	// running ends the probes of a container, by the ID of its command.
	running map[string]func()
}

func newProbing(agent context.Context, w *worker, metrics *probe.Metrics) *probing {
	return &probing{
		agent: agent, life: w.life, pod: w.pod, progress: w.progress, report: w.report, inputs: w.inputs, runtime: w.runtime, metrics: metrics,
		clock: w.clock, log: w.log, failed: make(chan *containerFailedError, 1), running: map[string]func(){},
	}
}

// begin probes the container that a command is, which began at a time, until stop. fail is
// told that it is to be killed, started that its startup probe has succeeded.
func (g *probing) begin(id string, at time.Time, fail func(*containerFailedError), started func()) {
	p := g.pod.current()
	c, place := state.ContainerOf(p, id)
	if c.StartupProbe == nil {
		started()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if place.Init && !place.IsSidecar(p) || !probe.Any(c) || g.running[id] != nil {
		return
	}
	containerID, dir := state.ContainerID(p, g.progress.record(), place), g.progress.dir()
	before := g.report.probed.begin(c, containerID)
	if before.Started {
		started()
	}
	g.run(id, probe.Options{
		Container: c, Begun: at, Status: probe.Status(before),
		Guest:       guestAccess{shims: g.runtime.Shims, dir: dir, pod: g.pod, inputs: g.inputs, container: c.Name},
		Clock:       g.clock,
		Terminating: g.life.Done(),
		Running:     func() bool { return g.runs(dir, id) },
		Changed: func(s probe.Status) {
			g.log.Info("probes have decided", "container", c.Name, "started", s.Started, "ready", s.Ready)
			g.report.probed.set(c, containerID, state.Probed(s))
			g.report.show(nil)
			if s.Started {
				started()
			}
		},
		Failed:  func(kind probe.Kind) { fail(unhealthy(place.PolicyOf(p), p, c, kind)) },
		Event:   func(kind, reason, message string) { g.report.containerEvent(id, kind, reason, message) },
		Metrics: g.metrics,
		Labels:  probe.Labels{Container: c.Name, Pod: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
	})
}

// runs reports whether a command runs in a VM that does: what is not known does.
func (g *probing) runs(dir, id string) bool {
	_, ended, err := g.runtime.Shims.Command(dir, id)
	alive, aliveErr := g.runtime.Shims.Alive(dir)
	return (err != nil || ended == nil) && (aliveErr != nil || alive)
}

func (g *probing) run(id string, o probe.Options) {
	ctx, cancel := context.WithCancel(g.agent)
	var running sync.WaitGroup
	running.Go(func() { probe.Run(ctx, o) })
	g.running[id] = func() {
		cancel()
		running.Wait()
	}
}

// fail says that the only container is to be killed for a probe. The first one counts.
func (g *probing) fail(why *containerFailedError) {
	select {
	case g.failed <- why:
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

// stopOf ends the probes of a container, whose command has ended.
func (g *probing) stopOf(id string) {
	g.mu.Lock()
	end := g.running[id]
	delete(g.running, id)
	g.mu.Unlock()
	if end != nil {
		end()
	}
}

// stop ends the probes of an attempt, whose containers have ended.
func (g *probing) stop() {
	g.mu.Lock()
	ids := slices.Collect(maps.Keys(g.running))
	g.mu.Unlock()
	for _, id := range ids {
		g.stopOf(id)
	}
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
	// known by the container's name, of the run of each that goes on or was the last.
	known map[string]state.ProbedRun
}

func newProbeResults(p *corev1.Pod) *probeResults {
	return &probeResults{known: state.ProbedBefore(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses))}
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
	if run, known := r.known[c.Name]; known && run.ID == id {
		return run.Probed
	}
	if !state.IsCommand(c) {
		return state.Probed{Started: true}
	}
	return state.Probed(probe.Initial(c))
}

// begin forgets other runs of the container, and returns what is known of this one.
func (r *probeResults) begin(c corev1.Container, id string) state.Probed {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.find(c, id)
	r.known[c.Name] = state.ProbedRun{ID: id, Probed: found}
	return found
}

func (r *probeResults) set(c corev1.Container, id string, found state.Probed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[c.Name] = state.ProbedRun{ID: id, Probed: found}
}

// unhealthy is why a container is killed whose probe has failed.
func unhealthy(policy corev1.RestartPolicy, p *corev1.Pod, c corev1.Container, kind probe.Kind) *containerFailedError {
	word := map[probe.Kind]string{probe.Liveness: "liveness", probe.Startup: "startup"}[kind]
	message := fmt.Sprintf("Container %s failed %s probe", c.Name, word)
	if policy != corev1.RestartPolicyNever {
		message += ", will be restarted"
	}
	return &containerFailedError{message: message, grace: state.KillGrace(p, probe.Grace(c, kind)), unhealthy: true}
}
