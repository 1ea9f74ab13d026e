package pod

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"github.com/macfleet/macfleet/internal/agent/kubetest"
	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// lockedShim is a directory whose shim does not go away.
func lockedShim(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, "shim.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAShimThatStaysCostsOneWait(t *testing.T) {
	dir := lockedShim(t)
	w := newWorld(t)
	r := vmruntime.Runtime{Driver: w.host, Shims: vmruntime.ShimProcesses{}, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}
	before, begin := runtime.NumGoroutine(), w.clock.Now()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Stop(ctx, "tk-uid-a-0", dir, killGrace) }()
	w.await("two minutes pass", func() bool { return w.clock.Since(begin) > 2*time.Minute })
	cancel()
	<-done
	if n := runtime.NumGoroutine() - before; n > 10 {
		t.Errorf("%d goroutines more after two minutes of waiting for one shim", n)
	}
}

// A shim that is killed early leaves a VM that shows only once it is to be deleted.
func TestAVMThatBeginsToRunLateIsStopped(t *testing.T) {
	w := newWorld(t)
	w.host.machines["tk-uid-a-0"], w.host.late = false, true
	r := vmruntime.Runtime{Driver: w.host, Shims: w.host, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	deleted, err := r.Remove(ctx, "tk-uid-a-0", t.TempDir(), killGrace)
	if !deleted || err != nil || w.host.count("stop") != 1 {
		t.Errorf("deleted %v, err %v, host %v", deleted, err, w.host.history())
	}
}

// starting is a host whose machine never takes its lock: its command runs on.
func (w *world) starting() {
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	w.host.lockless = true
}

func TestAMachineThatTakesNoLockIsEndedWithItsPod(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.starting()
	w.startAgent()
	w.await("the machine was started", func() bool { return w.host.count("run") == 1 })
	w.delete("a")
	w.awaitGone("a")
	if n := w.host.count("kill tk-uid-a-0"); n == 0 {
		t.Errorf("its command was left: %v", w.host.history())
	}
}

func TestAMachineThatTakesNoLockIsEndedInTheEnd(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.starting()
	w.startAgent()
	w.awaitPhase(corev1.PodFailed)
	if n := w.host.count("kill tk-uid-a-0"); n != 1 {
		t.Errorf("its command was killed %d times: %v", n, w.host.history())
	}
}

// A shim may hold a command although its machine has no lock yet.
func TestTheShimOfAnOrphanIsEnded(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.starting()
	w.startAgent()
	w.await("the machine was started", func() bool { return w.host.count("run") == 1 })
	w.stopAgent()
	w.forceDelete("a")
	w.startAgent()
	w.await("nothing is left", func() bool { return len(w.host.names()) == 0 })
	if n := w.host.count("kill tk-uid-a-0"); n == 0 {
		t.Errorf("its command was left: %v", w.host.history())
	}
}

// The checkpoint is the way to the shim of a machine that could not be removed yet.
func TestACheckpointStaysAsLongAsItsVM(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	w.forceDelete("a")
	w.host.mu.Lock()
	w.host.deleteErrs = []error{errors.New("disk error")}
	w.host.mu.Unlock()
	s, dir := w.supervisor(), checkpoint.Store(filepath.Join(w.dir, "pods")).Dir("uid-a")
	if err := s.sweep(t.Context()); err == nil {
		t.Error("a machine that was left behind is no failure")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the checkpoint of a VM that is still there: %v", err)
	}
	if err := s.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) || len(w.host.names()) != 0 {
		t.Errorf("machines %v, checkpoint %v", w.host.names(), err)
	}
}

// A name may be given to another Pod in the moment between the look and the delete.
func TestOnlyTheOwnPodIsDeleted(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	asked := make(chan types.UID, 1)
	w.client.PrependReactor("delete", "pods", func(a k8stesting.Action) (bool, kruntime.Object, error) {
		if p := a.(k8stesting.DeleteActionImpl).GetDeleteOptions().Preconditions; p != nil && p.UID != nil {
			asked <- *p.UID
		} else {
			asked <- ""
		}
		return false, nil, nil
	})
	w.startAgent()
	w.awaitRunning("a")
	w.delete("a")
	w.awaitGone("a")
	if uid := <-asked; uid != "uid-a" {
		t.Errorf("deleted whoever has the name, with UID %q", uid)
	}
}

