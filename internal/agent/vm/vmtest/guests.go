package vmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/guest"
)

// conformGuest runs what is asked of the agent in a guest, in one guest.
func conformGuest(t *testing.T, s Subject) {
	t.Helper()
	Create(t, s, "tk-g-0")
	Run(t, s, "tk-g-0")
	ConformAgent(t, s, s.Driver.GuestSocket("tk-g-0"))
}

// ConformAgent does it with the agent behind a socket. It needs no driver.
func ConformAgent(t *testing.T, s Subject, socket string) {
	t.Helper()
	dial := func(held time.Duration) *guest.Client {
		c := guest.Dial(socket, guest.Options{AnswerTimeout: s.patience() / 4, HeldTimeout: held, CloseTimeout: s.patience()})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	g := dial(s.patience())
	await(t, s, "the agent behind "+socket+" answers", func() bool { return g.Up(t.Context()) == nil })
	for _, test := range []struct {
		name string
		run  func(*testing.T, Subject, vm.Guest)
	}{
		{"Codes", codes},
		{"Signals", signals},
		{"Streams", streams},
		{"ReportsInOutput", reportsInOutput},
		{"EnvironmentAndDirectory", environmentAndDirectory},
		{"NotExecuted", notExecuted},
		{"Terminal", terminal},
		{"InputLeft", inputLeft},
		{"OutputsHeld", func(t *testing.T, s Subject, g vm.Guest) { outputsHeld(t, s, g, dial(heldTimeout)) }},
		{"Flood", flood},
		{"Groups", groups},
		{"Children", children},
		{"Bare", bare},
		{"CancelKills", cancelKills},
		{"CancelOnATerminal", cancelOnATerminal},
		{"CloseKills", func(t *testing.T, s Subject, g vm.Guest) {
			closeKills(t, s, g, func() *guest.Client { return dial(heldTimeout) })
		}},
		{"Address", address},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s, g) })
	}
}

type result struct {
	Code        int
	Out, ErrOut string
}

func shell(script string, args ...string) vm.GuestCommand {
	return vm.GuestCommand{Argv: append([]string{"/bin/sh", "-c", script, "sh"}, args...)}
}

func do(t *testing.T, s Subject, g vm.Guest, c vm.GuestCommand, stdin io.Reader) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.patience())
	defer cancel()
	var out, errOut bytes.Buffer
	code, err := g.Exec(ctx, c, vm.Streams{Stdin: stdin, Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Fatalf("%q: %v", c.Argv, err)
	}
	return result{code, out.String(), errOut.String()}
}

