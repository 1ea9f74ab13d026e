package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/node"
	"github.com/macfleet/macfleet/internal/agent/pod"
	"github.com/macfleet/macfleet/internal/agent/server"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vmusage"
)

// kubeletAPI returns what serves the kubelet's API on the Node's own address until its
// context ends.
func (a *agent) kubeletAPI(client kube.Client, self node.Self, certificate *serving, pods podSource, stats *usageOf) (func(context.Context) error, error) {
	port := a.config.Kubelet.ListenPort()
	if port == 0 {
		return func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}, nil
	}
	s, err := server.New(server.Options{
		Address:     net.JoinHostPort(hostIP(self), strconv.Itoa(port)),
		Certificate: certificate.Get,
		ClientCA:    a.config.Kubelet.ClientCA,
		Client:      client,
		NodeName:    a.config.Host.Name,
		Backend:     &guestsOf{pods: pods, exec: shim.Exec, attach: shim.Attach, dial: shim.Dial},
		Stats:       stats,
		Log:         a.log,
	})
	if err != nil {
		return nil, usage("the kubelet's API: %w", err)
	}
	return s.Run, nil
}

// stats are read from this host.
func (a *agent) stats(pods podSource) (*usageOf, error) {
	home, err := tartHome(a.o, a.config)
	if err != nil {
		return nil, err
	}
	u := &usageOf{
		pods: pods, runner: a.host, pressure: hostos.ReadPressure,
		disk: func(ctx context.Context) (hostos.Disk, error) { return a.disk(ctx, home) },
	}
	u.reader = vmusage.NewReader(a.host, u.vms, clock.RealClock{})
	return u, nil
}

// podSource knows the Pods of this Node: a pod.Supervisor.
type podSource interface {
	Pods() []*corev1.Pod
	Guests() []pod.Holder
	ProbeMetrics() string
	Container(ctx context.Context, namespace, name string, uid types.UID, container string) (pod.Container, error)
}

// guestsOf reaches the guests of Pods through their shims. The functions are those of
// package shim.
type guestsOf struct {
	pods   podSource
	exec   func(ctx context.Context, dir string, c vm.GuestCommand, s vm.Streams) (int, error)
	attach func(ctx context.Context, dir, id string, s vm.Streams) (*shim.CommandEnd, error)
	dial   func(ctx context.Context, dir string, port uint16) (net.Conn, error)
}

// place is where a container runs.
type place struct {
	pod.Container
	// unready is why no command has the container's environment.
	unready error
}

func (g *guestsOf) Pods() []*corev1.Pod { return g.pods.Pods() }

func (g *guestsOf) ProbeMetrics() string { return g.pods.ProbeMetrics() }

func (g *guestsOf) Container(ctx context.Context, namespace, name, uid, container string) (server.Container, error) {
	names := []string{container}
	if container == "" {
		names = g.anyContainer(namespace, name, uid)
	}
	var c pod.Container
	var err error
	for _, container = range names {
		if c, err = g.pods.Container(ctx, namespace, name, types.UID(uid), container); c.Running {
			break // the status may show others that have ended
		}
	}
	switch {
	case errors.Is(err, pod.ErrPodNotFound):
		return server.Container{}, fmt.Errorf("%w: %w", server.ErrPodNotFound, err)
	case errors.Is(err, pod.ErrContainerNotFound):
		return server.Container{}, fmt.Errorf("%w: %w", server.ErrContainerNotFound, err)
	case c.Pod == nil:
		return server.Container{}, err
	}
	return server.Container{
		Pod: c.Pod, Name: container,
		Running: c.Running && c.Dir != "", WholeVM: c.WholeVM,
		Stdin: c.Spec.Stdin, TTY: c.Spec.TTY,
		Log: c.Log, PreviousLog: c.PreviousLog,
		// Logs need no environment.
		Handle: place{Container: c, unready: err},
	}, nil
}

// anyContainer are those that share the guest with all of its Pod: those that run, if any
// does, as its status has it.
func (g *guestsOf) anyContainer(namespace, name, uid string) []string {
	for _, p := range g.pods.Pods() {
		if p.Namespace != namespace || p.Name != name || uid != "" && string(p.UID) != uid {
			continue
		}
		var names []string
		for _, s := range statusesOf(p) {
			if s.State.Running != nil {
				names = append(names, s.Name)
			}
		}
		if len(names) > 0 {
			return names
		}
		return []string{p.Spec.Containers[0].Name}
	}
	return []string{""}
}

// placeOf is what Container put into a server.Container.
func placeOf(c server.Container) place {
	at, _ := c.Handle.(place)
	return at
}

func (g *guestsOf) Exec(ctx context.Context, c server.Container, command vm.GuestCommand, s vm.Streams) (int, error) {
	at := placeOf(c)
	if at.unready != nil {
		return 0, at.unready
	}
	command.Env, command.Dir = at.Command.Env, at.Command.Dir
	code, err := g.exec(ctx, at.Dir, command, s)
	return code, apiError(err)
}

func (g *guestsOf) Attach(ctx context.Context, c server.Container, s vm.Streams) error {
	at := placeOf(c)
	_, err := g.attach(ctx, at.Dir, at.ID, s)
	return apiError(err)
}

func (g *guestsOf) Dial(ctx context.Context, c server.Container, port uint16) (net.Conn, error) {
	conn, err := g.dial(ctx, placeOf(c).Dir, port)
	if err != nil {
		return nil, apiError(err)
	}
	return &guestConn{conn}, nil
}

// apiError adds the kind that the API's server knows.
func apiError(err error) error {
	switch {
	case errors.Is(err, shim.ErrPortRefused):
		return fmt.Errorf("%w: %w", server.ErrPortRefused, err)
	case errors.Is(err, shim.ErrTooManyStreams):
		return fmt.Errorf("%w: %w", server.ErrTooMany, err)
	}
	return err
}

// guestConn is a connection whose guest may refuse it late.
type guestConn struct{ net.Conn }

func (c *guestConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, apiError(err)
}

// CloseWrite tells the guest that no more comes, where the connection has a way to.
func (c *guestConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
