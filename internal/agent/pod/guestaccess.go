package pod

import (
	"context"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// guestAccess reaches into the guest of an attempt for the probes and hooks of one
// container. Everything goes through the shim and so comes from the guest itself: the
// address of a guest means nothing where a profile, macOS or a packet filter hides it, and
// what a Pod names must not be reached from the Mac, which other rules hold for.
type guestAccess struct {
	shims     vmruntime.Shims
	dir       string
	pod       *object
	inputs    *podInputs
	container string
}

var _ action.Runner = guestAccess{}

// Exec runs a command with the container's environment and working directory.
func (g guestAccess) Exec(ctx context.Context, argv []string) ([]byte, int, error) {
	c, err := g.inputs.commandOf(ctx, g.pod.current(), g.container)
	if err != nil {
		return nil, 0, err
	}
	return g.run(ctx, vm.GuestCommand{Argv: argv, Env: c.Env, Dir: c.Dir})
}

func (g guestAccess) run(ctx context.Context, c vm.GuestCommand) ([]byte, int, error) {
	var said action.Output
	code, err := g.shims.Exec(ctx, g.dir, c, vm.Streams{Stdout: &said, Stderr: &said})
	return said.Bytes(), code, err
}

// loopback is the guest's own.
const loopback = "127.0.0.1"

// Connect has the guest's shell connect: a port where nobody listens shows in its exit
// code, however long the guest takes to find out.
func (g guestAccess) Connect(ctx context.Context, host string, port int) error {
	if host == "" {
		host = loopback
	}
	// Bare: each process that it takes is time which the probe has for the connection.
	said, code, err := g.run(ctx, vm.GuestCommand{
		Argv: []string{"/bin/bash", "-c", `exec 3<>"/dev/tcp/$1/$2"`, "probe", host, strconv.Itoa(port)}, Bare: true,
	})
	address := net.JoinHostPort(host, strconv.Itoa(port))
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("dial tcp %s: i/o timeout", address)
	case err != nil:
		return fmt.Errorf("dial tcp %s: %w", address, err)
	case code != 0:
		return fmt.Errorf("dial tcp %s: %s", address, connectError(string(said)))
	}
	return nil
}

// connectError is what a shell says of a connection that it could not open, without its
// own name and place.
func connectError(said string) string {
	if _, why, found := strings.Cut(said, "connect: "); found {
		line, _, _ := strings.Cut(why, "\n")
		return "connect: " + strings.ToLower(line)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	return line
}

// Dial connects through the shim, to another host through a program in the guest.
func (g guestAccess) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	if port < 1 || port > math.MaxUint16 {
		return nil, fmt.Errorf("%d is no port", port)
	}
	if host == "" {
		return g.shims.Dial(ctx, g.dir, uint16(port))
	}
	near, far := net.Pipe()
	c := vm.GuestCommand{Argv: []string{"/bin/sh", "-c", `exec nc "$1" "$2" 2>/dev/null`, "sh", host, strconv.Itoa(port)}}
	go func() {
		defer far.Close()
		_, _ = g.shims.Exec(ctx, g.dir, c, vm.Streams{Stdin: far, Stdout: far})
	}()
	return near, nil
}
