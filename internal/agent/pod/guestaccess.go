package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

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
	said := vm.NewBeginning(action.MaxOutput)
	code, err := g.shims.Exec(ctx, g.dir, vm.GuestCommand{Argv: argv, Env: c.Env, Dir: c.Dir}, vm.Streams{Stdout: said, Stderr: said})
	// The command of a probe has nothing that the Pod does not show.
	return said.Bytes(), code, vm.Named(err, argv)
}

// startLimit is how long a program that connects may take to begin in the guest.
const startLimit = 10 * time.Second

var (
	errNotStarted = fmt.Errorf("the guest did not start what connects within %s", startLimit)
	errLate       = errors.New("i/o timeout")
)

// loopback is the guest's own.
const loopback = "127.0.0.1"

// Connect has the guest's shell connect: a port where nobody listens shows in its exit
// code, however long the guest takes to find out. It prints a line before: it runs.
func (g guestAccess) Connect(ctx context.Context, host string, port int, within time.Duration) error {
	address := net.JoinHostPort(cmp.Or(host, loopback), strconv.Itoa(port))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(startLimit, func() { cancel(errNotStarted) })
	defer late.Stop()
	said := &firstWords{Beginning: vm.NewBeginning(action.MaxOutput), began: func() {
		if late.Stop() {
			time.AfterFunc(within, func() { cancel(errLate) })
		}
	}}
	// Bare: each process that it takes is time which the probe has for the connection.
	code, err := g.shims.Exec(ctx, g.dir, vm.GuestCommand{
		Argv: []string{"/bin/bash", "-c", `echo; exec 3<>"/dev/tcp/$1/$2"`, "probe", cmp.Or(host, loopback), strconv.Itoa(port)}, Bare: true,
	}, vm.Streams{Stdout: said, Stderr: said})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("dial tcp %s: %w", address, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("dial tcp %s: %w", address, err)
	case code != 0:
		return fmt.Errorf("dial tcp %s: %s", address, connectError(string(said.Bytes())))
	}
	return nil
}

// firstWords tells when the first comes.
type firstWords struct {
	*vm.Beginning
	once  sync.Once
	began func()
}

func (f *firstWords) Write(p []byte) (int, error) {
	f.once.Do(f.began)
	return f.Beginning.Write(p)
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
	starting, cancel := context.WithTimeoutCause(ctx, startLimit, errNotStarted)
	defer cancel()
	if host == "" {
		conn, err := g.shims.Dial(starting, g.dir, uint16(port))
		if err != nil && starting.Err() != nil {
			err = context.Cause(starting)
		}
		return conn, err
	}
	near := g.dialFrom(ctx, host, port)
	stop := context.AfterFunc(starting, func() { near.Close() })
	// The program's own byte, before those of the connection.
	_, err := io.ReadFull(near, make([]byte, 1))
	if stop() && err == nil {
		return near, nil
	}
	near.Close()
	return nil, fmt.Errorf("connecting from the guest: %w", cmp.Or(context.Cause(starting), err))
}

// dialFrom has a program of the guest connect, which prints one byte before: it runs.
func (g guestAccess) dialFrom(ctx context.Context, host string, port int) net.Conn {
	near, far := net.Pipe()
	c := vm.GuestCommand{
		Argv: []string{"/bin/sh", "-c", `printf . && exec nc "$1" "$2" 2>/dev/null`, "sh", host, strconv.Itoa(port)}, Bare: true,
	}
	go func() {
		defer far.Close()
		_, _ = g.shims.Exec(ctx, g.dir, c, vm.Streams{Stdin: far, Stdout: far})
	}()
	return near
}
