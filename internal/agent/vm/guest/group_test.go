package guest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A command leads a process group of its own, in which its children are.
func TestACommandHasAGroup(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		for _, tty := range []bool{false, true} {
			began := make(chan int, 2)
			g := sh(`trap 'wait; echo caught; exit 9' TERM; sh -c 'trap "echo child; exit 0" TERM; echo ready; while :; do sleep 0.01; done' & wait; wait`)
			g.TTY = tty
			out := &lines{seen: make(chan string, 16)}
			ended := make(chan int, 1)
			go func() {
				code, err := c.Exec(t.Context(), g, vm.Streams{Stdout: out, Began: func(target int) { began <- target }})
				if err != nil {
					t.Error(err)
				}
				ended <- code
			}()
			out.await(t, "ready")
			target := <-began
			if target >= -1 || -target == syscall.Getpgrp() {
				t.Fatalf("on a terminal %v: target %d", tty, target)
			}
			if err := syscall.Kill(target, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for !got["caught"] || !got["child"] {
				select {
				case line := <-out.seen:
					got[line] = true
				case <-time.After(time.Minute):
					t.Fatalf("on a terminal %v: got %v", tty, got)
				}
			}
			if code := <-ended; code != 9 {
				t.Errorf("on a terminal %v: code %d", tty, code)
			}
			if len(began) != 0 {
				t.Error("it began twice")
			}
		}
	})
}

// Every signal of a group is the command's exit code, as that of one process is.
func TestSignalsToAGroup(t *testing.T) {
	// A test that is started under nohup hands its deafness for SIGHUP on, unless it hears
	// the signal itself.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	each(t, func(t *testing.T, _ *agent, c *Client) {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
			out := &lines{seen: make(chan string, 1)}
			var target int
			ended := make(chan int, 1)
			go func() {
				code, err := c.Exec(t.Context(), sh("echo ready; exec sleep 600"), vm.Streams{Stdout: out, Began: func(n int) { target = n }})
				if err != nil {
					t.Error(err)
				}
				ended <- code
			}()
			out.await(t, "ready")
			_ = syscall.Kill(target, s)
			if code := <-ended; code != 128+int(s) {
				t.Errorf("%s: code %d", s, code)
			}
		}
	})
}

// jobControl returns a directory of commands whose sh makes groups by job control, as that of
// macOS does. There is nothing else in it that could.
func jobControl(t *testing.T) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	dir := t.TempDir()
	if err := os.Symlink(bash, filepath.Join(dir, "sh")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sleep", "cat", "ps", "tr"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wrappedByJobControl is a command in its wrapper, by the shell of a jobControl.
func wrappedByJobControl(t *testing.T, dir string, g vm.GuestCommand) *exec.Cmd {
	t.Helper()
	script := strings.ReplaceAll(wrapped("WORD", "one", "", g), "/bin/sh", filepath.Join(dir, "sh"))
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "sh"), "-c", script)
	cmd.Env, cmd.SysProcAttr = []string{"PATH=" + dir}, &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// Guests whose shell makes groups by job control, as macOS has it.
func TestGroupsByJobControl(t *testing.T) {
	dir := jobControl(t)
	for _, c := range []struct {
		name, run, stdin, want string
		code                   int
	}{
		{"input", "cat; exit 3", "in\nput", "in\nput", 3},
		{"input to its end", "tr a b", "aaa", "bbb", 0},
		// Again and again: on a busy machine the first may come before it is stopped.
		{"stopped for a while", `(while sleep 0.3; do kill -CONT $$ || exit; done) >/dev/null 2>&1 & kill -STOP $$; echo on; exit 4`, "", "on\n", 4},
		{"interrupted", "kill -INT $$; sleep 60", "", "", 130},
		{"killed", "kill -KILL $$", "", "", 137},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := wrappedByJobControl(t, dir, sh(c.run))
			cmd.Stdin = strings.NewReader(c.stdin)
			var out, errOut bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errOut
			_ = cmd.Run()
			began := 0
			r := newReports("WORD", 1)
			r.began = func(target int) { began = target }
			var rest bytes.Buffer
			o := &output{reports: r, to: &rest}
			if _, err := o.Write(out.Bytes()); err != nil {
				t.Fatal(err)
			}
			if code, told, _ := r.end(); code != c.code || !told || began >= -1 || rest.String() != c.want || errOut.Len() > 0 {
				t.Errorf("code %d, told %v, began %d, output %q, errors %q", code, told, began, rest.String(), errOut.String())
			}
			if began == -cmd.Process.Pid {
				t.Error("the group is the wrapper's")
			}
		})
	}
}

// What a command leaves in its group is killed before its end is told, where that is asked for:
// it would run beside the command's next run.
func TestTheEndOfACommandKillsItsGroup(t *testing.T) {
	dir := jobControl(t)
	for _, kills := range []bool{false, true} {
		left := filepath.Join(t.TempDir(), "left")
		g := sh(`(trap "" TERM; echo ready; exec sleep 600) & echo $! >"$1"; read -r x; kill -TERM 0; exit 6`, left)
		g.KillGroup = kills
		cmd := wrappedByJobControl(t, dir, g)
		out := &lines{seen: make(chan string, 16)}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		r := newReports("WORD", 1)
		cmd.Stdout = &output{reports: r, to: out}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.await(t, "ready")
		_, _ = in.Write([]byte("end\n"))
		<-r.over
		text, _ := os.ReadFile(left)
		child, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if kills {
			gone(t, child)
		} else if !alive(child) {
			t.Error("what it left was killed")
		}
		_ = syscall.Kill(child, syscall.SIGKILL)
		_ = cmd.Wait()
		if code, told, _ := r.end(); code != 143 || !told {
			t.Errorf("code %d, told %t", code, told)
		}
	}
}

// Whoever answers byte by byte gets every byte, also those that a report begins with.
func TestConversationInBytesOfReports(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		in, feed := io.Pipe()
		defer feed.Close()
		out := &tail{grown: make(chan string, 64)}
		ended := make(chan error, 1)
		go func() {
			_, err := c.Exec(t.Context(), sh("exec cat"), vm.Streams{Stdin: in, Stdout: out})
			ended <- err
		}()
		want := ""
		for _, piece := range []string{"\x1e", "\x1emac", "x\x1emacfleet-", "end"} {
			want += piece
			_, _ = feed.Write([]byte(piece))
			out.await(t, want)
		}
		_ = feed.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A report in a list of processes is no command's beginning, nor is one that would have
// every process signalled.
func TestBeginningsThatAreNone(t *testing.T) {
	for _, text := range []string{"WORDg0;", "WORDg1;", "WORDp1;", "WORDg;", "WORDg99999999999;", "WORDp-7;"} {
		r := newReports("WORD", 1)
		r.began = func(target int) { t.Errorf("%q began %s", text, strconv.Itoa(target)) }
		if _, err := (&output{reports: r}).Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}
