package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

// The agent in this file reads and writes its messages by the contract's
// description, not by the client's code.

type generation int

const (
	oldest generation = iota // no environment, no directory, no news of the start
	middle                   // with environment and directory
	newest                   // and with news of the start
)

func (g generation) String() string { return [...]string{"oldest", "middle", "newest"}[g] }

// agent runs commands on this host.
type agent struct {
	generation generation
	address    string
	// breakAfter ends the connection once a command was received.
	breakAfter bool
	// hung: questions for the address take too long.
	hung bool
	// floods: it answers every command with output that does not end, until it is given up.
	floods bool
	// said counts what it has answered so, in bytes.
	said   atomic.Int64
	server *grpc.Server

	// asked counts questions for the address.
	asked atomic.Int64

	mu    sync.Mutex
	argvs [][]string
}

func contract(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	const (
		text   = descriptorpb.FieldDescriptorProto_TYPE_STRING
		raw    = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		flag   = descriptorpb.FieldDescriptorProto_TYPE_BOOL
		number = descriptorpb.FieldDescriptorProto_TYPE_UINT32
		signed = descriptorpb.FieldDescriptorProto_TYPE_INT32
		nested = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	field := func(n int32, name string, kind descriptorpb.FieldDescriptorProto_Type, of string, many bool) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Type: &kind, JsonName: &name, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if many {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		if of != "" {
			f.TypeName = proto.String("." + of)
		}
		return f
	}
	oneof := func(m *descriptorpb.DescriptorProto) *descriptorpb.DescriptorProto {
		m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("type")}}
		for _, f := range m.Field {
			f.OneofIndex = proto.Int32(0)
		}
		return m
	}
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	cmd := message(
		"Command",
		field(1, "name", text, "", false), field(2, "args", text, "", true), field(3, "interactive", flag, "", false),
		field(4, "tty", flag, "", false), field(5, "terminal_size", nested, "TerminalSize", false), field(6, "detach", flag, "", false),
		field(7, "env", nested, "Command.EnvEntry", true), field(8, "workdir", text, "", false), field(9, "user", text, "", false),
	)
	entry := message("EnvEntry", field(1, "key", text, "", false), field(2, "value", text, "", false))
	entry.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	cmd.NestedType = []*descriptorpb.DescriptorProto{entry}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("agent.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			cmd,
			message("TerminalSize", field(1, "rows", number, "", false), field(2, "cols", number, "", false)),
			message("IOChunk", field(1, "data", raw, "", false)),
			message("Exit", field(1, "code", signed, "", false)),
			message("Started", field(1, "exec_id", text, "", false)),
			oneof(message("ExecRequest", field(1, "command", nested, "Command", false), field(2, "standard_input", nested, "IOChunk", false), field(3, "terminal_resize", nested, "TerminalSize", false))),
			oneof(message("ExecResponse", field(1, "exit", nested, "Exit", false), field(2, "standard_output", nested, "IOChunk", false), field(3, "standard_error", nested, "IOChunk", false), field(4, "started", nested, "Started", false))),
			message("ResolveIPRequest"),
			message("ResolveIPResponse", field(1, "ip", text, "", false)),
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// serve starts an agent and returns where it answers.
func serve(t *testing.T, a *agent) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "control.sock")
	a.listen(t, socket)
	return socket
}

func (a *agent) listen(t *testing.T, socket string) {
	t.Helper()
	file := contract(t)
	l, err := hostos.ListenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	a.server = grpc.NewServer()
	a.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "Agent", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "ResolveIP", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			a.asked.Add(1)
			if a.hung {
				return nil, status.Error(codes.DeadlineExceeded, "it took too long")
			}
			if err := decode(create(file, "ResolveIPRequest")); err != nil {
				return nil, err
			}
			if a.address == "" {
				return nil, errors.New("no address")
			}
			m := create(file, "ResolveIPResponse")
			set(m, "ip", protoreflect.ValueOfString(a.address))
			return m, nil
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Exec", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			return a.exec(file, s)
		}}},
	}, a)
	go func() { _ = a.server.Serve(l) }()
	t.Cleanup(a.server.Stop)
}

func create(file protoreflect.FileDescriptor, name protoreflect.Name) *dynamicpb.Message {
	return dynamicpb.NewMessage(file.Messages().ByName(name))
}

func get(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func set(m protoreflect.Message, name protoreflect.Name, v protoreflect.Value) {
	m.Set(m.Descriptor().Fields().ByName(name), v)
}

func has(m protoreflect.Message, name protoreflect.Name) bool {
	return m.Has(m.Descriptor().Fields().ByName(name))
}

// process turns the first message into a process that is not started.
func (a *agent) process(ctx context.Context, c protoreflect.Message) *exec.Cmd {
	argv := []string{get(c, "name").String()}
	for i := range get(c, "args").List().Len() {
		argv = append(argv, get(c, "args").List().Get(i).String())
	}
	a.mu.Lock()
	a.argvs = append(a.argvs, argv)
	a.mu.Unlock()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = os.Environ()
	if a.generation >= middle {
		cmd.Dir = get(c, "workdir").String()
		get(c, "env").Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			cmd.Env = append(cmd.Env, k.String()+"="+v.String())
			return true
		})
	}
	if a.generation == newest && !get(c, "tty").Bool() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	return cmd
}

