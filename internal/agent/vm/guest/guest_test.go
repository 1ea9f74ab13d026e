package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

var generations = []generation{oldest, middle, newest}

// patient is for tests on a busy host.
var patient = Options{AnswerTimeout: time.Minute, HeldTimeout: time.Minute, CloseTimeout: time.Minute}

// each runs a test against every generation of the agent.
func each(t *testing.T, test func(t *testing.T, a *agent, c *Client)) {
	for _, g := range generations {
		t.Run(g.String(), func(t *testing.T) {
			a := &agent{generation: g, address: "192.168.64.7"}
			c := Dial(serve(t, a), patient)
			t.Cleanup(func() { _ = c.Close() })
			test(t, a, c)
		})
	}
}

func sh(script string, args ...string) vm.GuestCommand {
	return vm.GuestCommand{Argv: append([]string{"/bin/sh", "-c", script, "sh"}, args...)}
}

type result struct {
	Code        int
	Out, ErrOut string
}

func run(t *testing.T, c *Client, g vm.GuestCommand, stdin io.Reader) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, errOut bytes.Buffer
	code, err := c.Exec(ctx, g, vm.Streams{Stdin: stdin, Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Fatalf("%q: %v", g.Argv, err)
	}
	return result{code, out.String(), errOut.String()}
}

