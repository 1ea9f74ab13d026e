package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guestwire"
)

// agent is tart's guest agent.
type agent struct {
	AgentOptions
	schema *guestwire.Schema
	table  *table
	serial atomic.Int64

	mu   sync.Mutex
	runs map[string]*process // by exec id
}

// Serve answers the calls of the guest agent until the listener is closed.
func (i *Inside) Serve(l net.Listener, o AgentOptions) error {
	schema, err := guestwire.NewSchema()
	if err != nil {
		return err
	}
	a := &agent{AgentOptions: o, schema: schema, table: i.table, runs: map[string]*process{}}
	server := grpc.NewServer()
	server.RegisterService(a.description(), nil) // the calls know the agent themselves
	i.server.Store(server)
	return server.Serve(l)
}

// description leaves out what the generation does not have.
func (a *agent) description() *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{
		ServiceName: guestwire.Service,
		Streams: []grpc.StreamDesc{{
			StreamName: "Exec", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return a.exec(s) },
		}},
		Methods: []grpc.MethodDesc{a.method("ResolveIP", "ResolveIPRequest", a.resolveIP)},
	}
	if a.hasSignals() {
		d.Methods = append(d.Methods, a.method("Signal", "SignalRequest", a.signal))
	}
	return d
}

func (a *agent) hasEnv() bool     { return a.Generation != Old }
func (a *agent) hasSignals() bool { return a.Generation == WithSignals }

func (a *agent) method(name, takes string, answer func(*guestwire.Message) (*guestwire.Message, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			request := a.schema.New(takes)
			if err := decode(request.Message); err != nil {
				return nil, err
			}
			response, err := answer(request)
			if err != nil {
				return nil, err
			}
			return response.Message, nil
		},
	}
}

func (a *agent) resolveIP(*guestwire.Message) (*guestwire.Message, error) {
	ip := ""
	if a.Address != nil {
		ip = a.Address()
	}
	if ip == "" {
		return nil, status.Error(codes.Internal, "no IP address found")
	}
	return a.schema.New("ResolveIPResponse").Set("ip", ip), nil
}

func (a *agent) signal(r *guestwire.Message) (*guestwire.Message, error) {
	a.mu.Lock()
	p := a.runs[r.Text("exec_id")]
	a.mu.Unlock()
	if p == nil {
		return nil, fmt.Errorf("no command %q runs", r.Text("exec_id"))
	}
	signals := map[int]syscall.Signal{1: syscall.SIGTERM, 2: syscall.SIGKILL}
	s, known := signals[r.Number("signal")]
	if !known {
		return nil, fmt.Errorf("no signal %d", r.Number("signal"))
	}
	if err := syscall.Kill(-p.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("signalling: %w", err)
	}
	return a.schema.New("Empty"), nil
}

// exec runs one command for as long as its stream lives.
func (a *agent) exec(stream grpc.ServerStream) error {
	request := a.schema.New("ExecRequest")
	if err := stream.RecvMsg(request.Message); err != nil {
		return err
	}
	if !request.Has("command") {
		return status.Error(codes.InvalidArgument, "the first message has to be a command")
	}
	answers := &answers{stream: stream, schema: a.schema, stalls: !a.hasSignals()}
	c := a.read(request.Sub("command"))
	if c.detach && (c.interactive || c.tty) {
		return errors.New("a detached command has neither input nor terminal")
	}
	r, err := c.start(a.table)
	if err != nil {
		return a.notStarted(answers, err)
	}
	defer r.close()
	if c.detach {
		return a.detached(answers)
	}
	defer a.remember(r.process, answers)()
	if a.Drops != nil && a.Drops(strings.Join(slices.Concat([]string{c.name}, c.args, c.env), " ")) {
		_ = syscall.Kill(r.process.pid, syscall.SIGKILL)
		return errDrop
	}
	return a.follow(stream, r, answers)
}

// errDrop stands for a connection that broke.
var errDrop = status.Error(codes.Unavailable, "connection reset by peer")

