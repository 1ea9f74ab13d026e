package guest

import (
	"context"
	"crypto/rand"
	_ "embed" // the wrapper
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// wrapper runs a command below a shell, which tells how it ended: agents give no exact
// exit code, or none where the command left input, or none while its children live.
//
//go:embed wrapper.sh
var wrapper string

// wordMark begins the word of a report. No text ends with it, so that nothing of a prompt
// or of what somebody types on a terminal is held back as the beginning of a report.
const wordMark = "\x1e"

// wordBegin is what all words begin with; the rest of each is random.
const wordBegin = wordMark + "macfleet-"

// shellName is what a shell takes for the name of a variable.
var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// The wrapper is not an argument either, nor is the command: both go in by a variable, or by
// the first line of the standard input. read takes no byte more than the line.
const (
	variable    = "macfleet_run"
	runVariable = `eval "$macfleet_run"`
	runLine     = `IFS= read -r macfleet_run && macfleet_run=$(printf %b. "$macfleet_run") && eval "${macfleet_run%.}"`
)

// execWrapped runs a command through the wrapper. A variable is never an argument: with
// agents that take none it goes in by the standard input, before the command's own.
func (c *Client) execWrapped(ctx context.Context, g vm.GuestCommand, s vm.Streams, env map[string]string, a abilities) (int, error) {
	cmd := &command{
		name: "/bin/sh", interactive: s.Stdin != nil,
		tty: g.TTY, size: terminalSize{rows: g.Size.Rows, cols: g.Size.Cols},
	}
	outputs, apart, pipe := 1, "one", ""
	switch {
	case g.TTY:
		apart = "terminal"
	case a.started:
		outputs, apart = 2, "both"
	case g.Apart:
		outputs, apart, pipe = 2, "pipe", c.pipes+"/macfleet-"+rand.Text()
	}
	word := wordBegin + rand.Text()
	script := wrapped(word, apart, pipe, g)
	switch {
	case a.env:
		cmd.args = []string{"-c", runVariable}
		cmd.env = maps.Clone(env)
		cmd.env[variable] = script
	case g.TTY && len(env) > 0:
		return 0, fmt.Errorf("%w: the guest agent is too old to give a command on a terminal an environment", vm.ErrNotExecuted)
	case g.TTY:
		// Nobody can send ahead of what is typed.
		cmd.args = []string{"-c", script}
	default:
		exports, err := exported(env)
		if err != nil {
			return 0, err
		}
		cmd.args, cmd.interactive = []string{"-c", runLine}, true
		s.Stdin = io.MultiReader(strings.NewReader(encode(exports+script)+"\n"), orEmpty(s.Stdin))
	}
	r := newReports(word, outputs)
	r.began = s.Began
	out, errOut := &output{reports: r, to: s.Stdout}, &output{reports: r, to: s.Stderr}
	held := s.Held
	s.Stdout, s.Stderr = out, errOut
	end, err := c.await(ctx, r, pipe, cmd, s)
	if errors.Is(err, errHeld) {
		if held != nil {
			held()
		}
		err = nil
	} else if err := errors.Join(out.flush(), errOut.flush()); err != nil {
		return 0, untaken(err)
	}
	return ended(g, r, a, end, err)
}

// ended is the end of a command as the wrapper told it, or else the agent.
func ended(g vm.GuestCommand, r *reports, a abilities, end ending, err error) (int, error) {
	code, told, refused := r.end()
	switch {
	case refused != 0:
		return 0, notStarted(g, refused)
	case errors.Is(err, errUntaken):
		return 0, err
	case told:
		// What becomes of the call is of no interest any more.
		return code, nil
	case errors.Is(err, vm.ErrNotExecuted):
		// Not the shell, which did start a moment ago: old agents fail like this when
		// a command ends while its output is read.
		return 0, fmt.Errorf("%w: %w", vm.ErrLost, unlost{err})
	case err != nil:
		return 0, err
	case end.code < 0:
		return 0, fmt.Errorf("the shell of a command in the guest was killed: %w", vm.ErrLost)
	case a.started && end.unstarted():
		// Its arguments or its environment are too long, or the guest has no room for a process.
		return 0, fmt.Errorf("%w: its shell could not be started", vm.ErrNotExecuted)
	}
	return end.code, nil
}

// notStarted says why the wrapper refused a command, as a container runtime does but for its
// name.
func notStarted(g vm.GuestCommand, refused byte) error {
	why := "permission denied"
	switch {
	case refused == refusedDir:
		why = fmt.Sprintf("its working directory %q cannot be entered", g.Dir)
	case refused == refusedUnknown && strings.Contains(g.Argv[0], "/"):
		why = "no such file or directory"
	case refused == refusedUnknown:
		why = "executable file not found in $PATH"
	}
	return fmt.Errorf("%w: %s", vm.ErrNotExecuted, why)
}

// errHeld: the command has ended, the call has not.
var errHeld = errors.New("what the command started holds its outputs")

// await returns when the call has ended, or some time after the command has. Then the
// call goes on, as agents kill what holds it when it is given up, and what it prints is
// thrown away.
func (c *Client) await(ctx context.Context, r *reports, pipe string, cmd *command, s vm.Streams) (ending, error) {
	calling, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	follow := context.AfterFunc(ctx, func() { giveUp(context.Cause(ctx)) })
	defer follow()
	feeding, starve := context.WithCancel(calling)
	defer starve()
	type result struct {
		end ending
		err error
	}
	done := make(chan result, 1)
	go func() {
		end, err := c.callApart(calling, feeding, r, pipe, cmd, s)
		done <- result{end, err}
	}()
	select {
	case x := <-done:
		return x.end, x.err
	case <-r.over:
	}
	starve()
	late := time.NewTimer(c.held)
	defer late.Stop()
	select {
	case x := <-done:
		return x.end, x.err
	case <-late.C:
	}
	r.mute()
	return ending{}, errHeld
}

// callApart is call for a command that writes its errors to a pipe, unless that has no
// name: a second call reads them.
func (c *Client) callApart(ctx, feeding context.Context, r *reports, pipe string, cmd *command, s vm.Streams) (ending, error) {
	if pipe == "" {
		return c.call(ctx, feeding, cmd, s)
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	// Once one call has ended, the other does.
	giveUpLate := func() {
		time.AfterFunc(c.apart, func() {
			select {
			case <-r.over:
			default:
				giveUp(fmt.Errorf("only one of its outputs has ended: %w", vm.ErrLost))
			}
		})
	}
	read := make(chan error, 1)
	go func() {
		end, err := c.call(ctx, ctx, pipeReader(pipe), vm.Streams{Stdout: s.Stderr})
		if err != nil || end.code != noPipe {
			giveUpLate()
		}
		read <- err
	}()
	end, err := c.call(ctx, feeding, cmd, vm.Streams{Stdin: s.Stdin, Stdout: s.Stdout, Resize: s.Resize})
	if _, told, _ := r.end(); told {
		giveUpLate()
	} else {
		giveUp(nil)
	}
	if lost := <-read; errors.Is(lost, errUntaken) {
		return ending{}, lost
	}
	return end, err
}

// noPipe is the code of the reader where there is no pipe: errors come as output then.
const noPipe = 3

// pipeReader prints what is written to a pipe, which it makes unless the wrapper has.
func pipeReader(pipe string) *command {
	script := fmt.Sprintf(`mkfifo -m 600 "$0" 2>/dev/null; [ -p "$0" ] || exit %d; exec cat "$0"`, noPipe)
	return &command{name: "/bin/sh", args: []string{"-c", script, pipe}}
}

// wrapped is the wrapper for one command.
func wrapped(word, outputs, pipe string, g vm.GuestCommand) string {
	var argv []string
	for _, a := range g.Argv {
		argv = append(argv, quote(a))
	}
	kills := ""
	if g.KillGroup {
		kills = "1"
	}
	return fmt.Sprintf("macfleet_word=%s macfleet_outputs=%s macfleet_pipe=%s macfleet_dir=%s macfleet_kills=%s macfleet_argv=%s\n%s",
		quote(word), outputs, quote(pipe), quote(g.Dir), kills, quote(strings.Join(argv, " ")), wrapper)
}

// exported gives a shell an environment.
func exported(env map[string]string) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !shellName.MatchString(name) {
			return "", fmt.Errorf("%w: the guest agent is too old to take the environment variable %q", vm.ErrNotExecuted, name)
		}
		b.WriteString("export " + name + "=" + quote(env[name]) + "\n")
	}
	return b.String(), nil
}

// quote makes one word of a shell of any text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// encode writes a text for printf's %b, on one line: \0 and three digits, lest a digit of
// the text is taken for one.
func encode(text string) string {
	return strings.NewReplacer(`\`, `\0134`, "\n", `\0012`, "\r", `\0015`).Replace(text)
}

func orEmpty(r io.Reader) io.Reader {
	if r == nil {
		return strings.NewReader("")
	}
	return r
}
