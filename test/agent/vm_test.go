package agent

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// joins: a Node with its facts and conditions, and the version of its agent; once deleted,
// it comes back only with another permit.
func joins(s *scene) {
	s.join()
	n := s.node()
	if n.Spec.ProviderID != s.mac.Config.Host.ProviderID {
		s.Errorf("provider ID %q", n.Spec.ProviderID)
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if c := condition(n, kind); c.Status != corev1.ConditionFalse {
			s.Errorf("condition %+v", c)
		}
	}
	s.await("the lease", func() bool {
		_, err := s.plane.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(s.Context(), s.mac.Name, metav1.GetOptions{})
		return err == nil
	})
	nodes := s.plane.Client.CoreV1().Nodes()
	// As the agent before an upgrade left it.
	const versionLabel = "macfleet.dev/agent-version"
	version := n.Labels[versionLabel]
	_, err := nodes.Patch(s.Context(), n.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+versionLabel+`":"v0.0.9"}}}`), metav1.PatchOptions{})
	s.must(err)
	s.await("the Node shows the agent's version again", func() bool { return version != "" && s.node().Labels[versionLabel] == version })
	s.must(nodes.Delete(s.Context(), s.mac.Name, metav1.DeleteOptions{}))
	waits := "permit-1 was used before"
	s.await("the agent waits for another permit", func() bool { return s.mac.Log.Count(waits) > 0 })
	s.must(s.mac.EndAgent(syscall.SIGTERM))
	s.mac.Log.Reset()
	s.must(s.mac.StartAgent())
	s.await("a new agent waits too", func() bool { return s.mac.Log.Count(waits) > 0 })
	if s.node() != nil {
		s.Fatal("a deleted Node came back")
	}
	s.must(s.mac.Permit("permit-2"))
	s.await("the Node is Ready again", s.nodeReady)
}

// runsVM: what a running Pod shows.
func runsVM(s *scene) {
	s.join()
	p := s.awaitRunning(s.create("vm"))
	c := p.Status.ContainerStatuses[0]
	if !strings.HasPrefix(c.ContainerID, "tart://tk-"+string(p.UID)) || !strings.HasPrefix(c.ImageID, "sha256:") && !strings.Contains(c.ImageID, "@sha256:") {
		s.Errorf("container status %+v", c)
	}
	if p.Status.HostIP != s.mac.Config.Host.Address || p.Status.StartTime == nil || p.Status.QOSClass == "" {
		s.Errorf("status %+v", p.Status)
	}
	for _, reason := range []string{"Pulling", "Pulled", "Created", "Started"} {
		s.awaitEvent(p, reason)
	}
	second := s.create("second")
	s.awaitRunning(second)
	third := s.create("third")
	s.await("the third is refused or waits, as two is the limit", func() bool {
		now := s.get(third)
		return now != nil && (now.Status.Phase == corev1.PodFailed || now.Status.Phase == corev1.PodPending && len(now.Status.ContainerStatuses) > 0)
	})
	if n := len(s.processes(stage.RoleRun, "")); n > 2 {
		s.Errorf("%d machines run", n)
	}
	s.clear()
}

// guestEnds: a guest that shuts itself down has succeeded, one that crashes has
// failed, whatever tart's exit code says.
func guestEnds(s *scene) {
	s.join()
	p := s.awaitRunning(s.create("done", stage.Restarts(corev1.RestartPolicyNever)))
	s.shutDownGuest(p)
	if e := s.awaitEnd(p, corev1.PodSucceeded); e.ExitCode != 0 || e.Reason != "Completed" {
		s.Errorf("end %+v", e)
	}
	p = s.awaitRunning(s.create("crash", stage.Restarts(corev1.RestartPolicyNever)))
	s.kill(stage.RoleGuest, p.UID)
	if e := s.awaitEnd(p, corev1.PodFailed); e.ExitCode != 1 || e.Reason != "Error" {
		s.Errorf("end %+v", e)
	}
	s.clear()
}

// shutDownGuest is a person in the guest who chooses Shut Down.
func (s *scene) shutDownGuest(p *corev1.Pod) {
	s.Helper()
	_, machine, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	s.must(os.WriteFile(s.mac.Path("tart", "vms", machine, "guest", "shutdown"), nil, 0o600))
}

// outlivesAgent: machines do not notice that the agent goes and comes back.
func outlivesAgent(s *scene) {
	s.join()
	first := s.awaitRunning(s.create("vm"))
	run := s.processes(stage.RoleRun, first.UID)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		s.mac.Log.Reset()
		s.restartAgent(sig)
		s.await("the VM is adopted", func() bool { return s.mac.Log.Count("move=adopt") > 0 })
	}
	again := s.awaitRunning(first)
	if before, after := first.Status.ContainerStatuses[0], again.Status.ContainerStatuses[0]; before.ContainerID != after.ContainerID || after.RestartCount != 0 {
		s.Errorf("the VM did not outlive the agent: %+v, then %+v", before, after)
	}
	if now := s.processes(stage.RoleRun, first.UID); len(now) != 1 || now[0].PID != run[0].PID {
		s.Errorf("runs %+v, then %+v", run, now)
	}
	s.clear()
}

