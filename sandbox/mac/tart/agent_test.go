package tart

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guest"
	"github.com/macfleet/macfleet/sandbox/mac/tart/guestwire"
)

// call is one stream to a guest agent.
type call struct {
	t      *testing.T
	stream grpc.ClientStream
	schema *guestwire.Schema
	cancel context.CancelFunc
}

func (m *fakeMac) client(name string) *agentClient {
	m.t.Helper()
	client, err := dialAgent(m.vm(name))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = client.Close() })
	return client
}

// exec starts a shell script with some fields of the command set.
func (a *agentClient) exec(t *testing.T, script string, fields map[string]any) *call {
	t.Helper()
	command := a.schema.New("Command").Set("name", "/bin/sh").Set("args", []string{"-c", script})
	for name, value := range fields {
		command.Set(name, value)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	stream, err := a.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, guestwire.ExecCall)
	if err != nil {
		t.Fatal(err)
	}
	c := &call{t, stream, a.schema, cancel}
	c.send("command", command)
	return c
}

func (c *call) send(kind string, m *guestwire.Message) {
	c.t.Helper()
	if err := c.stream.SendMsg(c.schema.New("ExecRequest").Set(kind, m).Message); err != nil {
		c.t.Fatal(err)
	}
}

func (c *call) receive() (*guestwire.Message, error) {
	m := c.schema.New("ExecResponse")
	return m, c.stream.RecvMsg(m.Message)
}

// end reads to the end.
func (c *call) end() (out string, code int) {
	c.t.Helper()
	code = -1000
	for {
		m, err := c.receive()
		switch {
		case errors.Is(err, io.EOF):
			return out, code
		case err != nil:
			c.t.Fatal(err)
		case m.Has("standard_output"):
			out += string(m.Sub("standard_output").Bytes("data"))
		case m.Has("exit"):
			code = m.Sub("exit").Number("code")
		}
	}
}

func TestFieldsOfACommandByGeneration(t *testing.T) {
	t.Parallel()
	const show = `echo "$GREETING $(pwd) $USER"`
	fields := map[string]any{"env": map[string]string{"GREETING": "hello"}, "workdir": "/tmp", "user": "root"}
	for generation, want := range map[guest.Generation]string{
		guest.Old:         " /Users/admin admin\n",
		guest.WithEnv:     "hello /private/tmp admin\n",
		guest.WithSignals: "hello /private/tmp root\n",
	} {
		t.Run(string(generation), func(t *testing.T) {
			t.Parallel()
			m := cloned(t, &Plan{Agent: generation}, "vm")
			m.boot("vm")
			m.awaitAgent("vm")
			client := m.client("vm")
			if out, code := client.exec(t, show, fields).end(); out != want || code != 0 {
				t.Errorf("%q, %d", out, code)
			}
			wantCode := -1 // of a signal
			if generation == guest.WithSignals {
				wantCode = 137
			}
			if _, code := client.exec(t, "kill -KILL $$", nil).end(); code != wantCode {
				t.Errorf("signalled: %d", code)
			}
			err := client.Invoke(t.Context(), guestwire.SignalCall, client.schema.New("SignalRequest").Message, client.schema.New("Empty").Message)
			wantStatus := codes.Unimplemented
			if generation == guest.WithSignals {
				wantStatus = codes.Unknown
			}
			if status.Code(err) != wantStatus {
				t.Errorf("a signal for nobody: %v", err)
			}
			if generation == guest.WithSignals {
				return
			}
			if _, err := client.exec(t, "", map[string]any{"name": "/nowhere"}).receive(); status.Code(err) != codes.Unknown {
				t.Errorf("not started: %v", err)
			}
		})
	}
}

func TestSignalsReachACommand(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Agent: guest.WithSignals}, "vm")
	m.boot("vm")
	m.awaitAgent("vm")
	client := m.client("vm")
	c := client.exec(t, "trap 'exit 5' TERM; echo ready; sleep 600 >/dev/null 2>&1 & wait", nil)
	started, err := c.receive()
	if err != nil || !started.Has("started") {
		t.Fatalf("%v, %v", started, err)
	}
	if _, err := c.receive(); err != nil { // ready
		t.Fatal(err)
	}
	request := client.schema.New("SignalRequest").Set("exec_id", started.Sub("started").Text("exec_id")).Set("signal", protoreflect.EnumNumber(1))
	if err := client.Invoke(t.Context(), guestwire.SignalCall, request.Message, client.schema.New("Empty").Message); err != nil {
		t.Fatal(err)
	}
	if _, code := c.end(); code != 5 {
		t.Errorf("exit %d", code)
	}
}

func TestACommandDiesWithItsStream(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	m.boot("vm")
	m.awaitAgent("vm")
	pidFile := filepath.Join(m.vm("vm").guest(), "disk/private/tmp/pid")
	client := m.client("vm")
	c := client.exec(t, "trap '' TERM HUP INT; echo $$ >/tmp/pid; while :; do sleep 0.01; done", nil)
	await(t, "the command runs", func() bool { data, _ := os.ReadFile(pidFile); return len(data) > 0 })
	c.cancel()
	await(t, "the command is gone", func() bool { return m.sh("vm", "kill -0 $(cat /tmp/pid)").code != 0 })
	detached := client.exec(t, "sleep 0.1; echo done >/tmp/detached", map[string]any{"detach": true})
	if _, code := detached.end(); code != 0 {
		t.Errorf("detached: exit %d", code)
	}
	await(t, "the detached command ends", func() bool { return exists(filepath.Join(filepath.Dir(pidFile), "detached")) })
}

func TestATerminal(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	m.boot("vm")
	m.awaitAgent("vm")
	client := m.client("vm")
	size := func(rows, cols uint32) *guestwire.Message {
		return client.schema.New("TerminalSize").Set("rows", rows).Set("cols", cols)
	}
	c := client.exec(t, "stty size; read line; stty size; cat; exit 3", map[string]any{
		"tty": true, "interactive": true, "terminal_size": size(10, 20),
	})
	c.send("terminal_resize", size(30, 40))
	c.send("standard_input", client.schema.New("IOChunk").Set("data", []byte("go\nmore\n")))
	c.send("standard_input", client.schema.New("IOChunk")) // the end of it
	out, code := c.end()
	if code != 3 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"30 40\r\n", "go\r\n", "more\r\n"} { // what is typed is echoed
		if !matches(out, want) {
			t.Errorf("%q has no %q", out, want)
		}
	}
}
