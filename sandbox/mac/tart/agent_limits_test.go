package tart

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guest"
)

// generations runs a test in a guest of every generation of the agent.
func generations(t *testing.T, test func(t *testing.T, m *fakeMac, g guest.Generation, private string)) {
	t.Helper()
	t.Parallel()
	for _, g := range []guest.Generation{guest.Old, guest.WithEnv, guest.WithSignals} {
		t.Run(string(g), func(t *testing.T) {
			t.Parallel()
			m := cloned(t, &Plan{Agent: g}, "vm")
			m.boot("vm")
			m.awaitAgent("vm")
			test(t, m, g, filepath.Join(m.vm("vm").guest(), "disk/private"))
		})
	}
}

func TestAnImageHasTheReleasedAgent(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	m.boot("vm")
	m.awaitAgent("vm")
	out, code := m.client("vm").exec(t, "echo $GREETING; kill -KILL $$", map[string]any{"env": map[string]string{"GREETING": "hello"}}).end()
	if out != "hello\n" || code != -1 {
		t.Errorf("%q, %d", out, code)
	}
}

// Released agents stall for good when a command is busy on both outputs, until the call is
// given up; the agent in no release does not.
func TestTwoBusyOutputsStall(t *testing.T) {
	const busy = "head -c 1000000 /dev/zero & head -c 1000000 /dev/zero >&2; wait; exit 3"
	generations(t, func(t *testing.T, m *fakeMac, g guest.Generation, _ string) {
		client := m.client("vm")
		c := client.exec(t, busy, nil)
		ended := make(chan error, 1)
		go func() {
			for {
				if m, err := c.receive(); err != nil || m.Has("exit") {
					ended <- err
					return
				}
			}
		}()
		for range 2 { // as long as it takes one that does not stall
			if _, code := client.exec(t, "exec 2>&1; "+busy, nil).end(); code != 3 {
				t.Errorf("on one output: %d", code)
			}
		}
		if g == guest.WithSignals {
			if err := <-ended; err != nil {
				t.Error(err)
			}
			return
		}
		c.cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("it ended: %v", err)
		}
	})
}

func TestACallLastsAsLongAsItsOutputsAreHeld(t *testing.T) {
	generations(t, func(t *testing.T, m *fakeMac, _ guest.Generation, private string) {
		c := m.client("vm").exec(t, "(while [ ! -e /tmp/go ]; do sleep 0.01; done; echo late) & echo $$ >/tmp/pid; echo gone", nil)
		await(t, "the command is gone", func() bool { return m.sh("vm", "[ -s /tmp/pid ] && ! kill -0 $(cat /tmp/pid)").code == 0 })
		if err := os.WriteFile(filepath.Join(private, "tmp/go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := c.end(); out != "gone\nlate\n" || code != 0 {
			t.Errorf("%q, %d", out, code)
		}
	})
}

func TestInputThatACommandDoesNotTake(t *testing.T) {
	generations(t, func(t *testing.T, m *fakeMac, g guest.Generation, _ string) {
		client := m.client("vm")
		c := client.exec(t, "exec <&-; echo closed; while [ ! -e /tmp/go ]; do sleep 0.01; done; exit 3", map[string]any{"interactive": true})
		for m, err := c.receive(); !m.Has("standard_output"); m, err = c.receive() {
			if err != nil {
				t.Fatal(err)
			}
		}
		c.send("standard_input", client.schema.New("IOChunk").Set("data", []byte("in")))
		if g == guest.WithSignals {
			if m, err := c.receive(); status.Code(err) != codes.Unknown {
				t.Errorf("%v, %v", m, err)
			}
			return
		}
		m.sh("vm", "touch /tmp/go")
		if _, code := c.end(); code != 3 {
			t.Errorf("exit %d", code)
		}
	})
}

func TestWhoIsKilledWithItsStream(t *testing.T) {
	generations(t, func(t *testing.T, m *fakeMac, g guest.Generation, _ string) {
		c := m.client("vm").exec(t, "sleep 600 & echo $! $$ >/tmp/pids; wait", nil)
		await(t, "the command runs", func() bool { return m.sh("vm", "[ -s /tmp/pids ]").code == 0 })
		c.cancel()
		await(t, "the command is gone", func() bool { return m.sh("vm", "read child pid </tmp/pids; kill -0 $pid").code != 0 })
		gone := func() bool { return m.sh("vm", "read child pid </tmp/pids; kill -0 $child").code != 0 }
		if g == guest.WithSignals {
			await(t, "its child is gone", gone)
		} else if gone() {
			t.Error("its child is gone, too")
		}
	})
}

// A client that dies does not end the line to the guest.
func TestACommandOutlivesASilentClient(t *testing.T) {
	generations(t, func(t *testing.T, m *fakeMac, _ guest.Generation, _ string) {
		cmd := m.start("exec", "vm", "/bin/sh", "-c", "echo $$ >/tmp/pid; while [ ! -e /tmp/go ]; do sleep 0.01; done; while :; do echo x; sleep 0.01; done")
		await(t, "the command runs", func() bool { return m.sh("vm", "[ -s /tmp/pid ]").code == 0 })
		m.kill(cmd.cmd.Process.Pid, 9)
		cmd.wait()
		if m.sh("vm", "sleep 0.3; kill -0 $(cat /tmp/pid)").code != 0 {
			t.Error("the command died with its client")
		}
		m.sh("vm", "touch /tmp/go")
		await(t, "it dies of its output", func() bool { return m.sh("vm", "kill -0 $(cat /tmp/pid)").code != 0 })
	})
}

// Only the newest agents tell by a code that a command cannot start.
func TestAFileThatIsNoProgram(t *testing.T) {
	generations(t, func(t *testing.T, m *fakeMac, g guest.Generation, _ string) {
		m.sh("vm", "echo x >/tmp/file")
		got := m.do("exec", "vm", "/tmp/file")
		want := 1
		if g == guest.WithSignals {
			want = 125
		}
		if got.code != want || (g == guest.WithSignals && got.err != "") {
			t.Errorf("%+v", got)
		}
	})
}

// Released agents start commands in their own process group.
func TestWhoseGroupACommandIsIn(t *testing.T) {
	generations(t, func(t *testing.T, m *fakeMac, g guest.Generation, _ string) {
		for kind, fields := range map[string]map[string]any{"plain": nil, "tty": {"tty": true}} {
			out, code := m.client("vm").exec(t, `read -r pid name state parent group rest </proc/$$/stat; [ "$group" -eq $$ ] && echo its own`, fields).end()
			own := g == guest.WithSignals || kind == "tty"
			if (code == 0) != own || (out != "") != own {
				t.Errorf("%s: %q, %d", kind, out, code)
			}
		}
	})
}
