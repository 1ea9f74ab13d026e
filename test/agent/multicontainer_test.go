package agent

import (
	"os"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// besideOneAnother: containers of one guest have ends of their own, whatever becomes of the
// agent meanwhile.
func besideOneAnother(s *scene) {
	s.join()
	s.endsApart()
	s.restartsInPlace()
	s.clear()
}

// untilTold writes down that it runs, and goes on until the file of its name is there.
func untilTold(name, then string) string {
	return "echo run >>/opt/marks/" + name + "; until test -e /opt/marks/end-" + name + "; do sleep 0.05; done; " + then
}

// endsApart: each of three ends while no agent is there, by a code of its own, and the
// sidecar is told to end after the others.
func (s *scene) endsApart() {
	s.Helper()
	p := s.create("apart", stage.Restarts(corev1.RestartPolicyNever), stage.Runs(untilTold("main", "exit 3")),
		stage.Beside("web", untilTold("web", "exit 4")),
		stage.Sidecar("proxy", "trap 'echo told >>/opt/marks/proxy; exit 5' TERM; echo run >>/opt/marks/proxy; while :; do sleep 0.05; done"),
		stage.Mounts("marks", "/opt/marks", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: s.mac.Path("hostpath")}}))
	s.awaitPod("runs", p, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == 2
	})
	for _, c := range []struct {
		container string
		code      int32
	}{{"web", 4}, {"main", 3}} {
		s.must(s.mac.EndAgent(syscall.SIGKILL))
		s.writeFile("hostpath/end-"+c.container, "")
		s.must(s.mac.StartAgent())
		s.awaitPod(c.container+" has ended", p, func(p *corev1.Pod) bool { return endOf(p, c.container) == c.code })
	}
	now := s.awaitPod("has failed", p, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if endOf(now, "web") != 4 || endOf(now, "proxy") != 5 {
		s.Errorf("containers %+v, %+v", now.Status.ContainerStatuses, now.Status.InitContainerStatuses)
	}
	for name, want := range map[string]string{"main": "run", "web": "run", "proxy": "run told"} {
		marks, err := os.ReadFile(s.mac.Path("hostpath", name))
		s.must(err)
		if got := strings.Join(strings.Fields(string(marks)), " "); got != want {
			s.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if n := s.runsOf(p.UID); n != 1 {
		s.Errorf("%d machines were run", n)
	}
}

// endOf is the exit code of a container that has ended; -1: it has not.
func endOf(p *corev1.Pod, container string) int32 {
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if c.Name == container && c.State.Terminated != nil {
			return c.State.Terminated.ExitCode
		}
	}
	return -1
}

// restartsInPlace: a container that fails runs again in the guest in which the other goes on.
func (s *scene) restartsInPlace() {
	s.Helper()
	p := s.create("again", stage.Restarts(corev1.RestartPolicyOnFailure),
		stage.Runs(once+"until test -e /tmp/done; do sleep 0.05; done"),
		stage.Beside("web", "test -e /tmp/tried && touch /tmp/done && exit 0; touch /tmp/tried; exit 6"))
	now := s.awaitPod("has succeeded", p, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	main, web := now.Status.ContainerStatuses[0], now.Status.ContainerStatuses[1]
	if last := web.LastTerminationState.Terminated; main.RestartCount != 0 || web.RestartCount != 1 || last == nil || last.ExitCode != 6 {
		s.Errorf("containers %+v, %+v", main, web)
	}
	if n := s.runsOf(p.UID); n != 1 {
		s.Errorf("%d machines were run", n)
	}
}