// endsWithoutAgent: what ends while there is no agent is told by the next one, and
// what is deleted meanwhile goes.
func endsWithoutAgent(s *scene) {
	s.join()
	done := s.awaitRunning(s.create("done", stage.Restarts(corev1.RestartPolicyNever)))
	deleted := s.awaitRunning(s.create("deleted"))
	s.must(s.mac.EndAgent(syscall.SIGKILL))
	s.shutDownGuest(done)
	s.must(s.plane.Client.CoreV1().Pods(deleted.Namespace).Delete(s.Context(), deleted.Name, metav1.DeleteOptions{}))
	s.await("the guest is off", func() bool { return len(s.processes(stage.RoleRun, done.UID)) == 0 })
	s.must(s.mac.StartAgent())
	if e := s.awaitEnd(done, corev1.PodSucceeded); e.ExitCode != 0 {
		s.Errorf("end %+v", e)
	}
	s.await("the deleted Pod is gone", func() bool { return s.get(deleted) == nil })
	s.clear()
}

// losesProcesses: the shim, then the run of a machine is killed.
func losesProcesses(s *scene) {
	s.join()
	p := s.awaitRunning(s.create("shim", stage.Restarts(corev1.RestartPolicyNever)))
	s.kill(stage.RoleShim, p.UID)
	s.shutDownUnlessOff(p)
	// Nobody saw how it ended, so that it counts as killed.
	if e := s.awaitEnd(p, corev1.PodFailed); e.ExitCode != 137 || e.Reason != "ContainerStatusUnknown" {
		s.Errorf("end after the shim %+v", e)
	}
	p = s.awaitRunning(s.create("run", stage.Restarts(corev1.RestartPolicyNever)))
	s.kill(stage.RoleRun, p.UID)
	if e := s.awaitEnd(p, corev1.PodFailed); e.ExitCode == 0 {
		s.Errorf("end after the run %+v", e)
	}
	s.clear()
}

// shutDownUnlessOff lets a machine end that lost its shim.
func (s *scene) shutDownUnlessOff(p *corev1.Pod) {
	s.Helper()
	if len(s.processes(stage.RoleGuest, p.UID)) > 0 {
		s.shutDownGuest(p)
	}
}

// survivesReboot: after a reboot what must not run twice has failed, and the rest
// runs again.
func survivesReboot(s *scene) {
	s.join()
	once := s.awaitRunning(s.create("once", stage.Restarts(corev1.RestartPolicyNever)))
	always := s.awaitRunning(s.create("always"))
	s.must(s.mac.PowerOff())
	s.must(s.mac.StartAgent())
	if e := s.awaitEnd(once, corev1.PodFailed); e.ExitCode == 0 {
		s.Errorf("end of what may run once %+v", e)
	}
	s.awaitPod("runs again", always, func(p *corev1.Pod) bool {
		c := p.Status.ContainerStatuses[0]
		return c.Ready && c.RestartCount == 1 && c.LastTerminationState.Terminated != nil
	})
	if n := s.runsOf(once.UID); n != 1 {
		s.Errorf("what may run once was run %d times", n)
	}
	s.clear()
}

