package agent

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/sandbox/mac/tart"
	"github.com/macfleet/macfleet/test/agent/stage"
)

// plan gives tart faults from now on.
func (s *scene) plan(faults ...tart.Fault) {
	s.Helper()
	s.must(s.mac.SetPlan(tart.Plan{BootDelay: tart.Duration(20 * time.Millisecond), Faults: faults}))
}

// deaf makes machines that start from now on end by SIGKILL only.
func (s *scene) deaf() {
	s.Helper()
	s.plan(tart.Fault{Kind: tart.RunIgnoresStop}, tart.Fault{Kind: tart.GuestIgnoresShutdown})
}

// tart is a person at this Mac who calls it.
func (s *scene) tart(args ...string) {
	s.Helper()
	cmd := s.tartCommand(args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("tart %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (s *scene) tartCommand(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.Context(), s.mac.Path("bin", "tart"), args...)
	cmd.Env = append(s.mac.Environ(), "TART_HOME="+s.mac.Path("tart"))
	return cmd
}

// tartRun runs a machine for that person until stop is called.
func (s *scene) tartRun(machine string) (stop func()) {
	s.Helper()
	cmd := s.tartCommand("run", "--no-graphics", machine)
	s.must(cmd.Start())
	s.await(machine+" runs", func() bool { return len(s.processes(stage.RoleGuest, "")) > 0 })
	return func() {
		s.Helper()
		s.must(cmd.Process.Signal(syscall.SIGINT))
		if err := cmd.Wait(); err != nil {
			s.Error(err)
		}
	}
}

func (s *scene) machines() []string {
	s.Helper()
	list, err := os.ReadDir(s.mac.Machines())
	s.must(err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// refuses: a Pod that cannot be honoured, and is not made anew, fails at once with the
// field by name.
func refuses(s *scene) {
	s.join()
	for _, c := range []struct {
		name, reason, says string
		change             func(*corev1.Pod)
	}{
		{"two", "UnsupportedField", "spec.containers", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: stage.Image})
		}},
		{"network", "UnsupportedField", "hostNetwork", func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		{"privileged", "UnsupportedField", "privileged", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		}},
		{"sidecar", "UnsupportedField", "spec.containers[0].command", func(p *corev1.Pod) {
			stage.Before("side", "sleep 1")(p)
			p.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}},
		{"nfs", "UnsupportedField", "nfs", stage.Mounts("data", "/data", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}})},
		{"hostpath", "UnsupportedField", "hostPath", stage.Mounts("etc", "/data", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}})},
		{"aliases", "UnsupportedField", "spec.hostAliases", func(p *corev1.Pod) { p.Spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1"}} }},
		{"user", "UnsupportedField", "runAsUser", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(1000))}
		}},
		{"selector", "NodeAffinity", "", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "such"} }},
		{"cpu", "OutOfcpu", "", asks("64", "4Gi")},
		{"memory", "OutOfmemory", "", asks("2", "900Gi")},
	} {
		p := s.create(c.name, stage.Restarts(corev1.RestartPolicyNever), c.change)
		now := s.awaitPod("has failed", p, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		if now.Status.Reason != c.reason || !strings.Contains(now.Status.Message, c.says) {
			s.Errorf("%s: reason %q, message %q; want %s and %q", c.name, now.Status.Reason, now.Status.Message, c.reason, c.says)
		}
		if c.reason == "UnsupportedField" {
			s.awaitEvent(p, c.reason)
		}
	}
	if n := s.runsOf(""); n != 0 {
		s.Errorf("%d machines were run", n)
	}
	s.clear()
}

// asks sets the resources of the main container.
func asks(cpu, memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities(cpu, memory) }
}

// badImages: what cannot be pulled waits with a kubelet's reason and goes on once it
// can be.
func badImages(s *scene) {
	s.join()
	// All of them are admitted, so that all of them must fit.
	small := asks("500m", "1Gi")
	with := func(image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			small(p)
			p.Spec.Containers[0].Image = image
		}
	}
	missing := s.create("missing", with("registry.test/macos/missing:v1"))
	s.awaitWaiting(missing, "ImagePullBackOff")
	private := s.create("private", with("registry.test/macos/private:v1"))
	s.awaitWaiting(private, "ImagePullBackOff")
	invalid := s.create("invalid", with("Registry.test//UPPER:::v1"))
	s.awaitWaiting(invalid, "InvalidImageName")
	never := s.create("never", small, func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever })
	s.awaitWaiting(never, "ErrImageNeverPull")
	for _, p := range []*corev1.Pod{missing, private, invalid, never} {
		s.remove(p, metav1.DeleteOptions{})
	}
	s.plan(tart.Fault{Kind: tart.PullNoSpace, Times: 1, After: 0})
	full := s.create("full", with("registry.test/macos/big:v1"))
	s.awaitWaiting(full, "ErrImagePull")
	s.plan()
	s.awaitRunning(full)
	s.clear()
}

