package pod

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/macfleet/macfleet/internal/agent/kubetest"
	"github.com/macfleet/macfleet/internal/agent/pod/objects"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/volume"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A Pod may wait for its image and its slot for hours: what it starts with is as of
// the start, and looked at again.
func TestInputsAreAsOfTheStart(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.pullGate = make(chan struct{})
	w.inputs.shares = []vm.Share{{Name: "macfleet-hostpath-0", Path: "/before"}}
	w.startAgent()
	w.await("a pull", func() bool { return w.events.reasons("a") != nil })

	w.inputs.mu.Lock()
	w.inputs.shares = []vm.Share{{Name: "macfleet-hostpath-0", Path: "/now"}}
	w.inputs.errs = []error{&volume.MountError{Message: "hostPath /x is a link that leads out of /allowed"}}
	w.inputs.mu.Unlock()
	w.frozen.Store(true)
	close(w.host.pullGate)
	if m := w.awaitWaiting(state.ReasonConfig).Status.ContainerStatuses[0].State.Waiting.Message; m != "hostPath /x is a link that leads out of /allowed" {
		t.Errorf("message %q", m)
	}
	w.await("an event", func() bool { return w.events.count("a", "FailedMount") == 1 })
	w.frozen.Store(false)

	w.awaitRunning("a")
	w.host.mu.Lock()
	defer w.host.mu.Unlock()
	if d := cmp.Diff([][]vm.Share{{{Name: "macfleet-hostpath-0", Path: "/now"}}}, w.host.shares); d != "" {
		t.Errorf("shares of the start (-want +got):\n%s", d)
	}
}

// What the driver cannot share is not started without.
func TestAShareThatTheDriverRefuses(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.refused = []error{&vm.ShareError{Share: vm.Share{Path: "/a:ro"}}}
	w.frozen.Store(true)
	w.startAgent()
	p := w.awaitWaiting(state.ReasonRunError)
	want := `directory "/a:ro" cannot be shared with a VM: its path is not absolute, or has a colon, a comma or a control character`
	if d := cmp.Diff(want, p.Status.ContainerStatuses[0].State.Waiting.Message); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	w.frozen.Store(false)
	w.awaitRunning("a")
	if n := w.host.count("run"); n != 1 {
		t.Errorf("%d starts", n)
	}
}

// The address of a guest is known when it is up: a command is told then, and a file that
// is written before the start has none.
func TestTheAddressOfAPodIsThatOfItsGuest(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyNever)
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
	for want, argv := range map[string][]string{"IP=" + vm.GuestAddress: {"serve"}, "IP=": nil} {
		p.Spec.Containers[0].Command, p.Spec.Containers[0].Args = argv, nil
		c, err := ClusterInputs{}.Command(t.Context(), p, p.Spec.Containers[0].Name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{want}, c.Env); d != "" {
			t.Errorf("with the command %q (-want +got):\n%s", argv, d)
		}
	}
}

// What a container refers to and is gone by now is no trouble of the others.
func TestACommandNeedsWhatItsOwnContainerRefersTo(t *testing.T) {
	p := podtest.Beside(podtest.Job(corev1.RestartPolicyNever), "web")
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "gone"}, Key: "key",
	}}}}
	inputs := ClusterInputs{Objects: objects.New(kubetest.Client(fake.NewClientset()), nil, slog.New(slog.DiscardHandler))}
	if c, err := inputs.Command(t.Context(), p, "web"); err != nil || !slices.Equal(c.Argv, []string{"serve", "web"}) {
		t.Errorf("command %+v, %v", c, err)
	}
	if _, err := inputs.Command(t.Context(), p, "vm"); err == nil {
		t.Error("a Secret that is gone is no trouble of the container that refers to it")
	}
}

// A mount leads to what its subPathExpr says, by the variables of its own container.
func TestSubPathExpressionsAreMounted(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyNever)
	c := &p.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "NAME", Value: "foo"}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "work", MountPath: "/opt/work", SubPathExpr: "$(NAME)/logs"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	inputs := ClusterInputs{Store: volume.New(volume.Options{Dir: t.TempDir()})}
	given, err := inputs.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(given.Setup, "/volumes/work/foo/logs' '/opt/work'") {
		t.Errorf("the guest is told to\n%s", given.Setup)
	}
	c.Env[0].Value = ".."
	if _, err := inputs.Prepare(t.Context(), p); err == nil {
		t.Error("a path that leads up is mounted")
	}
}
