package pod

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Inputs are what a Pod gets besides its image: environment and volumes, from objects
// of the cluster and from the host. ClusterInputs implements it.
type Inputs interface {
	// Hold begins to watch what the Pod refers to, Drop ends it.
	Hold(p *corev1.Pod)
	Drop(uid types.UID)
	// Changed is closed when something that the Pod refers to changes. Nil: never.
	Changed(uid types.UID) <-chan struct{}
	// PullSecrets returns those of the Pod that there are.
	PullSecrets(ctx context.Context, p *corev1.Pod) ([]corev1.Secret, error)
	// Prepare makes everything ready; called again it repairs what is missing. An
	// error may have a method EventReason.
	Prepare(ctx context.Context, p *corev1.Pod) (Prepared, error)
	// Command is one container's of Prepare, made anew without touching volumes.
	Command(ctx context.Context, p *corev1.Pod, container string) (vm.GuestCommand, error)
	// Refresh renews what changed, and says when it wants to be called again; zero:
	// when something changes. With an error, it is the time of what was renewed.
	Refresh(ctx context.Context, p *corev1.Pod) (time.Time, error)
	// ExitReport is the exit code that a guest wrote down. ClearReport makes room for
	// the next attempt's.
	ExitReport(uid types.UID) (int32, bool)
	ClearReport(uid types.UID) error
	// Overfull names what has outgrown its limit of what the guest wrote on the host, in
	// one line for people; empty: nothing has.
	Overfull(p *corev1.Pod) string
	// TearDown removes everything of a Pod.
	TearDown(uid types.UID) error
	// UIDs of the Pods of which there is something.
	UIDs() ([]types.UID, error)
}

// Prepared are the inputs of one attempt.
type Prepared struct {
	Shares []vm.Share
	// Setup is a shell script that makes the volumes visible in the guest; empty: there
	// are none.
	Setup string
	// Commands of the containers that are commands, by the container's name.
	Commands map[string]vm.GuestCommand
	// RefreshAt is when Refresh is due; zero: when something changes.
	RefreshAt time.Time

	// changed is closed when an object has changed since all this was made, relabeled when
	// the Pod's own labels or annotations have.
	changed, relabeled <-chan struct{}
}

// podInputs prepares the inputs of one Pod.
type podInputs struct {
	source Inputs
	pod    *object
	report *reporter
	clock  clock.Clock
	log    *slog.Logger

	// prepared is for this attempt; nil: not prepared by this process. preparing is held by
	// those of several goroutines that ensure it.
	preparing sync.Mutex
	prepared  *Prepared
	// commands are those of the last attempt that was prepared, for any goroutine. Where an
	// agent before this one did that, they are those that were asked for. known guards them.
	known    sync.Mutex
	commands map[string]vm.GuestCommand
}

// prepare makes the Pod's inputs ready, as often as it takes.
func (i *podInputs) prepare(ctx context.Context) error {
	for failures := 1; ; failures++ {
		changed, relabeled := i.source.Changed(i.pod.uid), i.pod.relabels()
		err := i.prepareOnce(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		i.log.Warn("what the Pod is given is not there", "err", err)
		i.report.event(corev1.EventTypeWarning, eventReason(err), "Error: "+err.Error())
		i.report.showWaiting(state.ReasonConfig, err.Error())
		// What changes at once is given a second.
		if err := wait.For(ctx, i.clock, time.Second); err != nil {
			return err
		}
		if _, err := wait.Either(ctx, i.clock, changed, relabeled, state.PullDelay(failures)-time.Second); err != nil {
			return err
		}
	}
}

// prepareOnce is one try.
func (i *podInputs) prepareOnce(ctx context.Context) error {
	changed, relabeled := i.source.Changed(i.pod.uid), i.pod.relabels()
	prepared, err := i.source.Prepare(ctx, i.pod.current())
	if err != nil {
		return err
	}
	prepared.changed, prepared.relabeled = changed, relabeled
	i.prepared = &prepared
	i.known.Lock()
	defer i.known.Unlock()
	i.commands = maps.Clone(prepared.Commands)
	return nil
}

// commandOf is the command of a container that runs. One that an agent before this one
// began is resolved anew, from the objects as they are now: from those that it refers to
// alone, as others may be gone.
func (i *podInputs) commandOf(ctx context.Context, p *corev1.Pod, container string) (vm.GuestCommand, error) {
	if c, found := i.knownCommand(container); found {
		return c, nil
	}
	c, err := i.source.Command(ctx, p, container)
	if err != nil {
		return vm.GuestCommand{}, err
	}
	i.known.Lock()
	defer i.known.Unlock()
	if i.commands == nil {
		i.commands = map[string]vm.GuestCommand{}
	}
	// Where the worker has prepared it meanwhile, its own counts.
	if _, found := i.commands[container]; !found {
		i.commands[container] = c
	}
	return i.commands[container], nil
}

func (i *podInputs) knownCommand(container string) (vm.GuestCommand, bool) {
	i.known.Lock()
	defer i.known.Unlock()
	c, found := i.commands[container]
	return c, found
}

// ensure prepares what this process has not prepared yet, once for all who ask.
func (i *podInputs) ensure(ctx context.Context) (*Prepared, error) {
	i.preparing.Lock()
	defer i.preparing.Unlock()
	if i.prepared != nil {
		return i.prepared, nil
	}
	err := i.prepare(ctx)
	return i.prepared, err
}

// tearDown removes the Pod's volumes. Those that cannot be removed hold up no Pod, and are
// told of: there may be secrets among them.
func (i *podInputs) tearDown(ctx context.Context) error {
	for try := 1; ; try++ {
		err := i.source.TearDown(i.pod.uid)
		if err == nil {
			return nil
		}
		if try >= vmruntime.DeleteTries {
			i.log.Error("volumes of a Pod were left behind, the sweep will try again", "err", err)
			i.report.event(corev1.EventTypeWarning, "VolumesLeft", "What the Pod was given, its secrets among it, is not removed from the Mac yet, and the agent goes on trying: "+err.Error())
			return nil
		}
		i.log.Warn("removing the Pod's volumes failed, trying again", "err", err)
		if err := wait.For(ctx, i.clock, time.Second); err != nil {
			return err
		}
	}
}

// notPreparedError says that inputs which were ready before are not when the VM is to
// start.
type notPreparedError struct{ err error }

func (e *notPreparedError) Error() string { return e.err.Error() }
func (e *notPreparedError) Unwrap() error { return e.err }

// startWaitingReason is the waiting reason of a VM that was not started,
// startEventReason that of the event that goes with it.
func startWaitingReason(err error) string {
	var missing *notPreparedError
	if errors.As(err, &missing) {
		return state.ReasonConfig
	}
	return firewall.Reason(err)
}

func startEventReason(err error) string {
	var missing *notPreparedError
	if errors.As(err, &missing) {
		return eventReason(err)
	}
	return firewall.EventReason(err)
}

func eventReason(err error) string {
	var own interface{ EventReason() string }
	if errors.As(err, &own) {
		return own.EventReason()
	}
	return "Failed"
}
