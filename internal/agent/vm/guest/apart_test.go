package guest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Whatever the agent is like, what a command says of errors is not in its output.
func TestOutputsApart(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		long := strings.Repeat("0123456789abcdef", 1<<14)
		for _, x := range []struct {
			name, script, stdin string
			want                result
		}{
			{"both", "echo out; echo err >&2; exit 3", "", result{3, "out\n", "err\n"}},
			{"much on both", "tee /dev/stderr", long, result{0, long, long}},
			{"none", "exit 4", "", result{Code: 4}},
			{"killed", "echo err >&2; kill -KILL $$", "", result{137, "", "err\n"}},
			{"errors closed", "exec 2>&-; echo out", "", result{0, "out\n", ""}},
		} {
			t.Run(x.name, func(t *testing.T) {
				g := sh(x.script)
				g.Apart = true
				if d := cmp.Diff(x.want, run(t, c, g, strings.NewReader(x.stdin))); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			})
		}
		t.Run("refused", func(t *testing.T) {
			_, err := c.Exec(t.Context(), vm.GuestCommand{Argv: []string{"no-such-command"}, Apart: true}, vm.Streams{})
			if !errors.Is(err, vm.ErrNotExecuted) {
				t.Errorf("err %v", err)
			}
		})
		t.Run("cancelled", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			out := &lines{seen: make(chan string, 1)}
			ended := make(chan error, 1)
			go func() {
				g := sh("echo begun >&2; exec sleep 600")
				g.Apart = true
				_, err := c.Exec(ctx, g, vm.Streams{Stderr: out})
				ended <- err
			}()
			out.await(t, "begun")
			cancel()
			select {
			case err := <-ended:
				if !errors.Is(err, vm.ErrLost) {
					t.Errorf("err %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the command is awaited for ever")
			}
		})
	})
}

// Where no pipe can be made, as on a full disk, errors come as output.
func TestOutputsApartWithoutAPipe(t *testing.T) {
	each(t, func(t *testing.T, a *agent, c *Client) {
		if a.generation == newest {
			t.Skip("needs no pipe")
		}
		c.pipes = "/no/such/folder"
		g := sh("echo out; echo err >&2; exit 3")
		g.Apart = true
		if d := cmp.Diff(result{3, "out\nerr\n", ""}, run(t, c, g, nil)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// A daemon that keeps the errors of its parent holds up nobody.
func TestADaemonThatHoldsTheErrors(t *testing.T) {
	c := Dial(serve(t, &agent{generation: middle}), Options{AnswerTimeout: time.Minute, HeldTimeout: 50 * time.Millisecond})
	defer c.Close()
	c.apart = time.Minute // for the report, which the errors' reader brings: without it nothing counts as held
	held := 0
	g := sh("sleep 600 >/dev/null & echo $!; exit 6")
	g.Apart = true
	var out bytes.Buffer
	code, err := c.Exec(t.Context(), g, vm.Streams{Stdout: &out, Held: func() { held++ }})
	if code != 6 || err != nil || held != 1 {
		t.Errorf("code %d, err %v, held %d times", code, err, held)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}
