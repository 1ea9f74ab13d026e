package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod"
	"github.com/macfleet/macfleet/internal/agent/server"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// knownPods is a podSource with one Pod, ci/build.
type knownPods struct {
	guests []pod.Holder
	// shown are containers that run by their status alone.
	shown      []string
	containers map[string]pod.Container
	err        error
}

func (k knownPods) Pods() []*corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "build", UID: "uid-1"}}
	p.Spec.Containers = []corev1.Container{{Name: "main"}, {Name: "side"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}, {Name: "side"}}
	p.Status.ContainerStatuses[1].ContainerID = "tart://tk-uid-1-0/c-side"
	p.Status.ContainerStatuses[1].State.Running = &corev1.ContainerStateRunning{}
	for i, s := range p.Status.ContainerStatuses {
		if slices.Contains(k.shown, s.Name) {
			p.Status.ContainerStatuses[i].State.Running = &corev1.ContainerStateRunning{}
		}
	}
	return []*corev1.Pod{p}
}

func (k knownPods) Guests() []pod.Holder { return k.guests }

func (knownPods) ProbeMetrics() string { return "prober_probe_total 1\n" }

func (k knownPods) Container(_ context.Context, _, name string, _ types.UID, container string) (pod.Container, error) {
	if name != "build" {
		return pod.Container{}, pod.ErrPodNotFound
	}
	c, found := k.containers[container]
	if !found {
		return pod.Container{}, pod.ErrContainerNotFound
	}
	c.Pod = k.Pods()[0]
	return c, k.err
}

func guestsWith(k knownPods) *guestsOf {
	k.containers = map[string]pod.Container{
		"main": {Dir: "/a", ID: "main", WholeVM: true, Log: "/a/main.log"},
		"side": {
			Dir: "/a", ID: "c-side", Running: true, Spec: corev1.Container{Stdin: true, TTY: true},
			Command: vm.GuestCommand{Env: []string{"A=b"}, Dir: "/work"},
		},
	}
	return &guestsOf{pods: k}
}

func TestContainersOfTheKubeletAPI(t *testing.T) {
	g := guestsWith(knownPods{})
	if _, err := g.Container(t.Context(), "ci", "other", "", "main"); !errors.Is(err, server.ErrPodNotFound) {
		t.Error(err)
	}
	if _, err := g.Container(t.Context(), "ci", "build", "", "other"); !errors.Is(err, server.ErrContainerNotFound) {
		t.Error(err)
	}
	c, err := g.Container(t.Context(), "ci", "build", "", "main")
	if err != nil || c.Running || !c.WholeVM || c.Log != "/a/main.log" || c.Name != "main" {
		t.Errorf("%+v, %v", c, err)
	}
	// A port is the Pod's: any container that runs leads to it.
	c, err = g.Container(t.Context(), "ci", "build", "uid-1", "")
	if err != nil || !c.Running || c.Name != "side" || !c.Stdin || !c.TTY {
		t.Errorf("%+v, %v", c, err)
	}
	// Also while its status shows one as running that has ended.
	late := guestsWith(knownPods{shown: []string{"main"}})
	if c, err = late.Container(t.Context(), "ci", "build", "uid-1", ""); err != nil || !c.Running || c.Name != "side" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := g.Container(t.Context(), "ci", "build", "uid-2", ""); !errors.Is(err, server.ErrContainerNotFound) {
		t.Error(err)
	}
}

func TestTheKubeletAPITellsOfProbes(t *testing.T) {
	if got := guestsWith(knownPods{}).ProbeMetrics(); got != "prober_probe_total 1\n" {
		t.Errorf("%q", got)
	}
}

func TestCommandsOfTheKubeletAPIRunAsTheContainer(t *testing.T) {
	g := guestsWith(knownPods{})
	c, err := g.Container(t.Context(), "ci", "build", "", "side")
	if err != nil {
		t.Fatal(err)
	}
	g.exec = func(_ context.Context, dir string, c vm.GuestCommand, _ vm.Streams) (int, error) {
		if dir != "/a" || !slices.Equal(c.Argv, []string{"id"}) || !slices.Equal(c.Env, []string{"A=b"}) || c.Dir != "/work" || !c.TTY {
			t.Errorf("%s %+v", dir, c)
		}
		return 3, nil
	}
	if code, err := g.Exec(t.Context(), c, vm.GuestCommand{Argv: []string{"id"}, TTY: true}, vm.Streams{}); code != 3 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	g.exec = func(context.Context, string, vm.GuestCommand, vm.Streams) (int, error) {
		return 0, shim.ErrTooManyStreams
	}
	if _, err := g.Exec(t.Context(), c, vm.GuestCommand{}, vm.Streams{}); !errors.Is(err, server.ErrTooMany) {
		t.Error(err)
	}
	g.attach = func(_ context.Context, dir, id string, _ vm.Streams) (*shim.CommandEnd, error) {
		if dir != "/a" || id != "c-side" {
			t.Errorf("%s %s", dir, id)
		}
		return nil, shim.ErrNoShim
	}
	if err := g.Attach(t.Context(), c, vm.Streams{}); !errors.Is(err, shim.ErrNoShim) {
		t.Error(err)
	}
}

func TestLogsNeedNoEnvironment(t *testing.T) {
	missing := errors.New("a ConfigMap is gone")
	g := guestsWith(knownPods{err: missing})
	c, err := g.Container(t.Context(), "ci", "build", "", "side")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Exec(t.Context(), c, vm.GuestCommand{}, vm.Streams{}); !errors.Is(err, missing) {
		t.Error(err)
	}
}

// refusedLate is a connection that fails when it is read.
type refusedLate struct{ net.Conn }

func (refusedLate) Read([]byte) (int, error) { return 0, shim.ErrPortRefused }

func TestPortsOfTheKubeletAPI(t *testing.T) {
	g := guestsWith(knownPods{})
	c, err := g.Container(t.Context(), "ci", "build", "", "")
	if err != nil {
		t.Fatal(err)
	}
	g.dial = func(context.Context, string, uint16) (net.Conn, error) { return nil, shim.ErrPortRefused }
	if _, err := g.Dial(t.Context(), c, 80); !errors.Is(err, server.ErrPortRefused) {
		t.Error(err)
	}
	g.dial = func(context.Context, string, uint16) (net.Conn, error) { return refusedLate{}, nil }
	conn, err := g.Dial(t.Context(), c, 80)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); !errors.Is(err, server.ErrPortRefused) {
		t.Error(err)
	}
}
