package guest

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// throughTart is a socket that leads to the agent's as tart's does: that one side hung up
// is not passed on, and only a write that fails ends the other. Its guest dies without a last word.
func throughTart(t *testing.T, agent string) (socket string, die func()) {
	t.Helper()
	l := listen(t)
	var mu sync.Mutex
	var lines []*net.UnixConn
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			inside, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: agent, Net: "unix"})
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			lines = append(lines, inside)
			mu.Unlock()
			pass := func(to, from net.Conn) {
				if _, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from}); err != nil {
					_, _ = to.Close(), from.Close()
				}
			}
			go pass(inside, client)
			go pass(client, inside)
		}
	}()
	return l.Addr().String(), func() {
		mu.Lock()
		defer mu.Unlock()
		for _, line := range lines {
			_, _ = line.CloseRead(), line.CloseWrite()
		}
	}
}

func TestAnAgentThatDiesUnderACommand(t *testing.T) {
	socket, die := throughTart(t, serve(t, &agent{generation: middle}))
	c := Dial(socket, Options{AnswerTimeout: time.Minute, KnockInterval: 20 * time.Millisecond})
	defer c.Close()
	out, ended := &lines{seen: make(chan string, 1)}, make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), sh("echo begun; exec sleep 600"), vm.Streams{Stdout: out})
		ended <- err
	}()
	out.await(t, "begun")
	die()
	select {
	case err := <-ended:
		if !errors.Is(err, vm.ErrLost) {
			t.Errorf("err %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command is awaited for ever")
	}
}

// Without that a silent command on a dead line would be awaited for ever.
func TestAGuestIsAskedWhileACommandRuns(t *testing.T) {
	a := &agent{generation: middle}
	c := Dial(serve(t, a), Options{AnswerTimeout: time.Minute, KnockInterval: time.Millisecond})
	defer c.Close()
	in, end := io.Pipe()
	go func() {
		late := time.After(time.Minute)
		for a.asked.Load() < 10 {
			select {
			case <-time.After(time.Millisecond):
			case <-late:
				t.Error("it is not asked")
				_ = end.Close()
				return
			}
		}
		_ = end.Close()
	}()
	if r := run(t, c, sh("cat; exit 3"), in); r.Code != 3 {
		t.Errorf("%+v", r)
	}
}

func TestACommandAfterTheAgentWasStartedAgain(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	a := &agent{generation: middle}
	a.listen(t, socket)
	through, _ := throughTart(t, socket)
	c := Dial(through, patient)
	defer c.Close()
	if r := run(t, c, sh("exit 3"), nil); r.Code != 3 {
		t.Fatalf("%+v", r)
	}
	a.server.Stop()
	(&agent{generation: middle}).listen(t, socket)
	if r := run(t, c, sh("exit 4"), nil); r.Code != 4 {
		t.Errorf("%+v", r)
	}
}

func TestNothingBeginsOnAClosedClient(t *testing.T) {
	c := Dial(serve(t, &agent{generation: newest}), patient)
	run(t, c, sh("true"), nil)
	c.calls.Wait() // Close would wait for what is left
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), sh("true"), vm.Streams{}); !errors.Is(err, vm.ErrGuestUnreachable) {
		t.Errorf("err %v", err)
	}
}
