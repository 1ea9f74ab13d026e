package server

import (
	"context"
	"errors"
	"net"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Backend has the Pods of this Node. Its methods may be called at the same time, and
// none waits for a Pod.
type Backend interface {
	// Pods of this Node, with the status that the agent last made for them.
	Pods() []*corev1.Pod
	// ProbeMetrics are what the Pods' probes have found, in Prometheus' text format.
	ProbeMetrics() string
	// Container finds one. An empty uid stands for any Pod of that name. It fails with
	// ErrPodNotFound and ErrContainerNotFound.
	Container(ctx context.Context, namespace, pod, uid, container string) (Container, error)
	// Exec runs a command where the container runs, to its end, and returns its exit
	// code. The environment and the directory are the container's; the rest is the
	// command's. It fails with *Refused where it cannot be run at all.
	Exec(ctx context.Context, c Container, command vm.GuestCommand, s vm.Streams) (int, error)
	// Attach copies the streams of the container's own command until that ends, or ctx.
	Attach(ctx context.Context, c Container, s vm.Streams) error
	// Dial connects to a TCP port of the Pod's own loopback. It fails with
	// ErrPortRefused where nobody listens.
	Dial(ctx context.Context, c Container, port uint16) (net.Conn, error)
}

// Container is one of a Pod, and where it runs.
type Container struct {
	// Pod with the status that the agent last made for it.
	Pod  *corev1.Pod
	Name string
	// Running: commands can be run in it.
	Running bool
	// WholeVM: it has no command of its own to attach to, as it is the VM itself.
	WholeVM bool
	// Stdin and TTY of its own command.
	Stdin, TTY bool
	// Log is what the container that runs, or ended last, has written, PreviousLog that of
	// the one which lastState names; empty: there is none.
	Log, PreviousLog string
	// Handle is the Backend's own.
	Handle any
}

// The errors of a Backend, to be matched with errors.Is.
var (
	// ErrPodNotFound: no such Pod is on this Node.
	ErrPodNotFound = errors.New("pod does not exist")
	// ErrContainerNotFound: the Pod has no such container.
	ErrContainerNotFound = errors.New("container not found")
	// ErrPortRefused: nobody listens on the port.
	ErrPortRefused = errors.New("connection refused")
	// ErrTooMany: the guest has as many commands and connections as it may have.
	ErrTooMany = errors.New("maximum number of in-flight requests exceeded")
)
