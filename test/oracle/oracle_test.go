package oracle

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// What `make oracle` asks for.
var (
	hollow = flag.String("hollow", "", "the built hollow kubelet")
	pods   = flag.Int("pods", 130, "how many Pods")
	seed   = flag.Uint64("seed", 1, "of which seed")
	macs   = flag.Int("macs", 4, "on how many Macs, two at a time on each")
	keep   = flag.Bool("record", false, "keep what the hollow kubelet tells of the few that make test plays")
)

const (
	hollowNode = "hollow"
	patience   = 5 * time.Minute
)

// theatre is where plays are played.
type theatre struct {
	*testing.T
	plane *stage.Plane
	seen  *stage.Recorder
}

func newTheatre(t *testing.T) *theatre {
	t.Helper()
	dir, err := os.MkdirTemp("", "orc") // kept apart from t.TempDir, whose path is long
	if err != nil {
		t.Fatal(err)
	}
	plane, err := stage.Start(t.Context(), stage.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	seen := stage.Record(t.Context(), plane.Client, nil)
	t.Cleanup(func() {
		seen.Stop()
		if err := plane.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return &theatre{t, plane, seen}
}

// startHollow starts the hollow kubelet, and says what it said where the test fails.
func (h *theatre) startHollow(binary string) {
	h.Helper()
	log := &stage.Log{}
	kubelet, err := h.plane.StartHollow(binary, hollowNode, log, "-sandbox-takes=2s", "-start-takes=1s")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		kubelet.Stop()
		if h.Failed() {
			h.Logf("the hollow kubelet said:\n%s", log.Tail(5000))
		}
	})
	h.awaitNode(hollowNode)
}

// startMac returns the name of its Node.
func (h *theatre) startMac(i int) string {
	h.Helper()
	mac, err := h.plane.NewMac(h.Context(), fmt.Sprintf("mac-%d", i))
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		if err := mac.Close(); err != nil {
			h.Error(err)
		}
	})
	if err := mac.StartAgent(); err != nil {
		h.Fatal(err)
	}
	h.awaitNode(mac.Name)
	return mac.Name
}

func (h *theatre) await(what string, done func() bool) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	if err := stage.Await(ctx, what, done); err != nil {
		h.Error(err)
	}
}

func (h *theatre) awaitNode(name string) {
	h.Helper()
	h.await(name+" ready", func() bool {
		n, err := h.plane.Client.CoreV1().Nodes().Get(h.Context(), name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
}

// story is all that was told of a Pod.
type story struct{ Status, Events []string }

// on plays a play on a Node, and returns its Pod; nil where that failed.
func (h *theatre) on(p play, node string) *corev1.Pod {
	pod := p.pod.DeepCopy()
	pod.Name, pod.Spec.NodeName = p.name+"-"+node, node
	api := h.plane.Client.CoreV1().Pods(pod.Namespace)
	pod, err := api.Create(h.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		h.Error(err)
		return nil
	}
	h.await(pod.Name+" is to be deleted", func() bool {
		versions := h.seen.Of(pod.UID)
		return len(versions) > 0 && p.due(versions[len(versions)-1], time.Now())
	})
	if err := api.Delete(h.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		h.Error(err)
	}
	h.await(pod.Name+" is gone", func() bool {
		versions := h.seen.Of(pod.UID)
		return len(versions) > 0 && versions[len(versions)-1].Gone
	})
	return pod
}

// told is the story of a Pod that is gone. Events come later than what they are about.
func (h *theatre) told(pod *corev1.Pod) story {
	if pod == nil {
		return story{}
	}
	events, err := h.plane.Client.CoreV1().Events(pod.Namespace).List(h.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
	if err != nil {
		h.Error(err)
		return story{}
	}
	return story{tell(h.seen.Of(pod.UID)), tellEvents(pod, events.Items)}
}

// shown is how long a state lasts that has to be told before the next.
const shown = 3 * time.Second

// due: the play's Pod has ended, or is as it has to be when it is deleted, for some time.
func (p play) due(seen stage.Seen, at time.Time) bool {
	status := seen.Pod.Status
	if at.Sub(seen.At) < shown {
		return false
	}
	if status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed {
		return true
	}
	for _, s := range status.ContainerStatuses {
		if !p.deleted || s.Name != "main" || s.RestartCount < p.restarts {
			continue
		}
		if p.waits != "" && s.State.Waiting != nil && s.State.Waiting.Reason == p.waits {
			return true
		}
		if p.waits == "" && s.State.Running != nil && (s.Ready || p.unready) {
			return true
		}
	}
	return false
}

// TestOracle plays Pods on the hollow kubelet and on Macs, at least 95 of 100 of which have to be told alike.
func TestOracle(t *testing.T) {
	if *hollow == "" {
		t.Skip("make oracle runs it")
	}
	h := newTheatre(t)
	h.startHollow(*hollow)
	plays := generate(*seed, *pods)
	sides := map[string]*[2]*corev1.Pod{}
	for _, p := range plays {
		sides[p.name] = new([2]*corev1.Pod)
	}
	h.onMacs(*macs, plays, func(p play, mac string) {
		var both sync.WaitGroup
		for i, node := range []string{hollowNode, mac} {
			both.Go(func() { sides[p.name][i] = h.on(p, node) })
		}
		both.Wait()
	})
	h.judge(plays, func(p play) (kubelet, agent story) {
		return h.told(sides[p.name][0]), h.told(sides[p.name][1])
	})
	if *keep {
		h.record(func(p play) story { return h.told(sides[p.name][0]) })
	}
}

// onMacs plays all plays, two at a time on each Mac.
func (h *theatre) onMacs(macs int, plays []play, on func(p play, mac string)) {
	h.Helper()
	names := make([]string, macs)
	for i := range names {
		names[i] = h.startMac(i)
	}
	work := make(chan play)
	var all sync.WaitGroup
	for _, mac := range slices.Concat(names, names) {
		all.Go(func() {
			for p := range work {
				on(p, mac)
			}
		})
	}
	for _, p := range plays {
		work <- p
	}
	close(work)
	all.Wait()
}

// judge compares what was told of each play.
func (h *theatre) judge(plays []play, of func(play) (kubelet, agent story)) {
	h.Helper()
	var said strings.Builder
	alike, exactly := 0, 0
	for _, p := range plays {
		kubelet, agent := of(p)
		if len(kubelet.Status) == 0 || len(agent.Status) == 0 {
			h.Errorf("%s was not told of", p.name)
		}
		switch d := differ(kubelet, agent, rules()); {
		case d != "":
			fmt.Fprintf(&said, "%s (-kubelet +agent):\n%s\n", p.name, d)
		default:
			alike++
		}
		if slices.Equal(kubelet.Status, agent.Status) {
			exactly++
		}
	}
	h.Logf("%d of %d Pods are told alike, the statuses of %d without any rule; what differs:\n%s", alike, len(plays), exactly, &said)
	if alike*100 < len(plays)*95 {
		h.Errorf("%d of %d Pods are told alike, want 95 of 100", alike, len(plays))
	}
}
