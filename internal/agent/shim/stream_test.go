package shim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func script(text string, args ...string) vm.GuestCommand {
	return vm.GuestCommand{Argv: append([]string{"/bin/sh", "-c", text, "sh"}, args...)}
}

func TestExec(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	for _, c := range []struct {
		name, run, stdin string
		code             int
		out, errOut      string
	}{
		{"code", "exit 7", "", 7, "", ""},
		{"outputs", "echo out; echo err >&2", "", 0, "out\n", "err\n"},
		{"input", "cat; exit 3", "in\nput", 3, "in\nput", ""},
		{"a signal", "kill -9 $$", "", 137, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			s := vm.Streams{Stdout: &out, Stderr: &errOut}
			if c.stdin != "" {
				s.Stdin = strings.NewReader(c.stdin)
			}
			code, err := Exec(bounded(t), a.dir, script(c.run), s)
			if code != c.code || err != nil || out.String() != c.out || errOut.String() != c.errOut {
				t.Errorf("code %d, err %v, out %q, errors %q", code, err, out.String(), errOut.String())
			}
		})
	}
	if files, _ := filepath.Glob(filepath.Join(a.dir, "command-*")); len(files) > 0 {
		t.Errorf("records %v", files)
	}
}

func TestExecWithoutAnExitCode(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	for name, want := range map[string]error{"nothing": vm.ErrNotExecuted, "break": vm.ErrLost} {
		if code, err := Exec(bounded(t), a.dir, vm.GuestCommand{Argv: []string{name}}, vm.Streams{}); !errors.Is(err, want) {
			t.Errorf("%s: code %d, err %v", name, code, err)
		}
	}
	held := 0
	if code, err := Exec(bounded(t), a.dir, vm.GuestCommand{Argv: []string{"daemon"}}, vm.Streams{Held: func() { held++ }}); code != 5 || err != nil || held != 1 {
		t.Errorf("code %d, err %v, held %d", code, err, held)
	}
	g.mu.Lock()
	g.goesAway = 1
	g.mu.Unlock()
	if _, err := Exec(bounded(t), a.dir, vm.GuestCommand{Argv: []string{"succeed"}}, vm.Streams{}); !errors.Is(err, vm.ErrGuestUnreachable) {
		t.Errorf("err %v", err)
	}
	var refused *RefusedError
	for _, c := range []vm.GuestCommand{{}, {Argv: []string{"\xff"}}} {
		if _, err := Exec(bounded(t), a.dir, c, vm.Streams{}); !errors.As(err, &refused) || refused.Code != RefusedInvalid {
			t.Errorf("err %v", err)
		}
	}
	a.gone()
	if _, err := Exec(bounded(t), a.dir, script("true"), vm.Streams{}); !errors.Is(err, ErrNoShim) {
		t.Errorf("err %v", err)
	}
}

// random is a stream of bytes that differs everywhere.
func random(seed, size uint64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}), int64(size))
}

func sum(t *testing.T, r io.Reader) string {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		t.Fatal(err)
	}
	return string(h.Sum(nil))
}

func TestLargeStreamIsExact(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	const size = 48<<20 + 17
	got := sha256.New()
	code, err := Exec(bounded(t), a.dir, script("exec cat"), vm.Streams{Stdin: random(1, size), Stdout: got})
	if code != 0 || err != nil || string(got.Sum(nil)) != sum(t, random(1, size)) {
		t.Errorf("code %d, err %v", code, err)
	}
}

func TestManyStreamsLoseNothing(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	var all sync.WaitGroup
	for i := range uint64(100) {
		all.Go(func() {
			const size = 200_001
			got := sha256.New()
			code, err := Exec(bounded(t), a.dir, script("cat; exit "+strconv.FormatUint(i, 10)), vm.Streams{Stdin: random(i, size), Stdout: got})
			if uint64(code) != i || err != nil || string(got.Sum(nil)) != sum(t, random(i, size)) {
				t.Errorf("stream %d: code %d, err %v", i, code, err)
			}
		})
	}
	all.Wait()
}

// blocked takes no output until it is told to.
type blocked struct {
	bytes.Buffer
	once    sync.Once
	began   chan struct{}
	release chan struct{}
}

func newBlocked() *blocked { return &blocked{began: make(chan struct{}), release: make(chan struct{})} }

func (b *blocked) Write(p []byte) (int, error) {
	b.once.Do(func() { close(b.began) })
	<-b.release
	return b.Buffer.Write(p)
}

