package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// restTime is how long a Mac that is left alone may take to come to rest: far more than it
// takes, so that only a real hang breaks it on a busy machine.
const restTime = 5 * time.Minute

// history is the life of one Mac.
type history struct {
	*world
	seed  uint64
	agent string
	dice  *rand.Rand
	mac   *stage.Mac
	began time.Time
	round int
	acts  int
	pods  int
	// small: the disk of the agent's state can be filled.
	small bool
	// lines are what was done.
	lines []string
	// said is the agent's log before its goroutines.
	said string
	// descriptors of the agent at rest, after the first round.
	descriptors int

	mu     sync.Mutex
	broken []string
}

// play lives one history, and cleans up after it. agent is the name of one with a
// bug, empty for the real one.
func (w *world) play(t *testing.T, agent string, seed uint64, rounds int) *history {
	t.Helper()
	h := &history{world: w, seed: seed, agent: agent, dice: rand.New(rand.NewPCG(seed, 0)), began: time.Now()}
	ctx := t.Context()
	if err := h.join(ctx); err != nil {
		t.Fatal(err)
	}
	for h.round = 1; h.round <= rounds && len(h.breaches()) == 0; h.round++ {
		h.live(ctx)
		h.rest(ctx)
	}
	h.round--
	if len(h.breaches()) == 0 {
		h.end(ctx)
	}
	w.guard.forget(h.mac)
	if err := h.mac.Close(); err != nil {
		t.Error(err)
	}
	h.clearAway(ctx)
	w.seen.Forget()
	return h
}

func (h *history) join(ctx context.Context) (err error) {
	if h.mac, err = h.plane.NewMac(ctx, fmt.Sprintf("mac%s-%d", h.agent, h.seed)); err != nil {
		return err
	}
	h.mac.ExtraEnv = []string{"GORACE=atexit_sleep_ms=0"} // or each end takes a second
	if h.agent != "" {
		if err := h.mac.UseAgent(h.agent); err != nil {
			return err
		}
	}
	h.small = h.mac.LimitDisk(64<<20) == nil
	h.guard.add(h.mac, h.breaks)
	if err := h.mac.StartAgent(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	return stage.Await(ctx, "the Node is Ready", func() bool {
		n, err := h.plane.Client.CoreV1().Nodes().Get(ctx, h.mac.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	})
}

// say writes a line of the history.
func (h *history) say(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf("%7.2fs round %2d: ", time.Since(h.began).Seconds(), h.round)+fmt.Sprintf(format, args...))
}

// breaks notes a broken promise, once. It may be called from anywhere.
func (h *history) breaks(promise string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.broken, promise) {
		h.broken = append(h.broken, promise)
	}
}

// breaches are the promises broken so far.
func (h *history) breaches() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.broken)
}

// live does a few things, with little time between them.
func (h *history) live(ctx context.Context) {
	if h.agent != "" || h.chance(70) {
		h.create(ctx)
		h.awaitLife(ctx)
	}
	if h.agent != "" {
		h.killAgent(ctx) // a bug that strikes then is not to be waited for long
	}
	for range 2 + h.dice.IntN(4) {
		h.act(ctx)
		time.Sleep(time.Duration(h.dice.IntN(250)) * time.Millisecond) // chance decides when it strikes
	}
	h.acts++
}

// lifeTime is how long a Pod may take to begin before something is done to it; it may
// never begin. Where a bug is to strike, it is worth more: on a slow machine nothing has
// begun in two seconds, and what is killed then has nothing to run again.
const (
	lifeTime   = 2 * time.Second
	lifeOfABug = 30 * time.Second
)

// awaitLife waits until some container has begun.
func (h *history) awaitLife(ctx context.Context) {
	most := lifeTime
	if h.agent != "" {
		most = lifeOfABug
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	_ = stage.Await(ctx, "life", func() bool {
		for _, p := range h.mine(ctx) {
			for _, c := range p.Status.ContainerStatuses {
				if c.State.Running != nil {
					return true
				}
			}
		}
		return ctx.Err() != nil
	})
}

// rest mends everything, lets some Pods go, and waits until nothing is left of those.
func (h *history) rest(ctx context.Context) {
	h.mend()
	keep := h.chance(25)
	left := h.mine(ctx)
	for i := range left {
		if keep && i == 0 && left[0].DeletionTimestamp == nil {
			continue
		}
		h.remove(ctx, &left[i], nil)
	}
	h.say("rests, keeps a Pod: %t", keep)
	waiting, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	if err := stage.Await(waiting, "rest", func() bool { return len(h.unrest(ctx)) == 0 || len(h.breaches()) > 0 }); err != nil {
		h.breaks(fmt.Sprintf("it does not come to rest in %s: %s", restTime, strings.Join(h.unrest(ctx), "; ")))
	}
	h.check(ctx)
	h.healLicence(ctx)
}

// mend ends all faults and makes sure that an agent runs.
func (h *history) mend() {
	h.plan()
	h.try(h.mac.FreeDisk())
	h.mac.Link.Mend()
	if h.mac.AgentPID() == 0 {
		h.try(h.mac.StartAgent())
	} else if !h.agentAlive() {
		h.breaks("the agent ended by itself")
	}
}

// unrest is why the Mac is not at rest: what is there of Pods that are not, and Pods
// that should be gone.
func (h *history) unrest(ctx context.Context) []string {
	var why []string
	alive := map[string]bool{}
	for _, p := range h.mine(ctx) {
		alive[string(p.UID)] = true
		if p.DeletionTimestamp != nil {
			why = append(why, "Pod "+p.Name+" is not gone")
		}
	}
	for _, r := range h.mac.Remains() {
		belongs := false
		for uid := range alive {
			belongs = belongs || strings.Contains(r, uid)
		}
		// A shim's arguments name its folder; Remains shows its process alone.
		if !belongs && !(len(alive) > 0 && strings.Contains(r, "shim")) {
			why = append(why, "left: "+r)
		}
	}
	return why
}

// mine are the Pods of this Mac.
func (h *history) mine(ctx context.Context) []corev1.Pod {
	list, err := h.plane.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + h.mac.Name})
	if err != nil {
		if ctx.Err() == nil {
			h.breaks("the test cannot list Pods: " + err.Error())
		}
		return nil
	}
	return list.Items
}

// clearAway removes what the API server still has of this Mac, for the next.
func (h *history) clearAway(ctx context.Context) {
	now := int64(0)
	for _, p := range h.mine(ctx) {
		h.guard.forced(p.UID)
		_ = h.plane.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
	_ = h.plane.Client.CoreV1().Nodes().Delete(ctx, h.mac.Name, metav1.DeleteOptions{})
}

func (h *history) chance(percent int) bool { return h.dice.IntN(100) < percent }

// try notes what the test itself could not do.
func (h *history) try(err error) {
	if err != nil {
		h.breaks("the test failed: " + err.Error())
	}
}

// report prints a history that broke a promise, or any when all is asked for.
func (h *history) report(t *testing.T, all bool) {
	t.Helper()
	if len(h.breaches()) > 0 {
		t.Errorf("seed %d broke promises in round %d:\n%s\nhistory:\n%s\nthe agent said:\n%s\nagain: go test ./test/chaos -run TestChaos -seed %d",
			h.seed, h.round, strings.Join(h.breaches(), "\n"), strings.Join(h.lines, "\n"), h.mac.Log.Tail(30000), h.seed)
	} else if all {
		t.Logf("seed %d:\n%s\nthe agent said:\n%s", h.seed, strings.Join(h.lines, "\n"), h.said)
	}
}