// A slot is another Pod's once the VM is gone: the licence counts what still shuts down.
func TestASlotIsHeldUntilTheVMIsGone(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.stopGate = make(chan struct{})
	s := w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	w.delete("a")
	w.await("its VM is stopped", func() bool { return w.host.stops() == 1 })
	if n := s.slots.Free(); n != 1 {
		t.Errorf("%d slots are free while the VM shuts down, want 1", n)
	}
	w.frozen.Store(false)
	close(w.host.stopGate)
	w.awaitGone("a")
	w.await("its slot is free", func() bool { return s.slots.Free() == 2 })
}

// An agent that begins anew before the Pod is gone knows by its checkpoint how it ended.
func TestACheckpointOutlastsItsPod(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	checkpoints := checkpoint.Store(filepath.Join(w.dir, "pods"))
	kept := make(chan bool, 1)
	w.client.PrependReactor("delete", "pods", func(k8stesting.Action) (bool, kruntime.Object, error) {
		r, err := checkpoints.Load("uid-a")
		kept <- err == nil && r != nil
		return false, nil, nil
	})
	w.startAgent()
	w.awaitRunning("a")
	w.delete("a")
	w.awaitGone("a")
	if !<-kept {
		t.Error("the checkpoint went before the Pod")
	}
	w.await("it goes then", func() bool {
		r, err := checkpoints.Load("uid-a")
		return err == nil && r == nil
	})
}

// What ended by itself while the guard said no has its own end.
func TestAnExitDuringAFailedProofIsKept(t *testing.T) {
	shutDown := func(w *world) { w.host.end("tk-uid-a-0", vm.RunEnd{}, "end") }
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		end  func(w *world)
		late bool // its exit is written down
	}{
		"the guest shut down":    {podtest.OnMac("a", corev1.RestartPolicyNever), shutDown, false},
		"the guest did just now": {podtest.OnMac("a", corev1.RestartPolicyNever), shutDown, true},
		"the command ended":      {podtest.Job(corev1.RestartPolicyNever), func(w *world) { w.host.exit("main", exited(0)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.pod)
			w.startAgent()
			w.awaitRunning("a")
			w.stopAgent()
			c.end(w)
			wk := w.workerOf(c.pod)
			if c.late {
				wk.runtime.Shims = &lateShims{Shims: w.host}
			}
			e, err := wk.stopUnproved(t.Context(), &firewall.NotProvedError{Err: errOpen})
			if err != nil || e.Code != 0 || e.Reason != state.ReasonCompleted {
				t.Errorf("end %+v, err %v", e, err)
			}
		})
	}
}

// So has what ended while its Pod was to have another image, or to be killed for its probe.
func TestAnExitBeforeTheKillIsKept(t *testing.T) {
	for name, stop := range map[string]func(ctx context.Context, w *worker) (state.Exit, error){
		"another image": func(ctx context.Context, w *worker) (state.Exit, error) {
			return w.stopForImage(ctx, &imageChangedError{"vm"})
		},
		"an unhealthy container": func(ctx context.Context, w *worker) (state.Exit, error) {
			return w.killContainer(ctx, &containerFailedError{message: "it fails", grace: time.Minute, unhealthy: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := podtest.Job(corev1.RestartPolicyNever)
			w := newWorld(t, p)
			w.startAgent()
			w.awaitRunning("a")
			w.stopAgent()
			w.host.exit("main", exited(0))
			e, err := stop(t.Context(), w.workerOf(p))
			if err != nil || e.Code != 0 || e.Reason != state.ReasonCompleted || e.Replaced || e.Unhealthy {
				t.Errorf("end %+v, err %v", e, err)
			}
			if n := w.events.count("a", "Killing"); n != 0 {
				t.Errorf("events %v", w.events.all())
			}
		})
	}
}

// lateShims have an exit only when it is asked for again.
type lateShims struct {
	vmruntime.Shims
	asked bool
}

func (r *lateShims) Exit(dir string) (*shim.Exit, error) {
	if !r.asked {
		r.asked = true
		return nil, nil
	}
	return r.Shims.Exit(dir)
}

func TestAnExitCountsAlsoAfterCancellation(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyNever)
	w := newWorld(t, p)
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gone := make(chan struct{})
	close(gone)
	wk := w.workerOf(p)
	for range 50 { // a select takes either at random
		if err := wk.runtime.AwaitExit(ctx, wk.progress.VMName(), gone); err != nil {
			t.Fatalf("the end is not taken: %v", err)
		}
	}
}

