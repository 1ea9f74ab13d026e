package pod

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

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
	wk := newWorker(context.Background(), parts{
		client: w.client, events: w.events, driver: w.host, runs: Shims{}, clock: w.clock, log: slog.New(slog.DiscardHandler),
	}, onMac("a", corev1.RestartPolicyNever))
	before, begin := runtime.NumGoroutine(), w.clock.Now()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = wk.stop(ctx, "tk-uid-a-0", dir, wk.grace) }()
	w.await("two minutes pass", func() bool { return w.clock.Since(begin) > 2*time.Minute })
	cancel()
	<-done
	if n := runtime.NumGoroutine() - before; n > 10 {
		t.Errorf("%d goroutines more after two minutes of waiting for one shim", n)
	}
}

// starting is a host whose machine never takes its lock: its command runs on.
func (w *world) starting() {
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	w.host.lockless = true
}

func TestAMachineThatTakesNoLockIsEndedWithItsPod(t *testing.T) {
	w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
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
	w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
	w.starting()
	w.startAgent()
	w.awaitPhase(corev1.PodFailed)
	if n := w.host.count("kill tk-uid-a-0"); n != 1 {
		t.Errorf("its command was killed %d times: %v", n, w.host.history())
	}
}

// A shim may hold a command although its machine has no lock yet.
func TestTheShimOfAnOrphanIsEnded(t *testing.T) {
	w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
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

// The journal is the way to the shim of a machine that could not be removed yet.
func TestAJournalStaysAsLongAsItsMachine(t *testing.T) {
	w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	w.forceDelete("a")
	w.host.mu.Lock()
	w.host.deleteErrs = []error{errors.New("disk error")}
	w.host.mu.Unlock()
	s, dir := w.supervisor(), journal(filepath.Join(w.dir, "pods")).dir("uid-a")
	if err := s.sweep(t.Context()); err == nil {
		t.Error("a machine that was left behind is no failure")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the journal of a machine that is still there: %v", err)
	}
	if err := s.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) || len(w.host.names()) != 0 {
		t.Errorf("machines %v, journal %v", w.host.names(), err)
	}
}

// A name may be given to another Pod in the moment between the look and the delete.
func TestOnlyTheOwnPodIsDeleted(t *testing.T) {
	w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
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

// What ended by itself while the guard said no has its own end.
func TestAnEndBesideAFailedProofIsKept(t *testing.T) {
	shutDown := func(w *world) { w.host.end("tk-uid-a-0", vm.RunEnd{}, "end") }
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		end  func(w *world)
		late bool // its exit is written down
	}{
		"the guest shut down":    {onMac("a", corev1.RestartPolicyNever), shutDown, false},
		"the guest did just now": {onMac("a", corev1.RestartPolicyNever), shutDown, true},
		"the command ended":      {aJob(corev1.RestartPolicyNever), func(w *world) { w.host.exit("main", exited(0)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.pod)
			w.startAgent()
			w.awaitRunning("a")
			w.stopAgent()
			c.end(w)
			wk := w.workerOf(c.pod)
			if c.late {
				wk.runs = &lateRuns{Runs: w.host}
			}
			e, err := wk.stopUnfenced(t.Context(), &notProvedError{errOpen})
			if err != nil || e.Code != 0 || e.Reason != reasonCompleted {
				t.Errorf("end %+v, err %v", e, err)
			}
		})
	}
}

// lateRuns have an exit only when it is asked for again.
type lateRuns struct {
	Runs
	asked bool
}

func (r *lateRuns) Exit(dir string) (*shim.Exit, error) {
	if !r.asked {
		r.asked = true
		return nil, nil
	}
	return r.Runs.Exit(dir)
}

func TestAnEndCountsAlsoWhereItIsWaitedForNoMore(t *testing.T) {
	p := onMac("a", corev1.RestartPolicyNever)
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
		if err := wk.awaitEnd(ctx, gone); err != nil {
			t.Fatalf("the end is not taken: %v", err)
		}
	}
}

// workerOf is one that goes on with the Pod of an agent that was stopped.
func (w *world) workerOf(p *corev1.Pod) *worker {
	w.t.Helper()
	wk := newWorker(w.t.Context(), parts{
		client: w.client, events: w.events, driver: w.host, runs: w.host, inputs: w.inputs, clock: w.clock,
		log: slog.New(slog.DiscardHandler), journal: journal(filepath.Join(w.dir, "pods")),
	}, p)
	r, err := wk.journal.load(p.UID)
	if err != nil || r == nil {
		w.t.Fatalf("journal %+v, err %v", r, err)
	}
	wk.rec = *r
	return wk
}

// What is left of attempts does not pile up: the last two are kept.
func TestOldAttemptsAreRemoved(t *testing.T) {
	w := newWorld(t, onMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	j := journal(filepath.Join(w.dir, "pods"))
	const restarts = 5
	for i := range restarts {
		w.awaitPod("a", "runs", func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready && int(p.Status.ContainerStatuses[0].RestartCount) == i
		})
		if err := os.MkdirAll(j.attemptDir("uid-a", i), 0o700); err != nil {
			t.Fatal(err)
		}
		w.host.end(machineName("uid-a", i), vm.RunEnd{}, "end")
	}
	w.awaitPod("a", "runs", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == restarts && p.Status.ContainerStatuses[0].Ready
	})
	dirs, err := filepath.Glob(filepath.Join(j.dir("uid-a"), "attempt-*"))
	if err != nil {
		t.Fatal(err)
	}
	if oldest := j.attemptDir("uid-a", restarts-1); len(dirs) == 0 || dirs[0] != oldest {
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
		s.tellUnseen(list)
	}
	if n := strings.Count(said.String(), "machine=of-root"); n != 1 {
		t.Errorf("told %d times: %s", n, said.String())
	}
	if got := (&Supervisor{}).foreign(list); !slices.Equal(got, []string{"of-root"}) {
		t.Errorf("foreign guests %v", got)
	}
	s.tellUnseen(nil)
	if s.tellUnseen(list); strings.Count(said.String(), "machine=of-root") != 2 {
		t.Error("it is not told again after it could be looked at")
	}
}
