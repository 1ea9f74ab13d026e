package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// serveStreams serves exec and port-forward on this machine, by the library that is made for container runtimes: the
// kubelet asks the runtime for a URL of a stream and passes on what goes through it.
func (p *processes) serveStreams() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for streams: %w", err)
	}
	config := streaming.DefaultConfig
	config.Addr = listener.Addr().String()
	if p.streams, err = streaming.NewServer(config, inside{p}); err != nil {
		return fmt.Errorf("preparing streams: %w", err)
	}
	go http.Serve(listener, p.streams) //nolint:errcheck // it ends with the process
	return nil
}

// Exec says where a command's streams are.
func (p *processes) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return p.streams.GetExec(r)
}

// PortForward says where the connections to a port are.
func (p *processes) PortForward(_ context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return p.streams.GetPortForward(r)
}

// inside is what streams lead to.
type inside struct{ processes *processes }

// Exec runs a command beside the container's, without a terminal.
func (i inside) Exec(ctx context.Context, id string, argv []string, in io.Reader, out, errs io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize) error {
	if tty {
		return errors.New("a process of this machine has no terminal")
	}
	c, err := i.processes.of(id)
	if err != nil {
		return err
	}
	cmd := c.command(ctx, argv)
	cmd.Stdout, cmd.Stderr = out, errs
	if in != nil {
		// Not as cmd.Stdin, whose end Wait would wait for.
		input, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(input, in)
			_ = input.Close()
		}()
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: int(exitCode(exit.Sys().(syscall.WaitStatus)))}
	}
	return err
}

// Attach is left out: nobody asks for it.
func (inside) Attach(context.Context, string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize) error {
	return errors.New("the streams of a container's own process are its log alone")
}

// PortForward connects to a port of this machine, on which all containers are.
func (inside) PortForward(ctx context.Context, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // all has come, or cannot
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}
