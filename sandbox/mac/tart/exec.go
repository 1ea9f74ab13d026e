package tart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guestwire"
)

// agentPatience is how long one question to a guest agent may take.
const agentPatience = 5 * time.Second

// exitCode is the end of a guest's command; tart ends with it and prints nothing.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("the command ended with %d", int(e)) }

// agentClient is a line to the agent of a running guest.
type agentClient struct {
	*grpc.ClientConn
	schema *guestwire.Schema
}

func dialAgent(vm vmDir) (*agentClient, error) {
	schema, err := guestwire.NewSchema()
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		// A socket's path is limited, the way to it from its open directory is not. The
		// working directory is everybody's: who changes it may reach another guest.
		dir, err := os.Open(string(vm))
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/control.sock", dir.Fd()))
	}
	conn, err := grpc.NewClient("passthrough:///guest", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("preparing a connection to the guest agent: %w", err)
	}
	return &agentClient{ClientConn: conn, schema: schema}, nil
}

// askAgent is the address the guest itself says it has; empty while it does not.
func askAgent(ctx context.Context, vm vmDir) string {
	client, err := dialAgent(vm)
	if err != nil {
		return ""
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	response := client.schema.New("ResolveIPResponse")
	if client.Invoke(ctx, guestwire.ResolveIPCall, client.schema.New("ResolveIPRequest").Message, response.Message) != nil {
		return ""
	}
	return response.Text("ip")
}

// exec runs a command in a guest and ends as that does.
func (c *cli) exec(ctx context.Context, args []string) error {
	a := newArguments("exec [-i] [-t] <name> <command> ...")
	interactive := a.BoolP("interactive", "i", false, "")
	tty := a.BoolP("tty", "t", false, "")
	a.SetInterspersed(false)
	words, err := a.parse(args, 2, -1)
	if err != nil {
		return err
	}
	vm, err := c.home.local(words[0])
	if err != nil {
		return err
	}
	if vm.holder() == 0 {
		return notRunning(words[0])
	}
	client, err := dialAgent(vm)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	s := client.schema
	command := s.New("Command").Set("name", words[1]).Set("args", words[2:]).Set("interactive", *interactive).Set("tty", *tty)
	if f, is := c.env.Stdin.(*os.File); *tty && is && term.IsTerminal(int(f.Fd())) {
		if rows, cols, err := pty.Getsize(f); err == nil {
			command.Set("terminal_size", s.New("TerminalSize").Set("rows", uint32(rows)).Set("cols", uint32(cols)))
		}
		if was, err := term.MakeRaw(int(f.Fd())); err == nil {
			defer func() { _ = term.Restore(int(f.Fd()), was) }()
		}
	}
	return c.execOver(ctx, client, command, *interactive)
}

func (c *cli) execOver(ctx context.Context, client *agentClient, command *guestwire.Message, interactive bool) error {
	description := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	s := client.schema
	stream, err := client.NewStream(ctx, description, guestwire.ExecCall)
	if err == nil {
		err = stream.SendMsg(s.New("ExecRequest").Set("command", command).Message)
	}
	if err != nil && !errors.Is(err, io.EOF) { // the reason of an EOF comes with the answer
		return noAgent(err)
	}
	if interactive {
		go c.sendInput(stream, s)
	}
	for begun := false; ; begun = true {
		response := s.New("ExecResponse")
		err := stream.RecvMsg(response.Message)
		switch {
		case err != nil && !begun:
			return noAgent(err)
		case err != nil:
			return runtimeError(fmt.Sprintf("the connection to the guest agent was lost: %v", err))
		case response.Has("standard_output"):
			_, _ = c.env.Stdout.Write(response.Sub("standard_output").Bytes("data"))
		case response.Has("standard_error"):
			_, _ = c.env.Stderr.Write(response.Sub("standard_error").Bytes("data"))
		case response.Has("exit"):
			if code := response.Sub("exit").Number("code"); code != 0 {
				return exitCode(code)
			}
			return nil
		}
	}
}

func noAgent(err error) error {
	return runtimeError(fmt.Sprintf("Failed to connect to the VM using its control socket: %v, is the Tart Guest Agent running?", err))
}

func (c *cli) sendInput(stream grpc.ClientStream, s *guestwire.Schema) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.env.Stdin.Read(buffer)
		if n > 0 || err != nil { // no data is the end of it
			chunk := s.New("IOChunk").Set("data", append([]byte(nil), buffer[:n]...))
			if stream.SendMsg(s.New("ExecRequest").Set("standard_input", chunk).Message) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