// follow sends what the command prints, and how it ends. It kills a command whose
// stream has ended. Children of the command that keep its outputs open keep the call
// open, however long ago the command ended.
func (a *agent) follow(stream grpc.ServerStream, r *running, to *answers) error {
	defer context.AfterFunc(stream.Context(), func() { a.kill(r) })()
	failed := make(chan error, 1)
	go func() {
		if err := a.feed(stream, r); err != nil && a.hasSignals() {
			failed <- err
			a.kill(r)
		}
	}()
	r.copyOutput(to)
	<-r.process.done
	select {
	case err := <-failed:
		// The newest agents tell this instead of the exit code.
		return err
	default:
	}
	return to.send("exit", a.schema.New("Exit").Set("code", a.code(r.process.status)))
}

// kill ends the command; the newest agents end all of its group.
func (a *agent) kill(r *running) {
	select {
	case <-r.process.done:
		if !a.hasSignals() {
			return // its number may be another's by now
		}
	default:
	}
	pid := r.process.pid
	if a.hasSignals() {
		pid = -pid
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// detached answers for a command that is on its own from now on.
func (a *agent) detached(to *answers) error {
	if a.hasSignals() {
		if err := to.send("started", a.schema.New("Started")); err != nil {
			return err
		}
	}
	return to.send("exit", a.schema.New("Exit").Set("code", int32(0)))
}

func (a *agent) code(s syscall.WaitStatus) int32 {
	switch {
	case !s.Signaled():
		return int32(s.ExitStatus()) // 0 to 255
	case a.hasSignals():
		return 128 + int32(s.Signal()) // below 65
	}
	return -1
}

// startFailed is the exit code of a command that the newest generation could not start.
const startFailed = 125

func (a *agent) notStarted(to *answers, err error) error {
	if !a.hasSignals() {
		return status.Errorf(codes.Unknown, "failed to start the command: %v", err)
	}
	return to.send("exit", a.schema.New("Exit").Set("code", int32(startFailed)))
}

// remember gives a started command its id; the function it returns forgets it.
func (a *agent) remember(p *process, to *answers) func() {
	if !a.hasSignals() {
		return func() {}
	}
	id := "exec-" + strconv.FormatInt(a.serial.Add(1), 10)
	a.mu.Lock()
	a.runs[id] = p
	a.mu.Unlock()
	_ = to.send("started", a.schema.New("Started").Set("exec_id", id)) // the stream tells of its end elsewhere
	return func() {
		a.mu.Lock()
		delete(a.runs, id)
		a.mu.Unlock()
	}
}

// stallsAfter is how many bytes of output of both kinds agents without a lock get
// through. Those of v0.11.0 stalled with 1 MB and 20 lines 7 times in 10.
const stallsAfter = 64 << 10

// answers sends on one stream, which takes one message at a time. Agents up to
// v0.11.0 send both outputs without a lock: with much on both they stall, and tell
// nothing any more until the call is given up.
type answers struct {
	mu     sync.Mutex
	stream grpc.ServerStream
	schema *guestwire.Schema
	stalls bool
	// sent bytes of output, by kind.
	sent map[string]int
}

func (a *answers) send(kind string, m *guestwire.Message) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stalled() {
		<-a.stream.Context().Done()
		return a.stream.Context().Err()
	}
	if err := a.stream.SendMsg(a.schema.New("ExecResponse").Set(kind, m).Message); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}

func (a *answers) stalled() bool {
	total := 0
	for _, n := range a.sent {
		total += n
	}
	return a.stalls && len(a.sent) == 2 && total > stallsAfter
}

func (a *answers) count(kind string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent == nil {
		a.sent = map[string]int{}
	}
	a.sent[kind] += n
}

// to is a writer of output frames.
func (a *answers) to(kind string) writer {
	return func(p []byte) (int, error) {
		data := append([]byte(nil), p...)
		a.count(kind, len(p))
		return len(p), a.send(kind, a.schema.New("IOChunk").Set("data", data))
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