func (a *agent) exec(file protoreflect.FileDescriptor, s grpc.ServerStream) error {
	first := create(file, "ExecRequest")
	if err := s.RecvMsg(first); err != nil {
		return err
	}
	if !has(first, "command") {
		return errors.New("the first request has no command")
	}
	c := get(first, "command").Message()
	if a.breakAfter && strings.Contains(get(c, "env").Map().Get(protoreflect.ValueOfString(variable).MapKey()).String(), "last words") {
		go a.server.Stop()
		<-s.Context().Done()
		return status.FromContextError(s.Context().Err()).Err()
	}
	if a.floods {
		return a.flood(file, s)
	}
	p := &process{file: file, stream: s, cmd: a.process(s.Context(), c), tty: get(c, "tty").Bool(), stalls: a.generation != newest}
	if err := p.start(c); err != nil {
		if a.generation == newest {
			return p.exit(125)
		}
		return err
	}
	if a.generation == newest {
		m := create(file, "ExecResponse")
		started := create(file, "Started")
		set(started, "exec_id", protoreflect.ValueOfString("e1"))
		set(m, "started", protoreflect.ValueOfMessage(started))
		if err := p.send(m); err != nil {
			return err
		}
	}
	go p.input()
	p.copied.Wait()
	_ = p.cmd.Wait()
	code := p.cmd.ProcessState.ExitCode()
	if w, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() && a.generation == newest {
		code = 128 + int(w.Signal())
	}
	return p.exit(code)
}

func (a *agent) flood(file protoreflect.FileDescriptor, s grpc.ServerStream) error {
	piece := make([]byte, 1<<10)
	for {
		m, chunk := create(file, "ExecResponse"), create(file, "IOChunk")
		set(chunk, "data", protoreflect.ValueOfBytes(piece))
		set(m, "standard_output", protoreflect.ValueOfMessage(chunk))
		if err := s.SendMsg(m); err != nil {
			return err
		}
		a.said.Add(int64(len(piece)))
	}
}

type process struct {
	file   protoreflect.FileDescriptor
	stream grpc.ServerStream
	cmd    *exec.Cmd
	tty    bool
	stdin  io.WriteCloser
	copied sync.WaitGroup
	mu     sync.Mutex
	// stalls: as agents up to v0.11.0 do once both outputs have come; came is the first.
	stalls bool
	came   protoreflect.Name
}

func (p *process) start(c protoreflect.Message) (err error) {
	if p.tty {
		size := get(c, "terminal_size").Message()
		f, err := pty.StartWithSize(p.cmd, &pty.Winsize{Rows: uint16(get(size, "rows").Uint()), Cols: uint16(get(size, "cols").Uint())})
		if err != nil {
			return err
		}
		p.stdin = f
		p.copied.Go(func() { p.copy("standard_output", f) })
		return nil
	}
	if get(c, "interactive").Bool() {
		if p.stdin, err = p.cmd.StdinPipe(); err != nil {
			return err
		}
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	serr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.copied.Go(func() { p.copy("standard_output", out) })
	p.copied.Go(func() { p.copy("standard_error", serr) })
	return nil
}

// input ends the command when the client closes its side, as some agents do.
func (p *process) input() {
	for {
		r := create(p.file, "ExecRequest")
		err := p.stream.RecvMsg(r)
		switch {
		case err != nil:
			_ = p.cmd.Cancel()
			return
		case has(r, "standard_input"):
			data := get(get(r, "standard_input").Message(), "data").Bytes()
			switch {
			case p.stdin == nil:
			case len(data) > 0:
				_, _ = p.stdin.Write(data)
			case p.tty:
				_, _ = p.stdin.Write([]byte{4})
			default:
				_ = p.stdin.Close()
			}
		case has(r, "terminal_resize"):
			size := get(r, "terminal_resize").Message()
			if f, ok := p.stdin.(*os.File); ok {
				_ = pty.Setsize(f, &pty.Winsize{Rows: uint16(get(size, "rows").Uint()), Cols: uint16(get(size, "cols").Uint())})
			}
		}
	}
}

func (p *process) copy(to protoreflect.Name, from io.Reader) {
	buf := make([]byte, 4096)
	// Linux says EIO once the other side of a terminal is closed, though what was written last
	// may be on its way yet. Who reads after that gets it.
	again := p.tty
	for {
		n, err := from.Read(buf)
		if n > 0 {
			m, chunk := create(p.file, "ExecResponse"), create(p.file, "IOChunk")
			set(chunk, "data", protoreflect.ValueOfBytes(bytes.Clone(buf[:n])))
			set(m, to, protoreflect.ValueOfMessage(chunk))
			p.stall(to)
			if p.send(m) != nil {
				return
			}
		}
		if again && errors.Is(err, syscall.EIO) {
			again = false
			continue
		}
		if err != nil {
			return
		}
	}
}

// stall does so for good where this is the other output than the first.
func (p *process) stall(to protoreflect.Name) {
	p.mu.Lock()
	other := p.came != "" && p.came != to
	p.came = to
	p.mu.Unlock()
	if other && p.stalls {
		<-p.stream.Context().Done()
	}
}

func (p *process) exit(code int) error {
	m, exit := create(p.file, "ExecResponse"), create(p.file, "Exit")
	set(exit, "code", protoreflect.ValueOfInt32(int32(code)))
	set(m, "exit", protoreflect.ValueOfMessage(exit))
	return p.send(m)
}

func (p *process) send(m proto.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stream.SendMsg(m); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}
