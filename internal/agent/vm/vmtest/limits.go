package vmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/guest"
)

// sharesRoot is where a guest sees what is shared with it.
const sharesRoot = "/Volumes/My Shared Files/"

// shares: a guest reads and writes a directory of the host, and only reads one that is shared so.
func shares(t *testing.T, s Subject) {
	data, conf := t.TempDir(), t.TempDir()
	for _, dir := range []string{data, conf} {
		if err := os.WriteFile(filepath.Join(dir, "said"), []byte("by the host"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	Create(t, s, "tk-a-0")
	Execute(t, s, "tk-a-0", vm.Share{Name: "data", Path: data}, vm.Share{Name: "conf", Path: conf, ReadOnly: true})
	Running(t, s, "tk-a-0")
	g := Up(t, s, "tk-a-0")
	script := `cd "$1" && cat data/said conf/said && printf guest >data/back && ! (printf guest >conf/back) 2>/dev/null`
	if got := do(t, s, g, shell(script, sharesRoot), nil); got != (result{Out: "by the hostby the host"}) {
		t.Errorf("%+v", got)
	}
	if back, err := os.ReadFile(filepath.Join(data, "back")); string(back) != "guest" {
		t.Errorf("the host reads %q, %v", back, err)
	}
	if _, err := os.Stat(filepath.Join(conf, "back")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a guest wrote to what it may read: %v", err)
	}
}

// heldTimeout is that of a client for commands whose outputs are held, and far below the
// minutes that the commands here sleep.
const heldTimeout = time.Second

// inputLeft: the exit code of a command that did not take its input is told.
func inputLeft(t *testing.T, s Subject, g vm.Guest) {
	for _, c := range []struct {
		script string
		want   result
	}{
		{"head -c 10; exit 3", result{3, "xxxxxxxxxx", ""}},
		{"exec <&-; sleep 0.2; echo late; exit 4", result{4, "late\n", ""}},
		{"exit 5", result{5, "", ""}},
	} {
		for range 5 {
			if got := do(t, s, g, shell(c.script), strings.NewReader(strings.Repeat("x", 1<<20))); got != c.want {
				t.Fatalf("%s: %+v", c.script, got)
			}
		}
	}
}

// outputsHeld: a command has ended when it has ended, whoever holds its outputs.
func outputsHeld(t *testing.T, s Subject, g vm.Guest, short *guest.Client) {
	for _, c := range []struct {
		name, script string
		tty, held    bool
	}{
		{"a daemon with the outputs", "sleep 300 & echo gone; exit 6", false, true},
		{"a daemon with one of them", "sleep 300 >/dev/null & echo gone; exit 6", false, true},
		{"a daemon that prints", "(i=0; while [ $i -lt 6000 ]; do echo x; sleep 0.05; i=$((i+1)); done) & echo gone; exit 6", false, true},
		{"a daemon without them", "nohup sleep 300 </dev/null >/dev/null 2>&1 & echo gone; exit 6", false, false},
		{"one on a terminal", "nohup sleep 300 </dev/null >/dev/null 2>&1 & echo gone; exit 6", true, false},
		{"output that comes late", "(sleep 0.2; echo late) & echo gone; exit 6", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, held, out := g, false, &tail{}
			if c.held {
				client = short
			}
			ctx, cancel := context.WithTimeout(t.Context(), s.patience())
			defer cancel()
			cmd := shell(c.script)
			cmd.TTY = c.tty
			code, err := client.Exec(ctx, cmd, vm.Streams{Stdout: out, Held: func() { held = true }})
			if code != 6 || err != nil || held != c.held || !strings.Contains(out.String(), "gone") {
				t.Errorf("code %d, err %v, held %v, output %q", code, err, held, out)
			}
			if c.name == "output that comes late" && !strings.HasSuffix(out.String(), "late\n") {
				t.Errorf("output %q", out)
			}
		})
	}
}

// flood: a guest that prints a lot on both outputs loses nothing, and holds up nobody.
func flood(t *testing.T, s Subject, g vm.Guest) {
	const each = 32 << 20
	var out, errOut counter
	ctx, cancel := context.WithTimeout(t.Context(), 5*s.patience())
	defer cancel()
	cmd := shell(`head -c "$1" /dev/zero & head -c "$1" /dev/zero >&2; wait; exit 7`, fmt.Sprint(each))
	code, err := g.Exec(ctx, cmd, vm.Streams{Stdin: endless{}, Stdout: &out, Stderr: &errOut})
	if code != 7 || err != nil || out+errOut != 2*each || (!s.OneOutput && out != each) {
		t.Errorf("code %d, err %v, %d and %d bytes", code, err, out, errOut)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// endless is input that nobody reads to its end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// reportsInOutput: what looks like the report of a command's end is its output.
func reportsInOutput(t *testing.T, s Subject, g vm.Guest) {
	got := do(t, s, g, shell(`tr '\0' '\n' </proc/$PPID/environ 2>/dev/null || ps -E -ww -o command= -p $PPID; printf 'macfleet-0;no end'`), nil)
	if !strings.HasSuffix(got.Out, "macfleet-0;no end") || got.Code != 0 {
		t.Errorf("%+v", got)
	}
}

// cancelOnATerminal: a command is killed that a terminal which goes away does not end.
func cancelOnATerminal(t *testing.T, s Subject, g vm.Guest) {
	cmd := shell("trap '' HUP INT; echo $$; exec sleep 600")
	cmd.TTY = true
	in, keys := io.Pipe()
	defer in.Close()
	cancelled(t, s, g, cmd, vm.Streams{Stdin: in}, func(stop context.CancelFunc) {
		_, _ = keys.Write([]byte{3}) // Ctrl-C is for the command alone
		stop()
	})
}

// closeKills: the commands of a client that is closed are killed, though tart keeps its
// line to the guest.
func closeKills(t *testing.T, s Subject, g vm.Guest, dial func() *guest.Client) {
	for range 3 {
		client := dial()
		cancelled(t, s, g, shell("echo $$; exec sleep 600"), vm.Streams{}, func(context.CancelFunc) { _ = client.Close() }, client)
	}
}

// cancelled runs a command that prints its number, gives it up once it has, and awaits
// its end in the guest.
func cancelled(t *testing.T, s Subject, g vm.Guest, cmd vm.GuestCommand, streams vm.Streams, stop func(context.CancelFunc), by ...vm.Guest) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, ended := &tail{}, make(chan error, 1)
	streams.Stdout = out
	go func() {
		_, err := append(by, g)[0].Exec(ctx, cmd, streams)
		ended <- err
	}()
	await(t, s, "the command begins", func() bool { return strings.HasSuffix(out.String(), "\n") })
	stop(cancel)
	select {
	case err := <-ended:
		if !errors.Is(err, vm.ErrLost) {
			t.Errorf("err %v", err)
		}
	case <-time.After(s.patience()):
		t.Fatal("exec does not return")
	}
	pid := string(bytes.TrimSpace([]byte(out.String())))
	await(t, s, "the command is killed", func() bool {
		return do(t, s, g, shell(`kill -0 "$1" 2>/dev/null`, pid), nil).Code != 0
	})
}
