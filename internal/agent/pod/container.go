package pod

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/status"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// The errors of Supervisor.Container.
var (
	ErrPodNotFound       = errors.New("this node has no such Pod")
	ErrContainerNotFound = errors.New("the Pod has no such container")
)

// Container says where a container of a Pod runs.
type Container struct {
	// Pod with the status that the agent last rendered.
	Pod  *corev1.Pod
	Spec corev1.Container
	// Dir is the shim's directory of the current attempt; empty: there is none yet.
	Dir string
	// ID is the shim's name of the container's command: "main", "init-0".
	ID string
	// WholeVM: the container has no command, it is the VM itself.
	WholeVM bool
	Running bool
	// Log is what the container that runs, or ended last, has written; PreviousLog is
	// that of the one which lastState names. Paths in the format of the CRI, with
	// rotations beside them as .1 and so on, newest first; empty: there is none.
	Log, PreviousLog string
	// Command has the container's environment and working directory, for further commands;
	// without Argv. Its environment is empty where the container does not run.
	Command vm.GuestCommand
}

// Container looks a container up. uid may be empty: then it is the Pod that has the name
// now. The errors are ErrPodNotFound, ErrContainerNotFound, or that the environment
// cannot be made anew.
func (s *Supervisor) Container(ctx context.Context, namespace, name string, uid types.UID, container string) (Container, error) {
	w := s.workerOf(namespace, name, uid)
	if w == nil {
		return Container{}, fmt.Errorf("%w: %s/%s", ErrPodNotFound, namespace, name)
	}
	return w.locator.container(ctx, container)
}

// Pods of this node, with the status that the agent last rendered.
func (s *Supervisor) Pods() []*corev1.Pod {
	s.mu.Lock()
	workers := make([]*worker, 0, len(s.workers))
	for _, j := range s.workers {
		workers = append(workers, j.worker)
	}
	s.mu.Unlock()
	list := make([]*corev1.Pod, 0, len(workers))
	for _, w := range workers {
		if !w.pod.isGone() {
			list = append(list, w.locator.rendered())
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list
}

// ProbeMetrics are what the probes of this node have found, in Prometheus' text format.
func (s *Supervisor) ProbeMetrics() string { return s.probes.Text() }

func (s *Supervisor) workerOf(namespace, name string, uid types.UID) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	for own, j := range s.workers {
		p := j.worker.pod.current()
		if p.Namespace == namespace && p.Name == name && (uid == "" || uid == own) && !j.worker.pod.isGone() {
			return j.worker
		}
	}
	return nil
}

// locator says where the containers of one Pod run. It is used by any goroutine, and
// reads what the Pod's worker has published.
type locator struct {
	pod         *object
	progress    *progress
	status      *status.Writer
	inputs      *podInputs
	runtime     *vmruntime.Runtime
	checkpoints checkpoint.Store
}

// rendered is the Pod with the newest status there is.
func (l *locator) rendered() *corev1.Pod {
	p := l.pod.current().DeepCopy()
	p.Status = state.Overlay(p.Status, l.status.Current())
	return p
}

func (l *locator) container(ctx context.Context, name string) (Container, error) {
	c := Container{Pod: l.rendered()}
	at, found := state.PlaceOf(c.Pod, name)
	switch {
	case !found && state.IsEphemeral(c.Pod, name):
		return c, nil // it never runs, as its status says
	case !found:
		return Container{}, fmt.Errorf("%w: %s", ErrContainerNotFound, name)
	}
	status := statusOf(c.Pod, name)
	c.ID, c.Spec = at.CommandID(status.ContainerID), at.In(c.Pod)
	c.WholeVM = c.ID == state.MainID && !state.RunsCommand(c.Pod)
	c.Dir = l.attemptDir(status)
	c.Running = status.State.Running != nil && !l.commandEnded(c.Dir, c.ID)
	current, previous := state.LogIDs(status)
	c.Log, c.PreviousLog = l.logOf(current, at), l.logOf(previous, at)
	if !c.Running {
		return c, nil
	}
	given, err := l.inputs.commandOf(ctx, c.Pod, name)
	c.Command = vm.GuestCommand{Env: given.Env, Dir: given.Dir}
	return c, err
}

// commandEnded reports that the shim has written down the end of a command. While a Pod ends
// its status shows no container's before the last one has ended.
func (l *locator) commandEnded(dir, id string) bool {
	if dir == "" {
		return false
	}
	_, ended, err := l.runtime.Shims.Command(dir, id)
	return err == nil && ended != nil
}

func statusOf(p *corev1.Pod, container string) corev1.ContainerStatus {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.Name == container {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// attemptDir is that of the attempt which the worker is at, or which the status shows
// to an agent that has not read its checkpoint yet.
func (l *locator) attemptDir(s corev1.ContainerStatus) string {
	if r := l.progress.published.Load(); r != nil {
		if r.Step == "" || r.Step == state.StepCreating {
			return ""
		}
		return l.checkpoints.AttemptDir(l.pod.uid, r.Attempt)
	}
	attempt, ours := state.AttemptOf(l.pod.uid, s.ContainerID)
	if !ours {
		return ""
	}
	return l.checkpoints.AttemptDir(l.pod.uid, attempt)
}

func (l *locator) logOf(containerID string, at state.Place) string {
	attempt, ours := state.AttemptOf(l.pod.uid, containerID)
	if !ours {
		return ""
	}
	return filepath.Join(l.checkpoints.AttemptDir(l.pod.uid, attempt), at.CommandID(containerID)+".log")
}
