package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/image"
	"github.com/macfleet/macfleet/internal/agent/kubetest"
	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

const awaitDeadline = 2 * time.Minute

// world is an API server, a host, and an agent that can be stopped and started.
type world struct {
	t      *testing.T
	client *fake.Clientset
	host   *fakeHost
	inputs *fakeInputs
	events *eventLog
	clock  *clocktesting.FakeClock
	dir    string
	boot   string
	// guarded, when set before the agent starts, is its Guard.
	guarded firewall.Guard
	// pressures, when set before it starts, are those of its host.
	pressures func() []corev1.NodeConditionType
	// log, when set before it starts, is its log.
	log *slog.Logger
	// started is its Started, when set before it starts.
	started func()

	stop   func()
	phases *phaseLog
	// refused counts statuses that the API server does not take.
	refused atomic.Int32
	// frozen: time passes only when a test says so.
	frozen atomic.Bool
	// watches counts those of Pods that have begun.
	watches atomic.Int32
}

func newWorld(t *testing.T, pods ...*corev1.Pod) *world {
	t.Helper()
	var objects []runtime.Object
	for _, p := range pods {
		objects = append(objects, p)
	}
	clock := clocktesting.NewFakeClock(time.Now())
	w := &world{
		t: t, client: fake.NewClientset(objects...), host: newFakeHost(clock.Now), inputs: newFakeInputs(), events: &eventLog{},
		clock: clock, dir: t.TempDir(), boot: "boot-1", phases: &phaseLog{},
	}
	w.client.PrependReactor("patch", "pods", w.phases.react)
	w.client.PrependReactor("patch", "pods", w.keepsEnds)
	w.client.PrependWatchReactor("pods", w.watchPods)
	ctx, cancel := context.WithCancel(context.Background())
	var ticking sync.WaitGroup
	ticking.Go(func() { w.tick(ctx) })
	t.Cleanup(func() {
		w.stopAgent()
		cancel()
		ticking.Wait()
		w.phases.check(t)
		if n := w.refused.Load(); n > 0 {
			t.Errorf("the API server refused %d statuses", n)
		}
	})
	return w
}

// watchPods is what the fake API server does, and counts. It knows of no versions: what changes
// between an agent's list and its watch is lost to the agent.
func (w *world) watchPods(action k8stesting.Action) (bool, watch.Interface, error) {
	var options metav1.ListOptions
	if a, ok := action.(k8stesting.WatchActionImpl); ok {
		options = a.ListOptions
	}
	watching, err := w.client.Tracker().Watch(action.GetResource(), action.GetNamespace(), options)
	w.watches.Add(1)
	return true, watching, err
}

// tick lets half a second pass every millisecond for whoever waits.
func (w *world) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !w.frozen.Load() && w.clock.HasWaiters() {
				w.clock.Step(500 * time.Millisecond)
			}
		}
	}
}

func (w *world) supervisor() *Supervisor {
	return NewSupervisor(Options{
		Client: kubetest.Client(w.client), Events: w.events, Driver: w.host, Shims: w.host, Guard: w.guarded, Log: w.log, Started: w.started, Inputs: w.inputs,
		Images:   image.New(image.Options{Source: w.host, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}),
		Dir:      w.dir,
		NodeName: "mac-1", HostIP: "10.0.0.7", Host: admission.Host{CPUs: 8, MemoryBytes: 16 << 30, MaxVMs: 2, Pressures: w.pressures},
		BootSession: w.boot, Clock: w.clock,
	})
}

// startAgent returns once the agent watches its Pods.
func (w *world) startAgent() *Supervisor {
	w.t.Helper()
	s, before := w.supervisor(), w.watches.Load()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the supervisor failed: %v", err)
		}
	}
	w.await("the agent watches its Pods", func() bool { return w.watches.Load() > before })
	return s
}

func (w *world) stopAgent() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

func (w *world) await(what string, done func() bool) {
	w.t.Helper()
	deadline := time.After(awaitDeadline)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			w.t.Fatalf("never happened: %s\nhost: %v\nevents: %v", what, w.host.history(), w.events.all())
		}
	}
}

// pod returns nil when the object is not there.
func (w *world) pod(name string) *corev1.Pod {
	p, err := w.client.CoreV1().Pods("ns").Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) awaitPod(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	var last *corev1.Pod
	w.await(fmt.Sprintf("Pod %s %s", name, what), func() bool {
		last = w.pod(name)
		return last != nil && is(last)
	})
	return last
}

func (w *world) awaitRunning(name string) *corev1.Pod {
	w.t.Helper()
	return w.awaitPod(name, "is Running and Ready", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	})
}

func (w *world) awaitPhase(phase corev1.PodPhase) *corev1.Pod {
	w.t.Helper()
	return w.awaitPod("a", "is "+string(phase), func(p *corev1.Pod) bool { return p.Status.Phase == phase })
}

func (w *world) awaitWaiting(reason string) *corev1.Pod {
	w.t.Helper()
	return w.awaitPod("a", "waits with "+reason, func(p *corev1.Pod) bool { return waitingReason(p) == reason })
}

func waitingReason(p *corev1.Pod) string {
	if len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil {
		return p.Status.ContainerStatuses[0].State.Waiting.Reason
	}
	return ""
}

func (w *world) awaitGone(name string) {
	w.t.Helper()
	w.await("Pod "+name+" is gone", func() bool { return w.pod(name) == nil })
}

