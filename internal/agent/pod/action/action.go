// Package action carries out in a guest what a handler of a probe or of a lifecycle
// hook names: a command, an HTTP request, a connection. What the result means is the
// caller's.
package action

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxOutput in bytes is what is read of a response or a command, as a kubelet does.
const MaxOutput = 10 << 10

// MaxHeaders in bytes is what a guest's server may answer beside its body: libraries take
// 10 MiB and more, which are a hundred in memory.
const MaxHeaders = 64 << 10

// Runner reaches into the guest of one container. Its methods may be called at the same
// time.
type Runner interface {
	// Exec runs argv with the container's environment and working directory, and returns
	// what it wrote to either output, at most 10 KiB, and its exit code. An error says that
	// there is none. A command whose ctx ends is killed.
	Exec(ctx context.Context, argv []string) (output []byte, exitCode int, err error)
	// Connect returns nil when a connection to a TCP port can be opened from the guest: on
	// its own loopback where host is empty, else on the host of that name or address. The
	// time that it may take counts from when the guest begins; that has a limit of its own.
	Connect(ctx context.Context, host string, port int, within time.Duration) error
	// Dial opens one, and returns once the guest begins to, which has a limit of its own. It
	// has no deadlines, and where nobody listens its first Read may be what fails.
	Dial(ctx context.Context, host string, port int) (net.Conn, error)
}

// Dial is r.Dial for a connection that is closed when ctx ends.
func Dial(ctx context.Context, r Runner, host string, port int) (net.Conn, error) {
	conn, err := r.Dial(ctx, host, port)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return conn, nil
}

// Opened is r with its first connection made, or failed, beforehand: what the guest took to
// begin is then not the time of whoever uses it. The connection is closed when ctx ends.
func Opened(ctx context.Context, r Runner, host string, port int) Runner {
	conn, err := Dial(ctx, r, host, port)
	return &opened{Runner: r, conn: conn, err: err}
}

type opened struct {
	Runner
	conn  net.Conn
	err   error
	taken atomic.Bool
}

func (o *opened) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	if o.taken.CompareAndSwap(false, true) {
		return o.conn, o.err
	}
	return o.Runner.Dial(ctx, host, port)
}

// ErrNoHandler is of a handler that names nothing which a kubelet runs.
var ErrNoHandler = errors.New("it names no handler that can be run")

// Port is the number of a port that is given by number or by its name in the container.
func Port(p intstr.IntOrString, c *corev1.Container) (int, error) {
	if p.Type == intstr.Int {
		return inRange(p.IntValue())
	}
	for _, named := range c.Ports {
		if named.Name == p.StrVal {
			return inRange(int(named.ContainerPort))
		}
	}
	n, err := strconv.Atoi(p.StrVal)
	if err != nil {
		return 0, fmt.Errorf("container %s has no port named %q", c.Name, p.StrVal)
	}
	return inRange(n)
}

func inRange(port int) (int, error) {
	if port < 1 || port > 65535 {
		return 0, fmt.Errorf("%d is no port", port)
	}
	return port, nil
}
