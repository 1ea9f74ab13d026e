package guest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A command is over when it has ended. The daemon that it left is not killed for that,
// nor later, and what it prints reaches nobody.
func TestADaemonHoldsUpNoCommand(t *testing.T) {
	each(t, func(t *testing.T, a *agent, _ *Client) {
		c := Dial(serve(t, &agent{generation: a.generation}), Options{AnswerTimeout: time.Minute, HeldTimeout: 50 * time.Millisecond})
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out bytes.Buffer
		held := 0
		code, err := c.Exec(ctx, sh("while sleep 0.01; do echo x; done & echo $!; exit 6"), vm.Streams{Stdout: &out, Held: func() { held++ }})
		if code != 6 || err != nil || held != 1 {
			t.Fatalf("code %d, err %v, told %d times that the output is held", code, err, held)
		}
		// Which of the two printed first is open.
		daemon, err := strconv.Atoi(strings.Trim(out.String(), "x\n"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
		cancel()
		before := out.Len()
		for range 20 {
			run(t, c, sh("sleep 0.01"), nil)
		}
		if got := out.Len(); got != before {
			t.Errorf("%d bytes came after the end", got-before)
		}
		if !alive(daemon) {
			t.Error("the daemon was killed")
		}
	})
}

// A system says of a process that its parent takes away at this moment that its parent is 0.
// That is no reason to kill what the command left.
func TestACommandIsNotKilledForAParentOfNumberZero(t *testing.T) {
	dir := t.TempDir()
	// Once it is asked again, nobody was killed for its first answer.
	ps := "#!/bin/sh\nif [ -e $0.asked ]; then : >$0.again; fi\n: >$0.asked; echo '  0'\n"
	if err := os.WriteFile(filepath.Join(dir, "ps"), []byte(ps), 0o700); err != nil {
		t.Fatal(err)
	}
	c := Dial(serve(t, &agent{generation: middle}), patient)
	defer c.Close()
	command := sh(`while ! [ -e "$1" ]; do sleep 0.1; done; echo late`, filepath.Join(dir, "ps.again"))
	command.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	if got := run(t, c, command, nil); got != (result{Out: "late\n"}) {
		t.Errorf("%+v", got)
	}
}

// Nor where there is no ps to ask.
func TestADaemonOutlivesItsCommandWithoutPs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"sh", "sleep", "setsid"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// The watch looks each second, and its shell is taken away long before. A look takes so
	// long that the command ends in the midst of one.
	left := filepath.Join(dir, "left")
	script := wrapped("WORD", "one", "", sh(`(sleep 4; echo late >"$1") & exit 6`, left))
	slow := strings.Replace(script, "unset macfleet_start\n", "unset macfleet_start\nkill() { command kill \"$@\" && sleep 1; }\n", 1)
	if slow == script {
		t.Fatal("nothing made the watch slow")
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", slow)
	cmd.Env, cmd.SysProcAttr = []string{"PATH=" + dir}, &syscall.SysProcAttr{Setsid: true}
	began := 0
	r := newReports("WORD", 1)
	r.began = func(target int) { began = target }
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 6 {
		t.Fatal(err)
	}
	if _, err := (&output{reports: r}).Write(out); err != nil || began >= 0 {
		t.Fatalf("%q: a group of %d, %v", out, began, err)
	}
	gone(t, began)
	if text, err := os.ReadFile(left); string(text) != "late\n" {
		t.Errorf("what it left was killed: %q, %v", text, err)
	}
}

func TestCloseKills(t *testing.T) {
	for _, g := range generations {
		t.Run(g.String(), func(t *testing.T) {
			socket, _ := throughTart(t, serve(t, &agent{generation: g}))
			c := Dial(socket, patient)
			out, ended := &lines{seen: make(chan string, 1)}, make(chan error, 1)
			go func() {
				_, err := c.Exec(t.Context(), sh("echo $$; exec sleep 600"), vm.Streams{Stdout: out})
				ended <- err
			}()
			var pid int
			select {
			case line := <-out.seen:
				pid, _ = strconv.Atoi(line)
			case <-time.After(time.Minute):
				t.Fatal("it never began")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, vm.ErrLost) || !errors.Is(err, errClosed) {
				t.Errorf("err %v", err)
			}
			gone(t, pid)
		})
	}
}

func TestTheEndOfACommandIsThatOfItsReport(t *testing.T) {
	broken := errors.New("the line broke")
	for _, c := range []struct {
		name, output string
		end          ending
		err          error
		code         int
		is, isNot    error
	}{
		{"told", "WORD3;", ending{code: 9}, nil, 3, nil, nil},
		{"told before the line broke", "WORD3;", ending{}, broken, 3, nil, nil},
		{"refused", "WORDxn;", ending{code: 125}, nil, 0, vm.ErrNotExecuted, nil},
		{"refused before the line broke", "WORDxn;", ending{}, broken, 0, vm.ErrNotExecuted, broken},
		{"not told", "", ending{code: 4}, nil, 4, nil, nil},
		{"the line broke", "", ending{}, broken, 0, broken, nil},
		{"nobody took what came before", "WORD0;", ending{}, untaken(broken), 0, errUntaken, nil},
		{"the shell was killed", "", ending{code: -1}, nil, 0, vm.ErrLost, nil},
		{"an old agent failed a shell that ran", "", ending{}, vm.ErrNotExecuted, 0, vm.ErrLost, vm.ErrNotExecuted},
		{"its shell never ran", "", ending{code: 125}, nil, 0, vm.ErrNotExecuted, nil},
		{"its shell ended with 125, untold", "", ending{code: 125, started: true}, nil, 125, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReports("WORD", 1)
			if _, err := (&output{reports: r}).Write([]byte(c.output)); err != nil {
				t.Fatal(err)
			}
			code, err := ended(sh(""), r, abilities{started: true}, c.end, c.err)
			if code != c.code || !errors.Is(err, c.is) || c.isNot != nil && errors.Is(err, c.isNot) {
				t.Errorf("code %d, err %v", code, err)
			}
		})
	}
	// Of an agent that never tells a start, 125 is an exit code like any other.
	if code, err := ended(sh(""), newReports("WORD", 1), abilities{}, ending{code: startFailure}, nil); code != startFailure || err != nil {
		t.Errorf("an older agent's 125: code %d, err %v", code, err)
	}
}
