package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// patience bounds every wait; a quiet machine needs a few seconds for each.
const patience = 5 * time.Minute

// scene is one story on one Mac. Stories share the control plane.
type scene struct {
	*testing.T
	plane *stage.Plane
	mac   *stage.Mac
	seen  *stage.Recorder
	// begin is when the story began.
	begin time.Time
}

// newScene prepares a Mac whose agent does not run yet. In the end nothing may be
// left of it.
func newScene(t *testing.T, plane *stage.Plane, seen *stage.Recorder, name string) *scene {
	t.Helper()
	mac, err := plane.NewMac(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, plane: plane, mac: mac, seen: seen, begin: time.Now()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the agent said:\n%s", mac.Log.Tail(20000))
		}
		if err := mac.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// must ends the story with err.
func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) await(what string, done func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := stage.Await(ctx, what, done); err != nil {
		s.Errorf("%v; Pods:\n%son the Mac:\n%s", err, s.pods(), strings.Join(s.mac.Remains(), "\n"))
		s.FailNow()
	}
}

// pods are those of this Mac, for failures.
func (s *scene) pods() string {
	list, err := s.plane.Client.CoreV1().Pods("").List(s.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + s.mac.Name})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, p := range list.Items {
		fmt.Fprintf(&b, "%s: phase %s reason %q message %q\n", p.Name, p.Status.Phase, p.Status.Reason, p.Status.Message)
		for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
			fmt.Fprintf(&b, "  %s: restarts %d state %s\n", c.Name, c.RestartCount, c.State.String())
		}
	}
	return b.String()
}

// join starts the agent and waits for its Node.
func (s *scene) join() {
	s.Helper()
	s.must(s.mac.StartAgent())
	s.await("the Node is Ready", func() bool { return s.nodeReady() })
}

func (s *scene) node() *corev1.Node {
	n, err := s.plane.Client.CoreV1().Nodes().Get(s.Context(), s.mac.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return n
}

func (s *scene) nodeReady() bool {
	n := s.node()
	return n != nil && condition(n, corev1.NodeReady).Status == corev1.ConditionTrue
}

func condition(n *corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// create makes a Pod of this Mac, whose name gets that of the Mac before it.
func (s *scene) create(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	s.Helper()
	p, err := s.plane.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(s.Context(), s.mac.Pod(s.name(name), changes...), metav1.CreateOptions{})
	s.must(err)
	return p
}

func (s *scene) name(short string) string { return s.mac.Name + "-" + short }

// get returns nil when there is no such Pod any more, also when another one has its
// name.
func (s *scene) get(p *corev1.Pod) *corev1.Pod {
	now, err := s.plane.Client.CoreV1().Pods(p.Namespace).Get(s.Context(), p.Name, metav1.GetOptions{})
	if err != nil || now.UID != p.UID {
		return nil
	}
	return now
}

// awaitPod waits until the Pod is as wanted, and returns it.
func (s *scene) awaitPod(what string, p *corev1.Pod, as func(*corev1.Pod) bool) *corev1.Pod {
	s.Helper()
	var now *corev1.Pod
	s.await(p.Name+" "+what, func() bool {
		now = s.get(p)
		return now != nil && as(now)
	})
	return now
}

func (s *scene) awaitRunning(p *corev1.Pod) *corev1.Pod {
	s.Helper()
	return s.awaitPod("runs", p, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	})
}

// awaitEnd waits for the terminal phase and returns how the main container ended.
func (s *scene) awaitEnd(p *corev1.Pod, phase corev1.PodPhase) *corev1.ContainerStateTerminated {
	s.Helper()
	now := s.awaitPod("is "+string(phase), p, func(p *corev1.Pod) bool { return p.Status.Phase == phase })
	if len(now.Status.ContainerStatuses) != 1 || now.Status.ContainerStatuses[0].State.Terminated == nil {
		s.Fatalf("%s is %s without an end: %+v", p.Name, phase, now.Status.ContainerStatuses)
	}
	return now.Status.ContainerStatuses[0].State.Terminated
}

// awaitWaiting waits until the main container waits for a reason.
func (s *scene) awaitWaiting(p *corev1.Pod, reason string) *corev1.ContainerStateWaiting {
	s.Helper()
	var w *corev1.ContainerStateWaiting
	s.awaitPod("waits: "+reason, p, func(p *corev1.Pod) bool {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Waiting != nil && c.State.Waiting.Reason == reason {
				w = c.State.Waiting
				return true
			}
		}
		return false
	})
	return w
}

// remove deletes a Pod and waits until it and all of it are gone.
func (s *scene) remove(p *corev1.Pod, o metav1.DeleteOptions) {
	s.Helper()
	if err := s.plane.Client.CoreV1().Pods(p.Namespace).Delete(s.Context(), p.Name, o); !stage.IsGone(err) {
		s.must(err)
	}
	s.await(p.Name+" is gone", func() bool { return s.get(p) == nil })
}

// clear deletes all Pods of the Mac and proves that nothing is left, and that no
// status went backwards.
func (s *scene) clear() {
	s.Helper()
	list, err := s.plane.Client.CoreV1().Pods("").List(s.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + s.mac.Name})
	s.must(err)
	for i := range list.Items {
		s.remove(&list.Items[i], metav1.DeleteOptions{})
	}
	s.await("nothing is left of the Pods", func() bool { return len(s.mac.Remains()) == 0 })
	for _, rule := range s.seen.Broken() {
		if strings.Contains(rule, s.mac.Name+"-") {
			s.Error(rule)
		}
	}
}

// awaitEvent waits for an event about a Pod.
func (s *scene) awaitEvent(p *corev1.Pod, reason string) corev1.Event {
	s.Helper()
	var found corev1.Event
	s.await("an event "+reason+" about "+p.Name, func() bool {
		list, err := s.plane.Client.CoreV1().Events(p.Namespace).List(s.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.uid=" + string(p.UID) + ",reason=" + reason,
		})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		found = list.Items[len(list.Items)-1]
		return true
	})
	return found
}

// processes of one role, of one Pod where uid is not empty.
func (s *scene) processes(role stage.Role, uid types.UID) []stage.Process {
	var list []stage.Process
	for _, p := range s.mac.Processes() {
		if p.Role == role && strings.Contains(strings.Join(p.Args, " "), string(uid)) {
			list = append(list, p)
		}
	}
	return list
}

// kill kills the processes of one role of a Pod. A process shows what it is once its
// program was started, which a busy machine does a moment after the Pod runs.
func (s *scene) kill(role stage.Role, uid types.UID) {
	s.Helper()
	var list []stage.Process
	s.await(fmt.Sprintf("a %s of %s to kill", role, uid), func() bool {
		list = s.processes(role, uid)
		return len(list) > 0
	})
	for _, p := range list {
		s.must(syscall.Kill(p.PID, syscall.SIGKILL))
	}
}

// restartAgent ends the agent with a signal and starts the next one.
func (s *scene) restartAgent(sig syscall.Signal) {
	s.Helper()
	s.must(s.mac.EndAgent(sig))
	s.must(s.mac.StartAgent())
}

// runsOf counts how often tart was told to run a machine of the Pod.
func (s *scene) runsOf(uid types.UID) int {
	s.Helper()
	calls, err := s.mac.Calls()
	s.must(err)
	n := 0
	for _, c := range calls {
		if c.Verb() == "run" && strings.Contains(c.Machine(), string(uid)) {
			n++
		}
	}
	return n
}

// writeFile below the Mac's folder.
func (s *scene) writeFile(path, text string) {
	s.Helper()
	s.must(os.WriteFile(s.mac.Path(path), []byte(text), 0o600))
}