// noticesLeak: a licence slot that macOS does not give back lowers what the Node
// offers, and the Pod waits.
func noticesLeak(s *scene) {
	s.join()
	s.plan(tart.Fault{Kind: tart.SlotLeak, Times: 2})
	for _, name := range []string{"one", "two"} {
		p := s.awaitRunning(s.create(name, stage.Restarts(corev1.RestartPolicyNever)))
		s.shutDownGuest(p)
		s.awaitEnd(p, corev1.PodSucceeded)
		s.remove(p, metav1.DeleteOptions{})
	}
	p := s.create("waits", stage.Restarts(corev1.RestartPolicyNever))
	s.awaitWaiting(p, "LicenseLimitReached")
	s.await("the Node says so", func() bool {
		n := s.node()
		c := condition(n, "LicenseSlotsHealthy")
		vms, pods := n.Status.Allocatable["macfleet.dev/macos-vm"], n.Status.Allocatable["pods"]
		return c.Status == corev1.ConditionFalse && c.Reason == "SlotsLeaked" && vms.Value() == 0 && pods.Value() == 0
	})
	if now := s.get(p); now.Status.Phase != corev1.PodPending {
		s.Errorf("the Pod is %s", now.Status.Phase)
	}
	s.restartAgent(syscall.SIGTERM)
	s.await("the next agent knows", func() bool {
		n := s.node()
		vms := n.Status.Allocatable["macfleet.dev/macos-vm"]
		return condition(n, "LicenseSlotsHealthy").Status == corev1.ConditionFalse && vms.Value() == 0
	})
	s.plan()
	s.must(s.mac.PowerOff())
	s.must(s.mac.StartAgent())
	s.awaitRunning(p)
	s.await("the Node offers both again", func() bool {
		n := s.node()
		vms := n.Status.Allocatable["macfleet.dev/macos-vm"]
		return condition(n, "LicenseSlotsHealthy").Status == corev1.ConditionTrue && vms.Value() == 2
	})
	s.clear()
}

// killedAtEachStep: wherever the agent dies, the next one goes on, and the machine
// is run once.
func killedAtEachStep(s *scene) {
	s.join()
	slow := tart.Duration(400 * time.Millisecond)
	s.must(s.mac.SetPlan(tart.Plan{PullDelay: slow, CloneDelay: slow, BootDelay: slow}))
	// The journal keeps a call that has ended before anybody looked for its process.
	called := func(verb string) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			calls, err := s.mac.Calls()
			s.must(err)
			return slices.ContainsFunc(calls, func(c stage.Call) bool {
				if c.Verb() != verb {
					return false
				}
				if verb == "pull" { // of an image that no other Pod has
					return slices.Contains(c.Args, p.Spec.Containers[0].Image)
				}
				return strings.Contains(c.Machine(), string(p.UID))
			})
		}
	}
	steps := []struct {
		name string
		seen func(p *corev1.Pod) bool
	}{
		{"pull", called("pull")},
		{"clone", called("clone")},
		{"shim", func(p *corev1.Pod) bool {
			return s.mac.Log.Count("VM created", string(p.UID)) > 0
		}},
		{"run", func(p *corev1.Pod) bool { return len(s.processes(stage.RoleRun, p.UID)) > 0 }},
	}
	for i, step := range steps {
		for j, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			name := fmt.Sprintf("%s-%d", step.name, j)
			p := s.create(name, func(p *corev1.Pod) {
				p.Spec.Containers[0].Image = fmt.Sprintf("registry.test/macos/step-%d-%d:v1", i, j)
			})
			s.await("step "+step.name, func() bool { return step.seen(p) })
			s.restartAgent(sig)
			now := s.awaitRunning(p)
			if n := now.Status.ContainerStatuses[0].RestartCount; n != 0 {
				s.Errorf("%s: %d restarts", name, n)
			}
			if n := s.runsOf(p.UID); n != 1 {
				s.Errorf("%s: the machine was run %d times", name, n)
			}
			s.must(s.plane.Client.CoreV1().Pods(p.Namespace).Delete(s.Context(), p.Name, metav1.DeleteOptions{}))
			s.await(name+" is being stopped", func() bool { return s.mac.Log.Count(string(p.UID)) > 0 })
			s.restartAgent(sig)
			s.await(name+" is gone", func() bool { return s.get(p) == nil })
		}
	}
	s.clear()
}
