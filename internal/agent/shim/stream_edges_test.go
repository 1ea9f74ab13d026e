package shim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A shim from before there were streams refuses all that it does not know.
func TestAnOldShimRefusesStreams(t *testing.T) {
	a := serveAttempt(t, newFakeGuest())
	socket := filepath.Join(a.dir, socketFile)
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go answerAll(l, `{"v":"v1","error":{"code":"invalid","message":"it does not know what it is asked for"}}`)
	_, execErr := Exec(bounded(t), a.dir, script("true"), vm.Streams{})
	_, attachErr := Attach(bounded(t), a.dir, "main", vm.Streams{})
	_, dialErr := Dial(bounded(t), a.dir, 80)
	for what, err := range map[string]error{
		"exec": execErr, "attach": attachErr, "dial": dialErr, "signal": Signal(bounded(t), a.dir, "main", syscall.SIGTERM),
	} {
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != RefusedInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAKilledShimEndsItsStreams(t *testing.T) {
	dir := startSpec(t, "exec sleep 60", Spec{GuestSocket: "somewhere"})
	r := shell("main", "exec sleep 60")
	r.Stdin = true
	mustRun(t, dir, r)
	ended := make(chan error, 2)
	out := &firstOutput{seen: make(chan struct{})}
	go func() {
		_, err := Exec(bounded(t), dir, script("echo x; exec sleep 60"), vm.Streams{Stdout: out})
		ended <- err
	}()
	receive(t, "its output", out.seen)
	attached := make(chan struct{})
	silence, quiet := io.Pipe()
	defer quiet.Close()
	go func() {
		_, err := Attach(bounded(t), dir, "main", vm.Streams{Stdin: notice{attached, silence}, Stdout: io.Discard})
		ended <- err
	}()
	receive(t, "it is attached", attached)
	killShim(t, dir)
	for range 2 {
		if err := receive(t, "the stream ends", ended); !errors.Is(err, ErrNoShim) || !errors.Is(err, vm.ErrLost) {
			t.Errorf("err %v", err)
		}
	}
	if _, err := Exec(bounded(t), dir, script("true"), vm.Streams{}); !errors.Is(err, ErrNoShim) {
		t.Errorf("err %v", err)
	}
}

// notice tells when it is read, and has nothing until then is closed: an input that ends has
// attach end before the shim is killed.
type notice struct {
	read chan struct{}
	then io.Reader
}

func (n notice) Read(p []byte) (int, error) {
	close(n.read)
	return n.then.Read(p)
}

func TestTheMachineEndsUnderAStream(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	stalled, ended := newBlocked(), make(chan error, 2)
	go func() {
		_, err := Exec(bounded(t), a.dir, script("exec cat /dev/zero"), vm.Streams{Stdout: stalled})
		ended <- err
	}()
	receive(t, "the first output", stalled.began)
	out := &firstOutput{seen: make(chan struct{})}
	go func() {
		_, err := Exec(bounded(t), a.dir, script("echo x; exec sleep 600"), vm.Streams{Stdout: out})
		ended <- err
	}()
	receive(t, "its output", out.seen)
	a.gone()
	close(stalled.release)
	for range 2 {
		if err := receive(t, "the stream ends", ended); !errors.Is(err, vm.ErrLost) || !strings.Contains(err.Error(), errMachineEnded.Error()) {
			t.Errorf("err %v", err)
		}
	}
}

// A caller that is stopped, and reads nothing at all, does not hold up the end of the shim.
func TestTheMachineEndsUnderACallerThatIsStopped(t *testing.T) {
	a := serveAttempt(t, newFakeGuest())
	ours, theirs := net.Pipe()
	defer ours.Close()
	conn := &writes{Conn: theirs, begun: make(chan struct{}, 8)}
	go a.commands.answer(conn)
	asked, err := line(request{V: version, Exec: &execRequest{Argv: []string{"print"}, Stdout: true, Stderr: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Write(asked); err != nil {
		t.Fatal(err)
	}
	var answer reply
	if err := readLine(bufio.NewReader(ours), maxReply, &answer); err != nil || answer.Error != nil {
		t.Fatal(answer, err)
	}
	receive(t, "the answer", conn.begun)
	receive(t, "the output", conn.begun)
	ended := make(chan struct{})
	go func() {
		a.gone()
		close(ended)
	}()
	receive(t, "the shim ends", ended)
}

// writes tells of each.
type writes struct {
	net.Conn
	begun chan struct{}
}

func (w *writes) Write(p []byte) (int, error) {
	w.begun <- struct{}{}
	return w.Conn.Write(p)
}

func TestAnOutputThatFailsCutsTheStream(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	done, full := filepath.Join(t.TempDir(), "done"), errors.New("full")
	_, err := Exec(bounded(t), a.dir, script(`echo x; sleep 0.1; echo y; echo done >"$1"`, done), vm.Streams{Stdout: failing{full}})
	if !errors.Is(err, full) {
		t.Errorf("err %v", err)
	}
	awaitFile(t, done)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestSizesOfATerminal(t *testing.T) {
	for name, stream := range map[string]func(string, vm.Streams) error{
		"exec": func(dir string, s vm.Streams) error {
			_, err := Exec(bounded(t), dir, vm.GuestCommand{Argv: []string{"sizes"}, TTY: true, Size: vm.TerminalSize{Rows: 24, Cols: 80}}, s)
			return err
		},
		"attach": func(dir string, s vm.Streams) error {
			r := guestRun("main", "sizes")
			r.Command.TTY, r.Command.Size = true, vm.TerminalSize{Rows: 24, Cols: 80}
			mustRun(t, dir, r)
			_, err := Attach(bounded(t), dir, "main", s)
			return err
		},
	} {
		g := &sizedGuest{sizes: make(chan vm.TerminalSize, 1)}
		a := serveAttempt(t, g)
		resize := make(chan vm.TerminalSize, 1)
		resize <- vm.TerminalSize{Rows: 300, Cols: 1000}
		if err := stream(a.dir, vm.Streams{Resize: resize}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := receive(t, name+": a size", g.sizes); got != (vm.TerminalSize{Rows: 300, Cols: 1000}) || g.first != (vm.TerminalSize{Rows: 24, Cols: 80}) {
			t.Errorf("%s: %v, then %v", name, g.first, got)
		}
	}
}

// sizedGuest has commands that end with the first new size.
type sizedGuest struct {
	first vm.TerminalSize
	sizes chan vm.TerminalSize
}

func (*sizedGuest) Up(context.Context) error                    { return nil }
func (*sizedGuest) Address(context.Context) (netip.Addr, error) { return netip.Addr{}, nil }
func (*sizedGuest) Close() error                                { return nil }
func (g *sizedGuest) Exec(_ context.Context, c vm.GuestCommand, s vm.Streams) (int, error) {
	g.first = c.Size
	if s.Began != nil {
		s.Began(12345)
	}
	g.sizes <- <-s.Resize
	return 0, nil
}

func TestLongRequests(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	for _, c := range []vm.GuestCommand{
		{Argv: []string{"succeed", strings.Repeat("a\n\"", 7000)}},
		{Argv: []string{"succeed"}, Env: []string{"BIG=" + strings.Repeat("\"", 1<<20)}, Dir: "/tmp"},
	} {
		if code, err := Exec(bounded(t), a.dir, c, vm.Streams{}); code != 0 || err != nil {
			t.Fatalf("code %d, err %v", code, err)
		}
		all := g.commands()
		if diff := cmp.Diff(c, all[len(all)-1]); diff != "" {
			t.Error("it arrived changed")
		}
	}
	var refused *RefusedError
	_, err := Exec(bounded(t), a.dir, vm.GuestCommand{Argv: []string{"succeed", strings.Repeat("x", maxRequest)}}, vm.Streams{})
	if !errors.As(err, &refused) || refused.Code != RefusedInvalid {
		t.Errorf("err %v", err)
	}
}

// Who breaks the rules of a stream is cut off; what is not known is skipped.
func TestFramesOfStrangers(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames []byte
		want   error
	}{
		{"more than was allowed", bytes.Repeat(appendFrame(nil, stdout, make([]byte, framePiece)), window/framePiece+1), errProtocol},
		{"a frame without bounds", []byte{byte(stdout), 0xff, 0xff, 0xff, 0xff}, errProtocol},
		{"data that nobody asked for", appendFrame(nil, stdin, []byte("x")), errProtocol},
		{"credit for nothing", appendFrame(nil, credit, creditPayload(stdin, 1)), errProtocol},
		{"credit for what is not sent", appendFrame(nil, credit, creditPayload(stdout, 1)), errProtocol},
		{"half a credit", appendFrame(nil, credit, []byte{0}), errProtocol},
		{"half a size", appendFrame(nil, resize, []byte{0}), errProtocol},
		{"an end that is none", appendFrame(nil, ended, []byte("x")), errProtocol},
		{"half a frame", []byte{byte(stdout), 0, 0, 0, 9, 1}, io.ErrUnexpectedEOF},
		{"nothing", nil, errBrokeOff},
		{"a kind to come", appendFrame(nil, 99, []byte("x")), errBrokeOff},
	} {
		ours, theirs := net.Pipe()
		l := newLink(ours, []kind{stdout}, []kind{stdin})
		go func() {
			_, _ = theirs.Write(c.frames)
			_ = theirs.Close()
		}()
		l.receive(bufio.NewReader(ours))
		if !errors.Is(l.err, c.want) {
			t.Errorf("%s: %v", c.name, l.err)
		}
		if _, err := l.told(); !errors.Is(err, ErrNoShim) {
			t.Errorf("%s: told %v", c.name, err)
		}
	}
}

func TestAMissingNetcatIsNoRefusal(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	a := serveAttempt(t, hostGuest{})
	conn, err := Dial(bounded(t), a.dir, 80)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	if !errors.Is(err, vm.ErrNotExecuted) || errors.Is(err, ErrPortRefused) {
		t.Errorf("err %v", err)
	}
}

// A connection does not count as made before the guest runs what connects, which takes
// long on a busy host, and nobody waits for ever.
func TestADialWaitsForItsProgram(t *testing.T) {
	for name, c := range map[string]struct {
		begins, sends, ends, counts, patience time.Duration
	}{
		"a guest that is slow":            {5 * time.Second, time.Hour, time.Hour, 5*time.Second + refusedSoon, refusedSoon},
		"a server that speaks first":      {5 * time.Second, 5*time.Second + refusedSoon/2, time.Hour, 5*time.Second + refusedSoon/2, refusedSoon},
		"nobody listens":                  {5 * time.Second, time.Hour, 5*time.Second + refusedSoon/2, 5*time.Second + refusedSoon/2, refusedSoon},
		"a guest that starts no programs": {time.Hour, time.Hour, time.Hour, startsWithin, refusedSoon},
		"a client that may speak first":   {5 * time.Second, time.Hour, time.Hour, 5 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &opening{to: io.Discard, refusedWithin: c.patience, begun: make(chan struct{}), first: make(chan struct{}), open: make(chan struct{})}
				done := make(chan reply, 1)
				close(o.open)
				write := func() { _, _ = o.Write([]byte(".")) }
				time.AfterFunc(c.begins, write)
				time.AfterFunc(c.sends, write)
				time.AfterFunc(c.ends, func() { done <- reply{} })
				begin := time.Now()
				end := o.await(done)
				if took := time.Since(begin); took != c.counts || (end != nil) != (c.ends == c.counts) {
					t.Errorf("after %s, want %s: %+v", took, c.counts, end)
				}
			})
		})
	}
}

// A server that hangs up at once has listened.
func TestDialToOneThatHangsUp(t *testing.T) {
	haveNetcat(t)
	a := serveAttempt(t, hostGuest{})
	conn, err := Dial(bounded(t), a.dir, listenTCP(t, func(*net.TCPConn) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if data, err := io.ReadAll(conn); len(data) > 0 || err != nil {
		t.Errorf("%q, err %v", data, err)
	}
}

// What bounds an answer must not end the stream that follows it.
func TestAnAnswerLeavesNoDeadline(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	conn := &deadlines{Conn: ours}
	serveAttempt(t, newFakeGuest()).commands.send(conn, reply{})
	if conn.set < 2 || !conn.write.IsZero() {
		t.Errorf("deadline %v, set %d times", conn.write, conn.set)
	}
}

type deadlines struct {
	net.Conn
	write time.Time
	set   int
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write, d.set = at, d.set+1
	return d.Conn.SetWriteDeadline(at)
}