// deletes: a deletion ends as soon as the guest is off, long before its grace
// period; a grace that is shortened counts; force deletion leaves nothing behind.
func deletes(s *scene) {
	s.join()
	p := s.awaitRunning(s.create("grace", stage.Grace(600)))
	s.remove(p, metav1.DeleteOptions{})
	for _, left := range s.mac.Remains() {
		if !strings.HasPrefix(left, "state/pods") { // the journal goes last
			s.Errorf("the object was gone before %s", left)
		}
	}
	// The recorder has a watch of its own, which may be behind what the API server says.
	var last stage.Seen
	s.await("the recorder sees the deletion", func() bool {
		if history := s.seen.Of(p.UID); len(history) > 0 {
			last = history[len(history)-1]
		}
		return last.Gone
	})
	if phase := last.Pod.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
		s.Errorf("the last phase was %s", phase)
	}
	s.deaf()
	p = s.awaitRunning(s.create("shortened", stage.Grace(600)))
	pods := s.plane.Client.CoreV1().Pods(p.Namespace)
	s.must(pods.Delete(s.Context(), p.Name, metav1.DeleteOptions{}))
	s.awaitEvent(p, "Killing")
	s.must(pods.Delete(s.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(1))}))
	s.await("the shortened grace counts", func() bool { return s.get(p) == nil })

	p = s.awaitRunning(s.create("forced"))
	s.must(pods.Delete(s.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	s.await("nothing is left of the forced", func() bool { return s.get(p) == nil && len(s.mac.Remains()) == 0 })
	s.clear()
}

// reusesName: a StatefulSet makes its Pod again under the same name at once.
func reusesName(s *scene) {
	s.join()
	first := s.awaitRunning(s.create("same"))
	pods := s.plane.Client.CoreV1().Pods(first.Namespace)
	s.must(pods.Delete(s.Context(), first.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	second := s.awaitRunning(s.create("same"))
	if first.UID == second.UID {
		s.Fatal("the second Pod is the first")
	}
	s.await("only the second has a machine", func() bool {
		return len(s.processes(stage.RoleRun, first.UID)) == 0 && len(s.processes(stage.RoleRun, second.UID)) == 1
	})
	s.clear()
}

// leavesForeignAlone: other people's machines take slots and are never touched.
func leavesForeignAlone(s *scene) {
	s.tart("clone", stage.Image, "build")
	s.tart("clone", stage.Image, "tk-notes")
	stop := s.tartRun("build")
	s.join()
	p := s.awaitRunning(s.create("one"))
	waits := s.create("two")
	s.awaitPod("waits", waits, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodPending })
	s.remove(p, metav1.DeleteOptions{})
	s.awaitRunning(waits)
	if n := len(s.processes(stage.RoleRun, "")); n != 2 {
		s.Errorf("%d machines run, want the foreign one and the Pod's", n)
	}
	s.clear()
	names := s.machines()
	if !slices.Contains(names, "build") || !slices.Contains(names, "tk-notes") {
		s.Errorf("machines left: %v", names)
	}
	if len(s.processes(stage.RoleRun, "")) != 1 {
		s.Error("the foreign machine was stopped")
	}
	stop()
}

// survivesGarbage: half-written and hostile journals hold nothing up.
func survivesGarbage(s *scene) {
	s.join()
	p := s.awaitRunning(s.create("vm"))
	s.must(s.mac.EndAgent(syscall.SIGKILL))
	for _, name := range []string{"not-a-uid", "22222222-2222-4222-8222-222222222222"} {
		s.must(os.MkdirAll(s.mac.Path("state", "pods", name), 0o700))
		s.writeFile("state/pods/"+name+"/record.json", "\x00\xff{{{")
	}
	s.writeFile("state/pods/"+string(p.UID)+"/record.json", `{"uid":"somebody-else"`)
	s.must(os.MkdirAll(s.mac.Path("tart", "vms", "tk-33333333-3333-4333-8333-333333333333-0"), 0o700))
	s.must(s.mac.StartAgent())
	again := s.awaitRunning(p)
	if n := len(s.processes(stage.RoleRun, p.UID)); n != 1 {
		s.Errorf("%d runs of the Pod", n)
	}
	if again.Status.ContainerStatuses[0].RestartCount != p.Status.ContainerStatuses[0].RestartCount {
		s.Errorf("container %+v", again.Status.ContainerStatuses[0])
	}
	s.clear()
}

// losesAPIServer: nothing stops while the API server refuses connections, and what
// happened meanwhile is told once.
func losesAPIServer(s *scene) {
	s.join()
	stays := s.awaitRunning(s.create("stays"))
	ends := s.awaitRunning(s.create("ends", stage.Restarts(corev1.RestartPolicyNever)))
	s.mac.Link.Cut()
	s.shutDownGuest(ends)
	s.await("the guest is off", func() bool { return len(s.processes(stage.RoleRun, ends.UID)) == 0 })
	s.restartAgent(syscall.SIGKILL)
	s.mac.Link.Mend()
	if e := s.awaitEnd(ends, corev1.PodSucceeded); e.ExitCode != 0 {
		s.Errorf("end %+v", e)
	}
	if again := s.awaitRunning(stays); again.Status.ContainerStatuses[0].ContainerID != stays.Status.ContainerStatuses[0].ContainerID {
		s.Errorf("container %+v", again.Status.ContainerStatuses[0])
	}
	s.clear()
}

// survivesSilence: the network swallows everything for longer than two renewals of
// the lease; the Node's lease goes on soon after.
func survivesSilence(s *scene) {
	s.join()
	s.mac.Link.Swallow()
	s.await("renewals of the lease fail", func() bool { return s.mac.Log.Count("lease") > 0 })
	before := s.renewed()
	s.mac.Link.Mend()
	s.await("the lease is renewed", func() bool { return s.renewed().After(before) })
	s.await("the Node is Ready", s.nodeReady) // its status follows
	s.clear()
}

func (s *scene) renewed() time.Time {
	l, err := s.plane.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(s.Context(), s.mac.Name, metav1.GetOptions{})
	if err != nil || l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}
