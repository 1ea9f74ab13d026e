package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/test/bench/figure"
)

const (
	// jobsAtOnce of twelve slots: while Macs are away some wait.
	jobsAtOnce = 8
	// jobPatience is how long a job of seconds may take, waits for Macs that are wiped included.
	jobPatience = 8 * time.Minute
	jobLabel    = "soak"
)

// ci starts Pods that run once, and judges how they end.
type ci struct {
	f      *fleet
	random *rand.Rand
	end    context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	paused bool
	jobs   map[types.UID]*job
	next   int

	done, interrupted, gone int
}

type job struct {
	name string
	code int32
	late bool
}

func newCI(f *fleet, seed uint64) *ci {
	ctx, end := context.WithCancel(f.Context())
	c := &ci{f: f, random: rand.New(rand.NewPCG(seed, 1)), end: end, ended: make(chan struct{}), jobs: map[types.UID]*job{}}
	f.Cleanup(c.stop)
	go func() {
		defer close(c.ended)
		everySecond(ctx, func() { c.turn(ctx) })
	}()
	return c
}

// everySecond calls f until ctx ends.
func everySecond(ctx context.Context, f func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

func (c *ci) stop() {
	c.end()
	<-c.ended
}

// pause starts no more jobs, and waits until those there are have ended.
func (c *ci) pause() {
	c.f.Helper()
	c.set(true)
	c.f.await("the jobs to end", func() (string, bool) {
		left := c.f.pods()
		return describePods(left), len(left) == 0
	})
}

func (c *ci) resume() { c.set(false) }

func (c *ci) set(paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = paused
}

func (c *ci) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d jobs ended as they should, %d were interrupted and say so, %d went with their Pod", c.done, c.interrupted, c.gone)
}

// figures are the same for the book.
func (c *ci) figures() []figure.Figure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []figure.Figure{
		figure.New("jobs that ended as they should", "", figure.Of(c.done)),
		figure.New("jobs that were interrupted and said so", "", figure.Of(c.interrupted)),
		figure.New("jobs that went with their Pod", "", figure.Of(c.gone)),
	}
}

func (c *ci) turn(ctx context.Context) {
	var pods corev1.PodList
	if c.f.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.HasLabels{jobLabel}) != nil {
		return // the next turn sees it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, waiting := map[types.UID]bool{}, 0
	for i := range pods.Items {
		p := &pods.Items[i]
		seen[p.UID] = true
		if j := c.jobs[p.UID]; j != nil && c.judge(p, j) {
			delete(c.jobs, p.UID)
			_ = c.f.client.Delete(ctx, p) // or the next turn does
		} else if j == nil && ended(p) && p.DeletionTimestamp == nil {
			_ = c.f.client.Delete(ctx, p)
		}
		if !ended(p) {
			waiting++
		}
	}
	for uid := range c.jobs {
		if !seen[uid] { // drained, or collected with its Node
			c.gone++
			delete(c.jobs, uid)
		}
	}
	for ; !c.paused && waiting < jobsAtOnce; waiting++ {
		c.begin(ctx)
	}
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (c *ci) begin(ctx context.Context) {
	c.next++
	j := &job{name: fmt.Sprintf("job-%d", c.next), code: int32(c.random.IntN(4) / 3 * 7)}
	spec := macPod()
	spec.RestartPolicy, spec.TerminationGracePeriodSeconds = corev1.RestartPolicyNever, ptr.To(int64(2))
	spec.Containers[0].Command = []string{"/bin/sh", "-c", fmt.Sprintf("sleep %d; exit %d", 1+c.random.IntN(30), j.code)}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: j.name, Labels: map[string]string{jobLabel: ""}}, Spec: spec}
	if c.f.client.Create(ctx, p) == nil {
		c.jobs[p.UID] = j
	}
}

// judge says whether a job is over, and fails the test where it did not end as a job does.
func (c *ci) judge(p *corev1.Pod, j *job) bool {
	if !ended(p) {
		if !j.late && time.Since(p.CreationTimestamp.Time) > jobPatience {
			j.late = true
			c.f.Errorf("a job does not end: %s", describePods([]corev1.Pod{*p}))
		}
		return false
	}
	code, reason := exitOf(p)
	succeeded := p.Status.Phase == corev1.PodSucceeded
	switch {
	case code != nil && *code == j.code && succeeded == (j.code == 0):
		c.done++
	case !succeeded && (p.Status.Reason != "" || reason != "" || disrupted(p)):
		c.interrupted++
	default:
		c.f.Errorf("a job that exits %d ends otherwise, and nothing says why: %s", j.code, describePods([]corev1.Pod{*p}))
	}
	return true
}

// exitOf is how the container ended; the reason is one that tells more than the code.
func exitOf(p *corev1.Pod) (code *int32, reason string) {
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			code = &t.ExitCode
			if t.Reason != "Error" && t.Reason != "Completed" {
				reason = t.Reason
			}
		}
	}
	return code, reason
}

func disrupted(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