func TestAStalledReaderHoldsUpItselfOnly(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	stalled, ended := newBlocked(), make(chan error, 1)
	const size = 8 << 20
	go func() {
		code, err := Exec(bounded(t), a.dir, script(`head -c "$1" /dev/zero; exit 4`, fmt.Sprint(size)), vm.Streams{Stdout: stalled})
		if code != 4 {
			err = errors.Join(err, fmt.Errorf("code %d", code))
		}
		ended <- err
	}()
	receive(t, "the first output", stalled.began)
	for range 10 {
		if code, err := Exec(bounded(t), a.dir, script("exit 3"), vm.Streams{}); code != 3 || err != nil {
			t.Fatalf("code %d, err %v", code, err)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	close(stalled.release)
	if err := receive(t, "the end", ended); err != nil || stalled.Len() != size {
		t.Errorf("err %v, %d bytes", err, stalled.Len())
	}
}

// A caller that is gone cuts the stream: the command goes on without input and readers.
func TestACommandOutlivesItsCaller(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	done := filepath.Join(t.TempDir(), "done")
	ctx, cancel := context.WithCancelCause(bounded(t))
	gone := errors.New("the caller went away")
	out := &firstOutput{seen: make(chan struct{})}
	ended := make(chan error, 1)
	in, keys := io.Pipe()
	defer keys.Close()
	go func() {
		_, err := Exec(ctx, a.dir, script(`echo ready; cat >/dev/null; head -c 4000000 /dev/zero; echo done >"$1"`, done), vm.Streams{Stdin: in, Stdout: out})
		ended <- err
	}()
	receive(t, "its output", out.seen)
	cancel(gone)
	if err := receive(t, "the end of the call", ended); !errors.Is(err, gone) {
		t.Errorf("err %v", err)
	}
	awaitFile(t, done)
}

// firstOutput tells when there is some.
type firstOutput struct {
	once sync.Once
	seen chan struct{}
}

func (o *firstOutput) Write(p []byte) (int, error) {
	o.once.Do(func() { close(o.seen) })
	return len(p), nil
}

func TestATiedCommandEndsWithItsCaller(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	ctx, cancel := context.WithCancel(bounded(t))
	out := &lastLine{seen: make(chan string, 1)}
	go func() {
		_, _ = ExecTied(ctx, a.dir, script("echo $$; exec sleep 600"), vm.Streams{Stdout: out})
	}()
	pid, err := strconv.Atoi(receive(t, "its output", out.seen))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	awaitEnd(t, pid)
}

type lastLine struct{ seen chan string }

func (l *lastLine) Write(p []byte) (int, error) {
	l.seen <- strings.TrimSpace(string(p))
	return len(p), nil
}

func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	late := time.After(deadline)
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			t.Fatalf("process %d lives on", pid)
		}
	}
}

func TestTooManyStreams(t *testing.T) {
	g := newFakeGuest()
	g.running = make(chan struct{}, maxStreams)
	a := serveAttempt(t, g)
	ctx, cancel := context.WithCancel(bounded(t))
	var all sync.WaitGroup
	for range maxStreams {
		all.Go(func() { _, _ = Exec(ctx, a.dir, vm.GuestCommand{Argv: []string{"hang"}}, vm.Streams{}) })
	}
	for range maxStreams {
		receive(t, "all run", g.running)
	}
	if _, err := Exec(bounded(t), a.dir, vm.GuestCommand{Argv: []string{"succeed"}}, vm.Streams{}); !errors.Is(err, ErrTooManyStreams) {
		t.Errorf("err %v", err)
	}
	if _, err := Dial(bounded(t), a.dir, 80); !errors.Is(err, ErrTooManyStreams) {
		t.Errorf("err %v", err)
	}
	// Probes have places of their own.
	if _, err := ExecTied(bounded(t), a.dir, vm.GuestCommand{Argv: []string{"succeed"}}, vm.Streams{}); err != nil {
		t.Errorf("a probe's command: %v", err)
	}
	if _, err := DialReserved(bounded(t), a.dir, 80); errors.Is(err, ErrTooManyStreams) {
		t.Errorf("a probe's connection: %v", err)
	}
	mustRun(t, a.dir, guestRun("main", "succeed"))
	cancel()
	all.Wait()
	// The places are free, though the commands go on.
	late := time.After(deadline)
	for {
		code, err := Exec(bounded(t), a.dir, vm.GuestCommand{Argv: []string{"fail"}}, vm.Streams{})
		if code == 3 && err == nil {
			return
		}
		select {
		case <-late:
			t.Fatalf("err %v", err)
		default:
		}
	}
}