func TestExec(t *testing.T) {
	each(t, func(t *testing.T, a *agent, c *Client) {
		held := result{0, "out\x1emacerr\x1e", ""}
		both := result{0, "out\nerr\n", ""} // one output for agents that stall with two
		if a.generation == newest {
			both, held = result{0, "out\n", "err\n"}, result{0, "out\x1emac", "err\x1e"}
		}
		long := strings.Repeat("0123456789abcdef", 1<<16)
		for _, x := range []struct {
			name  string
			g     vm.GuestCommand
			stdin io.Reader
			want  result
		}{
			{"code", sh("exit 3"), nil, result{Code: 3}},
			{"highest code", sh("exit 255"), nil, result{Code: 255}},
			{"125 of its own", sh("exit 125"), nil, result{Code: 125}},
			{"both outputs", sh("echo out; echo err >&2"), nil, both},
			{"what might have become a report", sh(`printf 'out\036mac'; printf 'err\036' >&2`), nil, held},
			{"killed", sh("kill -KILL $$"), nil, result{Code: 137}},
			{"interrupted", sh("kill -INT $$"), nil, result{Code: 130}},
			{"terminated", sh("kill -TERM $$"), nil, result{Code: 143}},
			{"arguments", sh(`printf '%s|' "$@"`, "a b", "", `$x'"\`, "a\n1b\r2"), nil, result{0, `a b||$x'"\|` + "a\n1b\r2|", ""}},
			{"found by PATH", vm.GuestCommand{Argv: []string{"echo", "-n", "x"}}, nil, result{0, "x", ""}},
			{"directory", vm.GuestCommand{Argv: []string{"pwd"}, Dir: "/usr"}, nil, result{0, "/usr\n", ""}},
			{"no input", sh("cat"), nil, result{}},
			{"input", sh("cat; exit 4"), strings.NewReader("in\nput"), result{4, "in\nput", ""}},
			{"much through both ways", sh("cat"), strings.NewReader(long), result{0, long, ""}},
		} {
			t.Run(x.name, func(t *testing.T) {
				if d := cmp.Diff(x.want, run(t, c, x.g, x.stdin)); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			})
		}
	})
}

func TestEnvironmentIsNoArgument(t *testing.T) {
	values := map[string]string{
		"PLAIN": "s3cret", "EMPTY": "", "SPACES": "  a  b ", "LINES": "one\ntwo\n\n", "DIGITS": "a\n1b\r2\\3", "QUOTES": `'"$(x)\n\`, "name": "n", "dir": "d", "ACCENT": "é=ü",
		"word": "w", "group": "g", "target": "t", "outputs": "o",
	}
	each(t, func(t *testing.T, a *agent, c *Client) {
		g := sh(`for n; do eval "v=\$$n"; printf '%s=%s;' "$n" "$v"; done; cat`)
		want := ""
		for n, v := range values {
			g.Env = append(g.Env, n+"="+v)
			g.Argv = append(g.Argv, n)
			want += n + "=" + v + ";"
		}
		if d := cmp.Diff(result{Out: want + "and input"}, run(t, c, g, strings.NewReader("and input"))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if strings.Contains(fmt.Sprint(a.argvs), "s3cret") {
			t.Errorf("a value is an argument: %q", a.argvs)
		}
	})
}

func TestTerminal(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		in, feed := io.Pipe()
		resize := make(chan vm.TerminalSize)
		out := &lines{seen: make(chan string, 16)}
		go func() {
			out.await(t, "24 80")
			resize <- vm.TerminalSize{Rows: 40, Cols: 100}
			_, _ = feed.Write([]byte("go\n"))
		}()
		g := sh(`test -t 0 && stty size; read x; n=0; while [ "$(stty size)" = "24 80" ] && [ $n -lt 1000 ]; do n=$((n+1)); done; stty size; exit 7`)
		g.TTY, g.Size = true, vm.TerminalSize{Rows: 24, Cols: 80}
		code, err := c.Exec(t.Context(), g, vm.Streams{Stdin: in, Stdout: out, Resize: resize})
		if err != nil || code != 7 {
			t.Errorf("code %d, err %v", code, err)
		}
		out.await(t, "40 100")
	})
}

func TestCodesOnATerminal(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		for _, code := range []int{0, 3, 125, 255} {
			g := sh(fmt.Sprintf("exit %d", code))
			g.TTY = true
			if got := run(t, c, g, nil); got.Code != code {
				t.Errorf("code %d: %+v", code, got)
			}
		}
		g := vm.GuestCommand{Argv: []string{"/no/such/command"}, TTY: true}
		if code, err := c.Exec(t.Context(), g, vm.Streams{}); !errors.Is(err, vm.ErrNotExecuted) {
			t.Errorf("code %d, err %v", code, err)
		}
	})
}

// lines says which lines came.
type lines struct {
	seen chan string
	rest string
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest += string(p)
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok {
			return len(p), nil
		}
		l.rest = rest
		l.seen <- strings.TrimSpace(line)
	}
}

func (l *lines) await(t *testing.T, want string) {
	late := time.After(time.Minute)
	for {
		select {
		case line := <-l.seen:
			if line == want {
				return
			}
		case <-late:
			t.Errorf("%q never came", want)
			return
		}
	}
}

func TestCancelKills(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		ctx, cancel := context.WithCancelCause(t.Context())
		unwanted := errors.New("the Pod is deleted")
		out := &lines{seen: make(chan string, 16)}
		var pid int
		go func() {
			defer cancel(unwanted)
			select {
			case line := <-out.seen:
				pid, _ = strconv.Atoi(line)
			case <-time.After(time.Minute):
			}
		}()
		_, err := c.Exec(ctx, sh("echo $$; exec sleep 600"), vm.Streams{Stdout: out})
		if !errors.Is(err, unwanted) || !errors.Is(err, vm.ErrLost) {
			t.Errorf("err %v", err)
		}
		if pid == 0 {
			t.Fatal("it never began")
		}
		gone(t, pid)
	})
}

// What watches over a command does not end by a signal that is meant for the command.
func TestCancelKillsWhatHeardASignalBefore(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &lines{seen: make(chan string, 16)}
		target, ended := 0, make(chan error, 1)
		go func() {
			_, err := c.Exec(ctx, sh("trap 'echo heard' TERM; echo ready; while :; do sleep 0.1; done"), vm.Streams{Stdout: out, Began: func(n int) { target = n }})
			ended <- err
		}()
		out.await(t, "ready")
		_ = syscall.Kill(target, syscall.SIGTERM)
		out.await(t, "heard")
		cancel()
		if err := <-ended; !errors.Is(err, vm.ErrLost) {
			t.Errorf("err %v", err)
		}
		gone(t, -target)
	})
}

func gone(t *testing.T, pid int) {
	t.Helper()
	late := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for alive(pid) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("process %d lives on", pid)
		}
	}
}

// alive is false for a zombie, too.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return syscall.Kill(pid, 0) == nil && (err != nil || !bytes.Contains(stat, []byte(") Z ")))
}

func TestUnreachable(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "control.sock")
	c := Dial(socket, patient)
	defer c.Close()
	for range 2 {
		if err := c.Up(t.Context()); !errors.Is(err, vm.ErrGuestUnreachable) {
			t.Errorf("up: %v", err)
		}
	}
	if _, err := c.Exec(t.Context(), sh("true"), vm.Streams{}); !errors.Is(err, vm.ErrGuestUnreachable) {
		t.Errorf("exec: %v", err)
	}
	if _, err := c.Address(t.Context()); !errors.Is(err, vm.ErrGuestUnreachable) {
		t.Errorf("address: %v", err)
	}
	// It comes up late, and goes, and comes again in another version.
	first := &agent{generation: newest, address: "192.168.64.7"}
	first.listen(t, socket)
	awaitUp(t, c)
	if addr, err := c.Address(t.Context()); err != nil || addr.String() != "192.168.64.7" {
		t.Errorf("address %v, err %v", addr, err)
	}
	first.server.Stop()
	(&agent{generation: oldest}).listen(t, socket)
	awaitUp(t, c)
	if r := run(t, c, sh("kill -9 $$"), nil); r.Code != 137 {
		t.Errorf("%+v of an agent that became older", r)
	}
}

func awaitUp(t *testing.T, c *Client) {
	t.Helper()
	late := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.Up(t.Context())
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never up: %v", err)
		}
	}
}

func TestSilentGuest(t *testing.T) {
	// The host takes the connection, the guest never answers.
	l := listen(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	c := Dial(l.Addr().String(), Options{AnswerTimeout: 50 * time.Millisecond})
	defer c.Close()
	if err := c.Up(t.Context()); !errors.Is(err, vm.ErrGuestUnreachable) {
		t.Errorf("up: %v", err)
	}
}

// A guest that hangs begins no command, however well its agent was known.
func TestAGuestThatHangs(t *testing.T) {
	c := Dial(serve(t, &agent{generation: middle, hung: true}), patient)
	defer c.Close()
	for range 3 {
		if err := c.Up(t.Context()); !errors.Is(err, vm.ErrGuestUnreachable) {
			t.Errorf("up: %v", err)
		}
	}
	if _, err := c.Exec(t.Context(), sh("true"), vm.Streams{}); !errors.Is(err, vm.ErrGuestUnreachable) {
		t.Errorf("exec: %v", err)
	}
}

// A guest that answers a question without end is given up, before it fills the memory.
func TestAGuestThatFloods(t *testing.T) {
	a := &agent{generation: newest, address: "192.168.64.7", floods: true}
	c := Dial(serve(t, a), patient)
	defer c.Close()
	if _, err := c.Exec(t.Context(), sh("true"), vm.Streams{}); !errors.Is(err, vm.ErrGuestUnreachable) {
		t.Errorf("exec: %v", err)
	}
	if said := a.said.Load(); said > 16<<20 {
		t.Errorf("it was listened to for %d bytes", said)
	}
}

func TestLost(t *testing.T) {
	a := &agent{generation: newest, breakAfter: true}
	c := Dial(serve(t, a), patient)
	defer c.Close()
	if _, err := c.Exec(t.Context(), vm.GuestCommand{Argv: []string{"echo", "last words"}}, vm.Streams{}); !errors.Is(err, vm.ErrLost) || errors.Is(err, vm.ErrGuestUnreachable) {
		t.Errorf("err %v", err)
	}
}

func TestOutputThatNobodyTakes(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		full := errors.New("full")
		if _, err := c.Exec(t.Context(), sh("echo x; sleep 600"), vm.Streams{Stdout: failing{full}}); !errors.Is(err, full) || !errors.Is(err, vm.ErrLost) {
			t.Errorf("err %v", err)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "control.sock")
	(&agent{generation: newest}).listen(t, socket)
	c := Dial(socket, patient)
	defer c.Close()
	if err := c.Up(t.Context()); err != nil {
		t.Error(err)
	}
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x08, 0x03})
	f.Add([]byte{0x12, 0x03, 0x0a, 0x01, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		var r execResponse
		if err := r.parse(data); err == nil && len(r.stdout)+len(r.stderr) > len(data) {
			t.Error("more output than bytes")
		}
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// What a prompt ends with, or somebody types, is no beginning of a report.
func TestAPromptIsShownAtOnce(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		in, keys := io.Pipe()
		out := &tail{grown: make(chan string, 16)}
		go func() {
			defer keys.Close()
			out.await(t, "a form")
			_, _ = keys.Write([]byte("go\n"))
		}()
		g := sh("printf 'a form'; read x; exit 3")
		if code, err := c.Exec(t.Context(), g, vm.Streams{Stdin: in, Stdout: out}); err != nil || code != 3 {
			t.Errorf("code %d, err %v", code, err)
		}
	})
}

// tail says what has come so far.
type tail struct {
	all   string
	grown chan string
}

func (o *tail) Write(p []byte) (int, error) {
	o.all += string(p)
	o.grown <- o.all
	return len(p), nil
}

func (o *tail) await(t *testing.T, want string) {
	late := time.After(time.Minute)
	for {
		select {
		case all := <-o.grown:
			if all == want {
				return
			}
		case <-late:
			t.Errorf("%q never came", want)
			return
		}
	}
}
