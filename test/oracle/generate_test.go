package oracle

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// play is a Pod, and what is done to it.
type play struct {
	name string
	pod  *corev1.Pod
	// deleted: once main runs, or waits for this reason, with so many restarts. Others end by themselves.
	deleted  bool
	waits    string
	restarts int32
	// unready: it never is ready.
	unready bool
}

// choice changes a play, and names itself; empty: it does not go with what was chosen before.
type choice func(*rand.Rand, *play) string

// generate makes the plays of a seed.
func generate(seed uint64, n int) []play {
	chance := rand.New(rand.NewPCG(seed, seed))
	plays := make([]play, n)
	for i := range plays {
		plays[i] = one(chance, i)
	}
	return plays
}

func one(chance *rand.Rand, i int) play {
	p := play{pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To(int64(5 + chance.IntN(3))),
			Containers:                    []corev1.Container{container("main", "")},
		},
	}}
	name := []string{fmt.Sprintf("%03d", i)}
	for _, choices := range [][]choice{policies(), ends(), before(), beside(), watched()} {
		if chosen := choices[chance.IntN(len(choices))](chance, &p); chosen != "" {
			name = append(name, chosen)
		}
	}
	p.name = strings.Join(name, "-")
	return p
}

func container(name, script string) corev1.Container {
	return corev1.Container{
		Name: name, Image: stage.Image, Command: []string{"/bin/sh", "-c", script},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}},
	}
}

func (p *play) main() *corev1.Container { return &p.pod.Spec.Containers[0] }

func (p *play) restartsOn(failure bool) bool {
	policy := p.pod.Spec.RestartPolicy
	return policy == corev1.RestartPolicyAlways || failure && policy == corev1.RestartPolicyOnFailure
}

func policies() []choice {
	policy := func(name string, policy corev1.RestartPolicy) choice {
		return func(_ *rand.Rand, p *play) string {
			p.pod.Spec.RestartPolicy = policy
			return name
		}
	}
	return []choice{
		policy("never", corev1.RestartPolicyNever), policy("onfailure", corev1.RestartPolicyOnFailure),
		policy("always", corev1.RestartPolicyAlways),
	}
}

// forever is a main that runs until it is told to end, and what it does then.
func forever(onTerm string) string {
	return "trap '" + onTerm + "' TERM; sleep 900 & wait"
}

// ends chooses how the main container ends.
func ends() []choice {
	// by itself, unless it is restarted: then it is deleted after its first restart.
	alone := func(p *play, script string, failure bool) {
		p.main().Command[2] = script
		if p.restartsOn(failure) {
			p.deleted, p.restarts = true, 1
		}
	}
	deletion := func(name, onTerm string) choice {
		return func(_ *rand.Rand, p *play) string {
			p.main().Command[2], p.deleted = forever(onTerm), true
			return name
		}
	}
	waiting := func(name, reason string, change func(*corev1.Container)) choice {
		return func(_ *rand.Rand, p *play) string {
			p.main().Command[2], p.deleted, p.waits = forever("kill $!; exit 0"), true, reason
			change(p.main())
			return name
		}
	}
	return []choice{
		func(_ *rand.Rand, p *play) string { alone(p, "sleep 14", false); return "succeeds" },
		func(_ *rand.Rand, p *play) string { alone(p, "sleep 14", false); return "succeeds" },
		func(c *rand.Rand, p *play) string {
			alone(p, fmt.Sprintf("sleep 14; exit %d", 1+c.IntN(100)), true)
			return "fails"
		},
		func(c *rand.Rand, p *play) string {
			alone(p, fmt.Sprintf("sleep 14; exit %d", 1+c.IntN(100)), true)
			return "fails"
		},
		deletion("obeys", "kill $!; exit 0"), deletion("complains", "kill $!; exit 7"), deletion("ignores", ""),
		func(_ *rand.Rand, p *play) string {
			p.main().Command[2], p.pod.Spec.ActiveDeadlineSeconds = forever("sleep 3; kill $!; exit 3"), ptr.To(int64(30))
			return "deadline"
		},
		waiting("noconfig", "CreateContainerConfigError", func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}}}}
		}),
		waiting("nosuchimage", "ImagePullBackOff", func(c *corev1.Container) { c.Image = "registry.test/macos/missing:v1" }),
		waiting("neverpulled", "ErrImageNeverPull", func(c *corev1.Container) {
			c.Image, c.ImagePullPolicy = "registry.test/macos/unpulled:v1", corev1.PullNever
		}),
	}
}

func nothing(*rand.Rand, *play) string { return "" }

// runs: main is no container that waits for ever.
func (p *play) runs() bool { return p.waits == "" }

// before chooses init containers.
func before() []choice {
	add := func(p *play, name, script string) {
		p.pod.Spec.InitContainers = append(p.pod.Spec.InitContainers, container(name, script))
	}
	return []choice{
		nothing, nothing, nothing,
		func(_ *rand.Rand, p *play) string {
			if !p.runs() {
				return ""
			}
			add(p, "first", "sleep 4")
			return "init"
		},
		func(_ *rand.Rand, p *play) string {
			if !p.runs() {
				return ""
			}
			add(p, "first", "sleep 4")
			add(p, "second", "sleep 4")
			return "inits"
		},
		func(_ *rand.Rand, p *play) string {
			if !p.runs() || p.pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
				return ""
			}
			p.deleted = false
			add(p, "first", "sleep 4; exit 5")
			return "initfails"
		},
	}
}

// beside chooses what else the Pod has.
func beside() []choice {
	return []choice{
		nothing, nothing, nothing, nothing,
		func(_ *rand.Rand, p *play) string { // ends on TERM, after main
			if !p.runs() || len(p.pod.Spec.InitContainers) > 0 {
				return ""
			}
			c := container("proxy", forever("kill $!; exit 0"))
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			p.pod.Spec.InitContainers = append(p.pod.Spec.InitContainers, c)
			return "sidecar"
		},
		func(_ *rand.Rand, p *play) string { // ends as main does
			if !p.runs() || p.pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
				return ""
			}
			p.pod.Spec.Containers = append(p.pod.Spec.Containers, container("web", "trap 'exit 0' TERM; sleep 20 & wait"))
			return "pair"
		},
		func(_ *rand.Rand, p *play) string {
			if !p.runs() {
				return ""
			}
			p.pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(20))
			p.main().Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: sh("sleep 1")}}
			return "prestop"
		},
	}
}

func sh(script string) *corev1.ExecAction {
	return &corev1.ExecAction{Command: []string{"/bin/sh", "-c", script}}
}

// watched chooses a probe of main.
func watched() []choice {
	probe := func(script string, initial int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: sh(script)}, PeriodSeconds: 2, TimeoutSeconds: 10,
			InitialDelaySeconds: initial, FailureThreshold: 2,
		}
	}
	return []choice{
		nothing, nothing, nothing,
		func(_ *rand.Rand, p *play) string { p.main().ReadinessProbe = probe("true", 3); return "ready" },
		func(_ *rand.Rand, p *play) string {
			p.main().ReadinessProbe, p.unready = probe("exit 4", 1), true
			return "unready"
		},
		func(_ *rand.Rand, p *play) string { p.main().StartupProbe = probe("true", 3); return "starts" },
		func(_ *rand.Rand, p *play) string { // is killed by it, and again after its restart
			if !p.deleted || !p.restartsOn(true) || !p.runs() {
				return ""
			}
			p.restarts = 1
			p.main().LivenessProbe = probe("exit 6", 7)
			return "dies"
		},
	}
}
