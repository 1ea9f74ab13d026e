package shim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// TestWireStays holds v1 to what older and newer agents say: a change of these
// lines is a new version.
func TestWireStays(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	full := GuestRun{
		ID: "main", Log: "main.log", Timeout: 5 * time.Minute,
		Command: vm.GuestCommand{
			Argv: []string{"/bin/sh", "-c", "echo \"$A\"\n"}, Env: []string{"A=<b>&c"}, Dir: "/tmp",
			TTY: true, Size: vm.TerminalSize{Rows: 24, Cols: 80},
		},
	}
	short := guestRun("init-0", "true")
	short.Timeout = 20 * time.Second
	fed := guestRun("main", "cat")
	fed.Timeout, fed.Stdin, fed.StdinOnce = time.Second, true, true
	beside := guestRun("c-1", "serve")
	beside.Timeout, beside.Command.KillGroup = time.Second, true
	messages := []any{
		request{V: version, Run: toWire(full)},
		request{V: version, Run: toWire(short)},
		request{V: version, Await: &awaitRequest{ID: "main"}},
		reply{V: version},
		reply{V: version, End: &CommandEnd{ID: "main", Begun: at, Ended: at.Add(time.Second), Code: 3, Outcome: Exited}},
		reply{V: version, End: &CommandEnd{ID: "main", Ended: at, Outcome: Unreachable, Message: "why"}},
		reply{V: version, Error: &refusal{Code: RefusedUnknown, Message: "why"}},
		request{V: version, Run: toWire(fed)},
		request{V: version, Signal: &signalRequest{ID: "main", Signal: "TERM"}},
		request{V: version, Exec: &execRequest{
			Argv: []string{"sh"}, Env: []string{"A=b"}, Dir: "/tmp", TTY: true, Rows: 24, Cols: 80, Stdin: true, Stdout: true, Stderr: true, Tied: true,
		}},
		request{V: version, Attach: &attachRequest{ID: "main", Stdin: true, Stdout: true, Stderr: true}},
		request{V: version, Dial: &dialRequest{Port: 8080}},
		request{V: version, Dial: &dialRequest{Port: 8080, Reserved: true}},
		request{V: version, Run: toWire(beside)},
	}
	var got bytes.Buffer
	for _, m := range messages {
		data, err := line(m)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(data)
	}
	if diff := cmp.Diff(read(t, filepath.Join("testdata", "wire-v1.golden")), got.String()); diff != "" {
		t.Error(diff)
	}
	var back request
	if err := readLine(bufio.NewReader(bytes.NewReader(got.Bytes())), maxRequest, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full, back.Run.fromWire()); diff != "" {
		t.Error(diff)
	}
	for _, r := range []GuestRun{fed, beside} {
		if diff := cmp.Diff(r, toWire(r).fromWire()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestFramesStay holds the frames of v1.
func TestFramesStay(t *testing.T) {
	var got []byte
	for _, f := range []struct {
		kind    kind
		payload []byte
	}{
		{stdin, []byte("in")},
		{stdinEnd, nil},
		{stdout, []byte("out")},
		{stderr, []byte{0}},
		{resize, sizePayload(vm.TerminalSize{Rows: 24, Cols: 300})},
		{ended, []byte("{}")},
		{credit, creditPayload(stdout, 70000)},
	} {
		got = appendFrame(got, f.kind, f.payload)
	}
	want := "\x00\x00\x00\x00\x02in" + "\x01\x00\x00\x00\x00" + "\x02\x00\x00\x00\x03out" + "\x03\x00\x00\x00\x01\x00" +
		"\x04\x00\x00\x00\x04\x00\x18\x01\x2c" + "\x05\x00\x00\x00\x02{}" + "\x06\x00\x00\x00\x05\x02\x00\x01\x11\x70"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// say sends what is no request of ours.
func say(t *testing.T, dir string, line []byte) reply {
	t.Helper()
	conn, err := hostos.DialUnix(bounded(t), filepath.Join(dir, socketFile))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(deadline))
	// What is refused early is not read to its end.
	_, _ = conn.Write(line)
	answer, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	var r reply
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStrangeRequests(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	long := append(bytes.Repeat([]byte("x"), maxRequest+1), '\n')
	for _, c := range []struct {
		name, code, says string
		line             []byte
	}{
		{"a later version", RefusedVersion, `it speaks version v1 of the protocol, and was asked in version "v2"`, []byte(`{"v":"v2","run":{"id":"main","argv":["true"]}}` + "\n")},
		{"no version", RefusedVersion, `version ""`, []byte("{}\n")},
		{"no request", RefusedInvalid, "does not know", []byte(`{"v":"v1","suspend":{}}` + "\n")},
		{"no JSON", RefusedInvalid, "not the JSON", []byte("GET / HTTP/1.1\n")},
		{"no end", RefusedInvalid, "too long", long},
		{"a bad ID", RefusedInvalid, "no ID", []byte(`{"v":"v1","run":{"id":"../x","argv":["true"]}}` + "\n")},
	} {
		r := say(t, a.dir, c.line)
		if r.V != version || r.Error == nil || r.Error.Code != c.code || !strings.Contains(r.Error.Message, c.says) {
			t.Errorf("%s: %+v, %+v", c.name, r, r.Error)
		}
	}
	if n := len(g.commands()); n != 0 {
		t.Errorf("%d commands ran", n)
	}
	// What a later v1 adds is for those that know it.
	if r := say(t, a.dir, []byte(`{"v":"v1","trace":"x","run":{"id":"main","argv":["true"],"nice":3}}`+"\n")); r.Error != nil {
		t.Errorf("an unknown field: %+v", r.Error)
	}
}

func TestLargeEnvironment(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	r := guestRun("main", "succeed")
	r.Command.Env = []string{"BIG=" + strings.Repeat("\"", 1<<20)}
	mustRun(t, a.dir, r)
	mustEnd(t, a.dir, "main")
	if diff := cmp.Diff(r.Command.Env, g.commands()[0].Env); diff != "" {
		t.Error("it arrived changed")
	}
}

func TestTooLargeEnvironment(t *testing.T) {
	a := serveAttempt(t, newFakeGuest())
	r := guestRun("main", "succeed")
	r.Command.Env = []string{"BIG=" + strings.Repeat("x", maxRequest)}
	var refused *RefusedError
	if err := Run(bounded(t), a.dir, r); !errors.As(err, &refused) || refused.Code != RefusedInvalid || !strings.Contains(refused.Message, "at most 4194304") {
		t.Errorf("err %v", err)
	}
}

func TestShimOfAnotherVersion(t *testing.T) {
	for name, answer := range map[string]string{
		"that knows what a version is": `{"v":"v0","error":{"code":"version","message":"it speaks version v0"}}`,
		"that does not":                `{"status":"ok"}`,
	} {
		a := serveAttempt(t, newFakeGuest())
		old := filepath.Join(a.dir, socketFile)
		if err := os.Remove(old); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", old)
		if err != nil {
			t.Fatal(err)
		}
		go answerAll(l, answer)
		var refused *RefusedError
		if err := Run(bounded(t), a.dir, guestRun("main", "succeed")); !errors.As(err, &refused) || refused.Code != RefusedVersion {
			t.Errorf("a shim %s: %v", name, err)
		}
		_ = l.Close()
	}
}

func answerAll(l net.Listener, answer string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = bufio.NewReader(conn).ReadBytes('\n')
		_, _ = conn.Write([]byte(answer + "\n"))
		_ = conn.Close()
	}
}

func TestSocketIsTheOwnersOnly(t *testing.T) {
	a := serveAttempt(t, newFakeGuest())
	st, err := os.Stat(filepath.Join(a.dir, socketFile))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %s, err %v", st.Mode(), err)
	}
}
