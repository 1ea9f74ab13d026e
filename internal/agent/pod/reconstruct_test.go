package pod

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// tear makes the checkpoint of a Pod unreadable.
func (w *world) tear() {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(checkpoint.Store(filepath.Join(w.dir, "pods")).Dir("uid-a"), "record.json"), []byte("{torn"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// mains is how often a main container was run.
func (w *world) mains() int {
	n := 0
	for _, l := range w.host.history() {
		if strings.HasPrefix(l, "exec ") && strings.HasSuffix(l, " main") {
			n++
		}
	}
	return n
}

// The first attempt ended with its mounts, the second ran. When its checkpoint is torn
// and its VM gone, the first one's end says nothing.
func TestATornCheckpointRunsNothingTwice(t *testing.T) {
	for name, c := range map[string]struct {
		away  func(w *world)
		phase corev1.PodPhase
	}{
		"the command had ended": {func(w *world) { w.host.exit("main", exited(0)) }, corev1.PodSucceeded},
		"nobody knows":          {func(*world) {}, corev1.PodFailed},
		"nothing is left of it": {func(w *world) {
			_ = os.RemoveAll(checkpoint.Store(filepath.Join(w.dir, "pods")).AttemptDir("uid-a", 1))
		}, corev1.PodFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
			w.inputs.setup = "ln -s"
			w.host.guests.codes["setup"] = 1
			w.startAgent()
			w.awaitWaiting(state.ReasonConfig)
			w.host.mu.Lock()
			w.host.guests.codes["setup"] = 0
			w.host.mu.Unlock()
			w.awaitRunning("a")
			w.stopAgent()
			c.away(w)
			w.host.vanish()
			w.tear()
			before := w.mains()
			w.startAgent()
			w.awaitPod("a", "ends", state.HasEnded)
			if got := w.pod("a").Status.Phase; got != c.phase || w.mains() != before || before != 1 {
				t.Errorf("phase %s, want %s; main ran %d times: %v", got, c.phase, w.mains(), w.host.history())
			}
		})
	}
}

func ended(code int32, attempt string) corev1.ContainerState {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: "Error", StartedAt: at, FinishedAt: at, ContainerID: "tart://tk-uid-a-" + attempt,
	}}
}

// What the API shows of an end is known, whatever became of the checkpoint.
func TestAShownExitOutlivesItsCheckpoint(t *testing.T) {
	backOff := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: state.ReasonBackOff}}
	creating := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	for name, c := range map[string]struct {
		policy      corev1.RestartPolicy
		state, last corev1.ContainerState
		restarts    int32

		phase        corev1.PodPhase
		code         int32 // of the end, or of the last one
		wantRestarts int32
	}{
		"it succeeded":        {corev1.RestartPolicyNever, ended(0, "0"), corev1.ContainerState{}, 0, corev1.PodSucceeded, 0, 0},
		"it failed":           {corev1.RestartPolicyNever, ended(3, "0"), corev1.ContainerState{}, 0, corev1.PodFailed, 3, 0},
		"it is restarted":     {corev1.RestartPolicyOnFailure, ended(3, "0"), corev1.ContainerState{}, 0, corev1.PodRunning, 3, 1},
		"it waits":            {corev1.RestartPolicyAlways, backOff, ended(4, "2"), 2, corev1.PodRunning, 4, 3},
		"it is created again": {corev1.RestartPolicyAlways, creating, ended(4, "2"), 3, corev1.PodRunning, 4, 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := podtest.Job(c.policy)
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "vm", RestartCount: c.restarts, State: c.state, LastTerminationState: c.last}}
			if e := c.state.Terminated; e != nil {
				p.Status.ContainerStatuses[0].ContainerID = e.ContainerID
			}
			w := newWorld(t, p)
			w.startAgent()
			s := w.awaitPod("a", "goes on", func(p *corev1.Pod) bool {
				return state.HasEnded(p) || p.Status.ContainerStatuses[0].Ready
			}).Status
			e := s.ContainerStatuses[0].State.Terminated
			if e == nil {
				e = s.ContainerStatuses[0].LastTerminationState.Terminated
			}
			if s.Phase != c.phase || e == nil || e.ExitCode != c.code || s.ContainerStatuses[0].RestartCount != c.wantRestarts {
				t.Errorf("phase %s, end %+v, %d restarts", s.Phase, e, s.ContainerStatuses[0].RestartCount)
			}
		})
	}
}

// A VM that never ran is a half-made clone: with its checkpoint lost, the Pod begins
// anew, and is not lost.
func TestAHalfMadeCloneWithoutItsCheckpointHasNotRun(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.mu.Lock()
	w.host.machines["tk-uid-a-0"] = false
	w.host.mu.Unlock()
	w.startAgent()
	if p := w.awaitPod("a", "goes on", func(p *corev1.Pod) bool {
		return state.HasEnded(p) || len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	}); p.Status.Phase != corev1.PodRunning || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("status %+v; host: %v", p.Status, w.host.history())
	}
}
