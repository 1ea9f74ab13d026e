package pod

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/allocation"
	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/probe"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/status"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// shared is what all workers of a host share.
type shared struct {
	client      kube.Client
	events      record.EventRecorder
	driver      vm.Driver
	shims       vmruntime.Shims
	guard       firewall.Guard
	started     func()
	images      Images
	inputs      Inputs
	probes      *probe.Metrics
	slots       *slot.Gate
	checkpoints checkpoint.Store
	clock       clock.WithTicker
	log         *slog.Logger
	host        admission.Host
	ledger      *allocation.Ledger
	hostIP      string
	bootSession string
}

// What ends the life of a Pod's VM, next to podFailedError.
var (
	errDeleted = errors.New("the Pod is being deleted")
	errEnded   = errors.New("the Pod was ended by somebody else")
)

// worker takes one Pod through its steps, for as long as the Pod object is there.
// Each service below it has only what it needs.
type worker struct {
	shared shared
	clock  clock.WithTicker
	log    *slog.Logger

	// endLife cancels life, which all steps before the termination run under.
	life    context.Context
	endLife context.CancelCauseFunc
	// freed is closed once nothing of the Pod is left on the host but its object, and what
	// could not be removed.
	freed chan struct{}
	// background is what goes on next to the worker's own steps, under life.
	background sync.WaitGroup

	pod      *object
	progress *progress
	report   *reporter
	status   *status.Writer
	inputs   *podInputs
	images   *imagePuller
	slot     *licenseSlot
	memory   *memoryShare
	gate     firewall.Gate
	runtime  *vmruntime.Runtime
	exits    *exitReader
	commands *guestCommands
	probing  *probing
	ender    *ender
	locator  *locator
	restorer *restorer
	admitter *admitter
}

func newWorker(ctx context.Context, s shared, p *corev1.Pod) *worker {
	log := s.log.With("pod", p.Namespace+"/"+p.Name, "uid", p.UID)
	w := &worker{shared: s, clock: s.clock, log: log, pod: newObject(p, s.clock), freed: make(chan struct{})}
	w.life, w.endLife = context.WithCancelCause(ctx)
	w.status = status.New(s.client, s.clock, log, p)
	w.progress = &progress{
		mainRan: state.AllRan(p.Status.ContainerStatuses),
		ran:     state.HasRun(slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)),
		life:    w.life, checkpoints: s.checkpoints, clock: s.clock, log: log,
	}
	invariant := state.Invariant{HostIP: s.hostIP, StartTime: metav1.NewTime(s.clock.Now())}
	if p.Status.StartTime != nil {
		invariant.StartTime = *p.Status.StartTime
	}
	w.report = &reporter{
		pod: w.pod, progress: w.progress, writer: w.status, events: s.events, invariant: invariant,
		probed: newProbeResults(p), clock: s.clock,
	}
	w.progress.unsaved = w.report.unwritten
	w.inputs = &podInputs{source: s.inputs, pod: w.pod, report: w.report, clock: s.clock, log: log}
	w.images = &imagePuller{images: s.images, inputs: s.inputs, pod: w.pod, progress: w.progress, report: w.report, clock: s.clock, log: log}
	w.slot = &licenseSlot{slots: s.slots, driver: s.driver, pod: w.pod, background: &w.background, endLife: w.endLife, clock: s.clock, log: log}
	w.memory = &memoryShare{ledger: s.ledger, host: s.host, pod: w.pod, progress: w.progress, report: w.report}
	w.gate = firewall.Gate{Guard: s.guard, Clock: s.clock, Log: log}
	w.runtime = &vmruntime.Runtime{Driver: s.driver, Shims: s.shims, Clock: s.clock, Log: log}
	said := &messages{pod: w.pod, progress: w.progress, runtime: w.runtime, clock: s.clock}
	w.exits = &exitReader{messages: said, pod: w.pod, progress: w.progress, runtime: w.runtime, inputs: s.inputs, clock: s.clock, bootSession: s.bootSession}
	w.probing = newProbing(ctx, w, s.probes)
	w.commands = &guestCommands{
		pod: w.pod, progress: w.progress, report: w.report, inputs: w.inputs, runtime: w.runtime, exits: w.exits, messages: said, probing: w.probing,
		background: &w.background, clock: s.clock, log: log,
	}
	w.commands.ender = &ender{messages: said, life: w.life, pod: w.pod, progress: w.progress, report: w.report, inputs: w.inputs, runtime: w.runtime, clock: s.clock, log: log}
	w.ender = w.commands.ender
	w.locator = &locator{pod: w.pod, progress: w.progress, status: w.status, inputs: w.inputs, runtime: w.runtime, checkpoints: s.checkpoints}
	w.restorer = &restorer{pod: w.pod, progress: w.progress, runtime: w.runtime, bootSession: s.bootSession, clock: s.clock, log: log}
	w.admitter = &admitter{host: s.host, memory: w.memory, pod: w.pod, report: w.report, clock: s.clock, log: log}
	if p.DeletionTimestamp != nil {
		w.endLife(errDeleted)
	}
	return w
}

// update tells the worker of a newer object of its Pod.
func (w *worker) update(p *corev1.Pod) {
	w.pod.update(p)
	switch {
	case p.DeletionTimestamp != nil:
		w.endLife(errDeleted)
	case state.HasEnded(p):
		// Where the worker itself ended the Pod, life is over already.
		w.endLife(errEnded)
	}
	// A readiness gate or the generation may have changed.
	w.report.show(nil)
	w.status.Seen(p)
}

// gone tells the worker that its Pod object is not there any more.
func (w *worker) gone() {
	w.pod.markGone()
	w.status.Gone()
	w.endLife(errDeleted)
}

// Run takes the Pod to its end, unless ctx ends before: then VMs are left as they
// are, for the next agent.
func (w *worker) Run(ctx context.Context) {
	defer w.background.Wait()
	defer w.memory.settled()
	defer w.probing.end()
	writing, stop := context.WithCancel(ctx)
	defer stop()
	w.background.Go(func() { w.status.Run(writing) })
	w.background.Go(func() { refuseEphemeralContainers(writing, w.pod, w.report) })

	ended := w.syncPod(w.life)
	if ended == nil {
		w.progress.keepFailure()
	}
	if ctx.Err() != nil {
		return
	}
	// Whatever still runs in the background ends with life.
	w.endLife(nil)
	if err := w.terminate(ctx, ended); err != nil {
		return
	}
	close(w.freed)
	select {
	case <-w.pod.deleted:
		w.deletePod(ctx)
	case <-ctx.Done():
	}
}