// codes at the edges of what agents, shells and the wrapper use for themselves: each costs
// half a dozen processes.
func codes(t *testing.T, s Subject, g vm.Guest) {
	for _, code := range []int{0, 1, 2, 3, 10, 64, 99, 100, 124, 125, 126, 127, 128, 129, 130, 137, 143, 192, 254, 255} {
		if d := cmp.Diff(result{Code: code}, do(t, s, g, shell(fmt.Sprintf("exit %d", code)), nil)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

func signals(t *testing.T, s Subject, g vm.Guest) {
	for name, number := range map[string]int{"HUP": 1, "INT": 2, "KILL": 9, "TERM": 15} {
		if got := do(t, s, g, shell("kill -"+name+" $$"), nil); got != (result{Code: 128 + number}) {
			t.Errorf("ended by %s: %+v", name, got)
		}
	}
}

func streams(t *testing.T, s Subject, g vm.Guest) {
	long := strings.Repeat("0123456789abcdef", 1<<16)
	for _, c := range []struct {
		name  string
		cmd   vm.GuestCommand
		stdin io.Reader
		want  result
	}{
		{"both outputs", shell("echo out; echo err >&2; exit 6"), nil, s.outputs(6, "out\n", "err\n")},
		{"much on both outputs", shell(both), nil, s.outputs(3, strings.Repeat(strings.Repeat("x", 5000)+"\n", 200), strings.Repeat("err\n", 200))},
		{"no input", shell("cat; echo end"), nil, result{0, "end\n", ""}},
		{"input", shell("cat; exit 4"), strings.NewReader("in\nput"), result{4, "in\nput", ""}},
		{"much", shell("cat"), strings.NewReader(long), result{0, long, ""}},
		{"arguments", shell(`printf '%s|' "$@"`, "a b", "", `$x'"\`), nil, result{0, `a b||$x'"\|`, ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := do(t, s, g, c.cmd, c.stdin)
			if s.OneOutput {
				got.Out = ordered(got.Out)
				c.want.Out = ordered(c.want.Out)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// both writes 1 MB to one output and 200 lines to the other, as a build does.
const both = `line=$(head -c 5000 /dev/zero | tr '\0' x); i=0
while [ $i -lt 200 ]; do echo "$line"; echo err >&2; i=$((i+1)); done; exit 3`

// outputs is a result as the guest agent tells it.
func (s Subject) outputs(code int, out, errOut string) result {
	if s.OneOutput {
		return result{Code: code, Out: out + errOut}
	}
	return result{code, out, errOut}
}

// ordered sorts lines: how those of two outputs mix is not promised.
func ordered(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func environmentAndDirectory(t *testing.T, s Subject, g vm.Guest) {
	c := shell(`printf '%s|%s|%s|' "$PLAIN" "$LINES_IN_IT" "$EMPTY"; pwd; cat`)
	c.Env = []string{"PLAIN=a b", "LINES_IN_IT=one\ntwo\n", "EMPTY=", `QUOTES='"$(x)\n`}
	c.Dir = "/usr"
	if d := cmp.Diff(result{Out: "a b|one\ntwo\n||/usr\nand input"}, do(t, s, g, c, strings.NewReader("and input"))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func notExecuted(t *testing.T, _ Subject, g vm.Guest) {
	for _, c := range []vm.GuestCommand{
		{Argv: []string{"/no/such/command"}},
		{Argv: []string{"no-such-command"}},
		{Argv: []string{"/bin/ls"}, Dir: "/no/such/directory"},
		{Argv: []string{"/etc/passwd"}},
		{Argv: []string{"./passwd"}, Dir: "/etc"},
		{Argv: []string{"/usr"}},
	} {
		if code, err := g.Exec(t.Context(), c, vm.Streams{}); !errors.Is(err, vm.ErrNotExecuted) {
			t.Errorf("%+v: code %d, err %v", c, code, err)
		}
	}
}

func terminal(t *testing.T, s Subject, g vm.Guest) {
	c := shell("test -t 0 && test -t 1 && stty size")
	c.TTY, c.Size = true, vm.TerminalSize{Rows: 31, Cols: 117}
	if got := do(t, s, g, c, nil); got.Code != 0 || strings.TrimSpace(got.Out) != "31 117" {
		t.Errorf("%+v", got)
	}
}

// cancelKills: a command that is given up is killed in the guest.
func cancelKills(t *testing.T, s Subject, g vm.Guest) {
	cancelled(t, s, g, shell("echo $$; exec sleep 600"), vm.Streams{}, func(stop context.CancelFunc) { stop() })
}

func address(t *testing.T, s Subject, g vm.Guest) {
	await(t, s, "the guest has an address", func() bool {
		a, err := g.Address(t.Context())
		return err == nil && a.IsValid() && !a.IsLoopback() && !a.IsUnspecified()
	})
}

// groups: a command has a process group of its own, which a further command can signal.
func groups(t *testing.T, s Subject, g vm.Guest) {
	for _, tty := range []bool{false, true} {
		cmd := shell(`trap 'wait; echo caught; exit 9' TERM; sh -c 'trap "echo child; exit 0" TERM; echo ready; while :; do sleep 0.05; done' & wait; wait`)
		cmd.TTY = tty
		out, began, ended := &tail{}, make(chan int, 1), make(chan int, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), s.patience())
			defer cancel()
			code, err := g.Exec(ctx, cmd, vm.Streams{Stdout: out, Began: func(target int) { began <- target }})
			if err != nil {
				t.Errorf("on a terminal %v: %v", tty, err)
			}
			ended <- code
		}()
		await(t, s, "the command is ready", func() bool { return strings.Contains(out.String(), "ready") })
		if got := do(t, s, g, shell(`kill -s TERM -- "$1"`, fmt.Sprint(<-began)), nil); got.Code != 0 {
			t.Errorf("on a terminal %v: kill: %+v", tty, got)
		}
		code := <-ended
		if text := out.String(); code != 9 || !strings.Contains(text, "caught") || !strings.Contains(text, "child") || strings.Contains(text, "macfleet-") {
			t.Errorf("on a terminal %v: code %d, output %q", tty, code, text)
		}
	}
}

// children: a command has none but its own, so that waiting for all of them ends. Here
// that is who lists the processes.
func children(t *testing.T, s Subject, g vm.Guest) {
	for _, tty := range []bool{false, true} {
		cmd := shell(`n=0; for parent in $(ps -A -o ppid=); do if [ "$parent" -eq $$ ]; then n=$((n+1)); fi; done; echo $n`)
		cmd.TTY = tty
		if got := do(t, s, g, cmd, nil); strings.TrimSpace(got.Out) != "1" || got.Code != 0 {
			t.Errorf("on a terminal %v: %+v", tty, got)
		}
	}
}

// bare: a command without the wrapper around it.
func bare(t *testing.T, s Subject, g vm.Guest) {
	cmd := shell("cat; exit 4")
	cmd.Bare = true
	if d := cmp.Diff(result{4, "in\x1eput\x1e", ""}, do(t, s, g, cmd, strings.NewReader("in\x1eput\x1e"))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