func TestSignal(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	r := guestRun("main", "/bin/sh", "-c", `trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.01; done`)
	r.Log = "main.log"
	mustRun(t, a.dir, r)
	awaitText(t, filepath.Join(a.dir, "main.log"), "ready")
	if err := Signal(bounded(t), a.dir, "main", syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if end := mustEnd(t, a.dir, "main"); end.Code != 9 {
		t.Errorf("end %+v", end)
	}
	if err := Signal(bounded(t), a.dir, "main", syscall.SIGTERM); err != nil {
		t.Errorf("after its end: %v", err)
	}
	var refused *RefusedError
	if err := Signal(bounded(t), a.dir, "other", syscall.SIGTERM); !errors.As(err, &refused) || refused.Code != RefusedUnknown {
		t.Errorf("err %v", err)
	}
	mustRun(t, a.dir, guestRun("second", "/bin/sh", "-c", "exec sleep 600"))
	if err := Signal(bounded(t), a.dir, "second", syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if end := mustEnd(t, a.dir, "second"); end.Code != 137 || end.Outcome != Exited {
		t.Errorf("end %+v", end)
	}
}

// After its end the number of a process may be another's.
func TestNothingIsSignalledAfterTheEnd(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	mustRun(t, a.dir, guestRun("main", "succeed"))
	mustEnd(t, a.dir, "main")
	if err := Signal(bounded(t), a.dir, "main", syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if n := len(g.commands()); n != 1 {
		t.Errorf("%d commands ran", n)
	}
}

func TestAttach(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	r := guestRun("main", "/bin/sh", "-c", `echo before; read x; echo "got $x"; echo err >&2; cat; exit 6`)
	r.Log, r.Stdin, r.StdinOnce = "main.log", true, true
	mustRun(t, a.dir, r)
	awaitText(t, filepath.Join(a.dir, "main.log"), "before")
	var out, errOut bytes.Buffer
	end, err := Attach(bounded(t), a.dir, "main", vm.Streams{Stdin: strings.NewReader("line\nrest"), Stdout: &out, Stderr: &errOut})
	if err != nil || end.Code != 6 || out.String() != "got line\nrest" || errOut.String() != "err\n" {
		t.Errorf("end %+v, err %v, out %q, errors %q", end, err, out.String(), errOut.String())
	}
	if got := read(t, filepath.Join(a.dir, "main.log")); strings.Count(got, "\n") != 4 {
		t.Errorf("log %q", got)
	}
	// To one that has ended.
	if end, err := Attach(bounded(t), a.dir, "main", vm.Streams{Stdout: &out}); err != nil || end.Code != 6 {
		t.Errorf("end %+v, err %v", end, err)
	}
	var refused *RefusedError
	if _, err := Attach(bounded(t), a.dir, "other", vm.Streams{}); !errors.As(err, &refused) || refused.Code != RefusedUnknown {
		t.Errorf("err %v", err)
	}
}

// Input stays open from one who is attached to the next, without StdinOnce: who has no more
// to say goes, and does not wait for the command.
func TestInputOfSeveral(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	r := guestRun("main", "/bin/sh", "-c", `read x; echo "got $x"; read y; echo "and $y"; read z; exit 2`)
	r.Log, r.Stdin = "main.log", true
	mustRun(t, a.dir, r)
	for _, said := range []struct{ input, output string }{{"one\n", "got one"}, {"two\n", "and two"}} {
		end, err := Attach(bounded(t), a.dir, "main", vm.Streams{Stdin: strings.NewReader(said.input)})
		if err != nil || end.Outcome != Exited || !end.Ended.IsZero() {
			t.Errorf("end %+v, err %v", end, err)
		}
		awaitText(t, filepath.Join(a.dir, "main.log"), said.output)
	}
	if _, err := Attach(bounded(t), a.dir, "main", vm.Streams{Stdin: strings.NewReader("three\n")}); err != nil {
		t.Error(err)
	}
	if end := mustEnd(t, a.dir, "main"); end.Code != 2 {
		t.Errorf("end %+v", end)
	}
}

// A slow reader holds up neither the command nor its log, and is told.
func TestASlowReaderIsCutOff(t *testing.T) {
	a := serveAttempt(t, hostGuest{})
	gate := filepath.Join(t.TempDir(), "gate")
	r := guestRun("main", "/bin/sh", "-c", `while [ ! -e "$1" ]; do sleep 0.01; done; head -c 6000000 /dev/zero | tr '\0' '\n'; exit 5`, "sh", gate)
	mustRun(t, a.dir, r)
	slow, ended := newBlocked(), make(chan error, 1)
	go func() {
		_, err := Attach(bounded(t), a.dir, "main", vm.Streams{Stdout: slow})
		ended <- err
	}()
	awaitTap(t, a, "main")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end := mustEnd(t, a.dir, "main"); end.Code != 5 {
		t.Errorf("end %+v", end)
	}
	close(slow.release)
	if err := receive(t, "the end of the stream", ended); !errors.Is(err, ErrFellBehind) {
		t.Errorf("err %v", err)
	}
	if n := slow.Len(); n <= maxBehind-framePiece || n > maxBehind+8*window || strings.Trim(slow.String(), "\n") != "" {
		t.Errorf("%d bytes came", n)
	}
	if n := a.commands.tapped.Load(); n != 0 {
		t.Errorf("%d bytes are kept for nobody", n)
	}
}

func awaitTap(t *testing.T, a attempt, id string) {
	t.Helper()
	late := time.After(deadline)
	for {
		taps := &a.commands.find(id).taps
		taps.mu.Lock()
		n := len(taps.all)
		taps.mu.Unlock()
		if n > 0 {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatal("nobody is attached")
		}
	}
}