// workerOf is one that goes on with the Pod of an agent that was stopped.
func (w *world) workerOf(p *corev1.Pod) *worker {
	w.t.Helper()
	wk := newWorker(w.t.Context(), shared{
		client: kubetest.Client(w.client), events: w.events, driver: w.host, shims: w.host, inputs: w.inputs, clock: w.clock,
		log: slog.New(slog.DiscardHandler), checkpoints: checkpoint.Store(filepath.Join(w.dir, "pods")),
	}, p)
	r, err := wk.progress.checkpoints.Load(p.UID)
	if err != nil || r == nil {
		w.t.Fatalf("checkpoint %+v, err %v", r, err)
	}
	wk.progress.Record = *r
	return wk
}

// What is left of attempts does not pile up: the last two are kept.
func TestOldAttemptsAreRemoved(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	j := checkpoint.Store(filepath.Join(w.dir, "pods"))
	const restarts = 5
	for i := range restarts {
		w.awaitPod("a", "runs", func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready && int(p.Status.ContainerStatuses[0].RestartCount) == i
		})
		if err := os.MkdirAll(j.AttemptDir("uid-a", i), 0o700); err != nil {
			t.Fatal(err)
		}
		w.host.end(state.VMName("uid-a", i), vm.RunEnd{}, "end")
	}
	w.awaitPod("a", "runs", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == restarts && p.Status.ContainerStatuses[0].Ready
	})
	dirs, err := filepath.Glob(filepath.Join(j.Dir("uid-a"), "attempt-*"))
	if err != nil {
		t.Fatal(err)
	}
	if oldest := j.AttemptDir("uid-a", restarts-1); len(dirs) == 0 || dirs[0] != oldest {
		t.Errorf("attempts on the disk %v, the oldest should be %s", dirs, oldest)
	}
}

// A machine that cannot be looked at takes a place, and is told of once.
func TestAMachineThatCannotBeLookedAtCountsAndIsToldOnce(t *testing.T) {
	w := newWorld(t)
	var said strings.Builder
	s := w.supervisor()
	s.log = slog.New(slog.NewTextHandler(&said, nil))
	list := []vm.Machine{{Name: "of-root", Running: true, MacOS: true, Unseen: errors.New("permission denied")}}
	for range 3 {
		s.reportUnseen(list)
	}
	if n := strings.Count(said.String(), "machine=of-root"); n != 1 {
		t.Errorf("told %d times: %s", n, said.String())
	}
	if got := foreign(list); !slices.Equal(got, []string{"of-root"}) {
		t.Errorf("foreign guests %v", got)
	}
	s.reportUnseen(nil)
	if s.reportUnseen(list); strings.Count(said.String(), "machine=of-root") != 2 {
		t.Error("it is not told again after it could be looked at")
	}
}

// A Pod that goes without its end leaves its Job without one.
func TestAPodIsNotDeletedBeforeItsEndIsShown(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	var down atomic.Bool
	var tries atomic.Int32
	w.client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, kruntime.Object, error) {
		if !down.Load() {
			return false, nil, nil
		}
		tries.Add(1)
		return true, nil, apierrors.NewServiceUnavailable("it restarts")
	})
	w.startAgent()
	w.awaitRunning("a")
	down.Store(true)
	w.deleteWithin(longGrace)
	w.await("the guest is gone", func() bool { return len(w.host.names()) == 0 })
	seen := tries.Load()
	w.await("its end is sent again and again", func() bool { return tries.Load() > seen+20 || w.pod("a") == nil })
	if w.pod("a") == nil {
		t.Fatal("it is deleted before its end is shown")
	}
	down.Store(false)
	w.awaitGone("a")
	if e := w.shownEnd(); e == nil || e.ExitCode != 143 || w.phases.last("uid-a") != corev1.PodFailed {
		t.Errorf("phase %s, end %+v", w.phases.last("uid-a"), e)
	}
}

// A status that the API server will never take holds up no deletion.
func TestAStatusThatIsRefusedHoldsUpNoDeletion(t *testing.T) {
	for name, refusal := range map[string]error{
		"Invalid":   apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "a", nil),
		"Forbidden": apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("a webhook says no")),
		// As an API server passes on the denial of a webhook that gives no code.
		"no code": &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: "a webhook says no"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
			var refuses atomic.Bool
			w.client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, kruntime.Object, error) {
				return refuses.Load(), nil, refusal
			})
			w.startAgent()
			w.awaitRunning("a")
			refuses.Store(true)
			w.delete("a")
			w.awaitGone("a")
		})
	}
}