// delete does what the API server does on a graceful deletion.
func (w *world) delete(name string) {
	w.t.Helper()
	w.edit(name, func(p *corev1.Pod) { podtest.DeleteAt(p, w.clock.Now()) })
}

// forceDelete removes the object under the agent's feet.
func (w *world) forceDelete(name string) {
	w.t.Helper()
	if err := w.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", name); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(p *corev1.Pod) {
	w.t.Helper()
	if err := w.client.Tracker().Create(corev1.SchemeGroupVersion.WithResource("pods"), p, "ns"); err != nil {
		w.t.Fatal(err)
	}
}

// eventLog records events as "Reason message".
type eventLog struct {
	mu    sync.Mutex
	lines []string
	// paths are "Reason fieldPath" of those about containers.
	paths []string
}

func (e *eventLog) Event(o runtime.Object, _, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := ""
	if p, ok := o.(*corev1.Pod); ok {
		name = p.Name
	}
	if r, ok := o.(*corev1.ObjectReference); ok {
		name = r.Name
		e.paths = append(e.paths, reason+" "+r.FieldPath)
	}
	e.lines = append(e.lines, name+" "+reason+" "+message)
}

func (e *eventLog) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	e.Event(o, kind, reason, fmt.Sprintf(format, args...))
}

func (e *eventLog) AnnotatedEventf(o runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	e.Eventf(o, kind, reason, format, args...)
}

func (e *eventLog) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.lines)
}

// of reports an event of this reason about the container at a path.
func (e *eventLog) of(reason, path string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.paths, reason+" "+path)
}

func (e *eventLog) reasons(pod string) []string {
	var reasons []string
	for _, l := range e.all() {
		if words := strings.SplitN(l, " ", 3); words[0] == pod {
			reasons = append(reasons, words[1])
		}
	}
	return reasons
}

func (e *eventLog) count(pod, reason string) int {
	n := 0
	for _, r := range e.reasons(pod) {
		if r == reason {
			n++
		}
	}
	return n
}

// keepsEnds refuses what the API server refuses: a container that has ended stays so,
// unless the Pod's policy restarts it.
func (w *world) keepsEnds(a k8stesting.Action) (bool, runtime.Object, error) {
	patch, ok := a.(k8stesting.PatchAction)
	if !ok || a.GetSubresource() != "status" {
		return false, nil, nil
	}
	var next corev1.Pod
	if err := json.Unmarshal(patch.GetPatch(), &next); err != nil {
		return true, nil, err
	}
	// Not by the client, which is locked here.
	o, err := w.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), a.GetNamespace(), patch.GetName())
	if err != nil {
		return true, nil, err
	}
	old, ok := o.(*corev1.Pod)
	if !ok || next.Status.Phase == "" || old.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return false, nil, nil
	}
	name := takenBack(old.Spec.RestartPolicy, old.Status.ContainerStatuses, next.Status.ContainerStatuses)
	if name == "" {
		name = takenBack(old.Spec.RestartPolicy, old.Status.InitContainerStatuses, next.Status.InitContainerStatuses)
	}
	if name == "" {
		return false, nil, nil
	}
	w.refused.Add(1)
	return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), old.Name, fmt.Errorf("%s may not be transitioned to non-terminated state", name))
}

// takenBack names a container that has ended for good and is not shown so any more.
func takenBack(policy corev1.RestartPolicy, old, next []corev1.ContainerStatus) string {
	for _, o := range old {
		if t := o.State.Terminated; t == nil || t.ExitCode != 0 && policy == corev1.RestartPolicyOnFailure {
			continue
		}
		for _, n := range next {
			if n.Name == o.Name && n.State.Terminated == nil {
				return n.Name
			}
		}
	}
	return ""
}

// phaseLog sees every status that is written, and finds those that go backwards.
type phaseLog struct {
	mu   sync.Mutex
	seen map[string][]corev1.PodPhase
	// end is the last one of a main container.
	end *corev1.ContainerStateTerminated
	// reason is that of the last status of any Pod.
	reason string
}

func (l *phaseLog) react(a k8stesting.Action) (bool, runtime.Object, error) {
	patch, ok := a.(k8stesting.PatchAction)
	if !ok || a.GetSubresource() != "status" {
		return false, nil, nil
	}
	var p corev1.Pod
	if err := json.Unmarshal(patch.GetPatch(), &p); err != nil {
		return true, nil, err
	}
	if p.Status.Phase == "" {
		return false, nil, nil // it tells of the metadata only
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string][]corev1.PodPhase{}
	}
	if s := p.Status.ContainerStatuses; len(s) > 0 && s[0].State.Terminated != nil {
		l.end = s[0].State.Terminated
	}
	l.reason = p.Status.Reason
	key := string(p.UID)
	l.seen[key] = append(l.seen[key], p.Status.Phase)
	return false, nil, nil
}

func (l *phaseLog) check(t *testing.T) {
	t.Helper()
	rank := map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodRunning: 1, corev1.PodSucceeded: 2, corev1.PodFailed: 2}
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, phases := range l.seen {
		for i := 1; i < len(phases); i++ {
			before, after := phases[i-1], phases[i]
			if rank[after] < rank[before] || (rank[before] == 2 && before != after) {
				t.Errorf("the status of %s went from %s to %s: %v", uid, before, after, phases)
			}
		}
	}
}
