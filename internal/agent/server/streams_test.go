package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// shell runs commands of the host, in place of a guest's.
func shell(ctx context.Context, c vm.GuestCommand, s vm.Streams) (int, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Stdin, s.Stdout, s.Stderr
	err := cmd.Run()
	exit := new(exec.ExitError)
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), nil
	case errors.Is(err, exec.ErrNotFound):
		return 0, fmt.Errorf("%w: not found", vm.ErrNotExecuted)
	}
	return 0, err
}

// transports are the ways of a client.
var transports = []string{"SPDY", "WebSocket", "WebSocket v4", "fallback"}

// executor of a command, as kubectl has it.
func (b *bench) executor(transport, path string, o remotecommand.StreamOptions, argv ...string) remotecommand.Executor {
	b.t.Helper()
	query := url.Values{"command": argv}
	for name, set := range map[string]bool{"input": o.Stdin != nil, "output": o.Stdout != nil, "error": o.Stderr != nil && !o.Tty, "tty": o.Tty} {
		if set {
			query.Set(name, "1")
		}
	}
	target := &url.URL{Scheme: "https", Host: b.addr, Path: path, RawQuery: query.Encode()}
	overSPDY, err := remotecommand.NewSPDYExecutor(b.config("good"), "POST", target)
	if err != nil {
		b.t.Fatal(err)
	}
	overWebSocket, err := remotecommand.NewWebSocketExecutor(b.config("good"), "GET", target.String())
	if transport == "WebSocket v4" {
		overWebSocket, err = remotecommand.NewWebSocketExecutorForProtocols(b.config("good"), "GET", target.String(), "v4.channel.k8s.io")
	}
	if err != nil {
		b.t.Fatal(err)
	}
	both, err := remotecommand.NewFallbackExecutor(overWebSocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	switch transport {
	case "SPDY":
		return overSPDY
	case "fallback":
		return both
	}
	return overWebSocket
}

const execPath = "/exec/ci/build/main"

// run runs a command to its end.
func (b *bench) run(transport, stdin string, argv ...string) (stdout, stderr string, err error) {
	b.t.Helper()
	var out, errOut bytes.Buffer
	o := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}
	if stdin != "" {
		o.Stdin = strings.NewReader(stdin)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	err = b.executor(transport, execPath, o, argv...).StreamWithContext(ctx, o)
	if ctx.Err() != nil {
		return "", "", err // the library still writes into the buffers
	}
	return out.String(), errOut.String(), err
}

func TestExec(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			b := newBench(t, nil)
			b.guests.exec = shell
			if out, errOut, err := b.run(transport, "", "sh", "-c", "echo out; echo err >&2"); err != nil || out != "out\n" || errOut != "err\n" {
				t.Errorf("%q %q %v", out, errOut, err)
			}
			code := clientexec.CodeExitError{}
			if _, _, err := b.run(transport, "", "sh", "-c", "exit 42"); !errors.As(err, &code) || code.Code != 42 {
				t.Errorf("exit code: %v", err)
			}
			if _, _, err := b.run(transport, "", "no-such-command"); err == nil || !strings.Contains(err.Error(), `error executing command in container: "no-such-command": the guest could not start the command: not found`) {
				t.Errorf("no such command: %v", err)
			}
			if out, _, err := b.run(transport, "", "echo", strings.Repeat("x", 100<<10)); err != nil || len(out) != 100<<10+1 {
				t.Errorf("long argument: %d, %v", len(out), err)
			}
			if transport == "WebSocket v4" {
				// It has no way to end the input.
				return
			}
			if out, _, err := b.run(transport, "hello", "cat"); err != nil || out != "hello" {
				t.Errorf("half-close: %q, %v", out, err)
			}
		})
	}
}

func TestExecOfBigOutputAndInput(t *testing.T) {
	data := make([]byte, 24<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(data)
	for _, transport := range transports[:2] {
		b := newBench(t, nil)
		b.guests.exec = func(_ context.Context, _ vm.GuestCommand, s vm.Streams) (int, error) {
			got, err := io.ReadAll(s.Stdin)
			if err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
				return 0, fmt.Errorf("input of %d bytes: %w", len(got), err)
			}
			_, err = io.Copy(s.Stdout, bytes.NewReader(data))
			return 0, err
		}
		out, _, err := b.run(transport, string(data), "any")
		if err != nil || sha256.Sum256([]byte(out)) != sha256.Sum256(data) {
			t.Errorf("%s: %d bytes, %v", transport, len(out), err)
		}
	}
}

// What a command printed before it ended arrives, also where the client still sends.
func TestOutputIsNotLostToInputThatNobodyReads(t *testing.T) {
	for _, transport := range transports[:2] {
		b := newBench(t, nil)
		b.guests.exec = func(_ context.Context, _ vm.GuestCommand, s vm.Streams) (int, error) {
			_, err := s.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20))
			return 3, err
		}
		for range 5 {
			out, _, err := b.run(transport, strings.Repeat("y", 1<<20), "any")
			code := clientexec.CodeExitError{}
			if !errors.As(err, &code) || code.Code != 3 || len(out) != 1<<20 {
				t.Errorf("%s: %d bytes, %v", transport, len(out), err)
			}
		}
	}
}

// queue of sizes of a terminal.
type queue chan remotecommand.TerminalSize

func (q queue) Next() *remotecommand.TerminalSize {
	size, more := <-q
	if !more {
		return nil
	}
	return &size
}

func TestExecWithATerminal(t *testing.T) {
	for _, transport := range transports[:3] {
		b := newBench(t, nil)
		b.guests.exec = func(_ context.Context, c vm.GuestCommand, s vm.Streams) (int, error) {
			if !c.TTY || s.Stderr != nil {
				return 0, errors.New("no terminal")
			}
			// Over WebSocket all comes in one queue: sizes wait behind input that nobody takes.
			go func() { _, _ = io.Copy(io.Discard, s.Stdin) }()
			for range 2 {
				size := <-s.Resize
				fmt.Fprintf(s.Stdout, "%dx%d\n", size.Rows, size.Cols)
			}
			return 0, nil
		}
		sizes := make(queue, 2)
		sizes <- remotecommand.TerminalSize{Width: 80, Height: 24}
		sizes <- remotecommand.TerminalSize{Width: 120, Height: 50}
		var out bytes.Buffer
		o := remotecommand.StreamOptions{Stdin: strings.NewReader("x"), Stdout: &out, Tty: true, TerminalSizeQueue: sizes}
		if err := b.executor(transport, execPath, o, "any").StreamWithContext(t.Context(), o); err != nil || out.String() != "24x80\n50x120\n" {
			t.Errorf("%s: %q, %v", transport, out.String(), err)
		}
		close(sizes)
	}
}

// Over a WebSocket, sizes that nobody takes would hold up the input behind them.
func TestSizesWithoutATerminalHoldUpNothing(t *testing.T) {
	b := newBench(t, nil)
	b.guests.exec = func(_ context.Context, _ vm.GuestCommand, s vm.Streams) (int, error) {
		_, err := io.CopyN(s.Stdout, s.Stdin, 1)
		return 0, err
	}
	sizes := make(queue)
	defer close(sizes)
	stdin, typed := io.Pipe()
	go func() {
		for range 3 { // the third is asked for once the second is sent
			sizes <- remotecommand.TerminalSize{Width: 80, Height: 24}
		}
		_, _ = typed.Write([]byte("x"))
	}()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	asked := remotecommand.StreamOptions{Stdin: stdin, Stdout: &out}
	sent := asked
	sent.Tty, sent.TerminalSizeQueue = true, sizes
	if err := b.executor("WebSocket", execPath, asked, "any").StreamWithContext(ctx, sent); err != nil || out.String() != "x" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// A command whose client is gone is told so, also when it neither reads nor writes.
func TestExecEndsWithItsClient(t *testing.T) {
	for _, transport := range transports[:3] {
		b := newBench(t, nil)
		begun, ended := make(chan struct{}), make(chan struct{})
		b.guests.exec = func(ctx context.Context, _ vm.GuestCommand, _ vm.Streams) (int, error) {
			close(begun)
			<-ctx.Done()
			close(ended)
			return 0, ctx.Err()
		}
		o := remotecommand.StreamOptions{Stdout: io.Discard}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-begun
			cancel()
		}()
		_ = b.executor(transport, execPath, o, "any").StreamWithContext(ctx, o)
		select {
		case <-ended:
		case <-time.After(patience):
			t.Errorf("%s: the command was not told", transport)
		}
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	for _, transport := range transports[:2] {
		b := newBench(t, nil)
		begun := make(chan struct{})
		b.guests.exec = func(ctx context.Context, _ vm.GuestCommand, _ vm.Streams) (int, error) {
			close(begun)
			<-ctx.Done()
			return 0, ctx.Err()
		}
		o := remotecommand.StreamOptions{Stdout: io.Discard}
		done := make(chan error, 1)
		go func() { done <- b.executor(transport, execPath, o, "any").StreamWithContext(t.Context(), o) }()
		<-begun
		b.stop()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s: the client takes it for a success", transport)
			}
		case <-time.After(patience):
			t.Errorf("%s: the client was not told", transport)
		}
	}
}

func TestManyExecsAtOnce(t *testing.T) {
	b := newBench(t, nil)
	arrived, all := make(chan struct{}), make(chan struct{})
	b.guests.exec = func(ctx context.Context, c vm.GuestCommand, s vm.Streams) (int, error) {
		select {
		case arrived <- struct{}{}:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		<-all
		_, err := s.Stdout.Write(bytes.Repeat([]byte(c.Argv[0]), 10000))
		return 0, err
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer close(all)
	for i := range 100 {
		ended := make(chan struct{})
		running.Go(func() {
			defer close(ended)
			name := fmt.Sprintf("%03d", i)
			if out, _, err := b.run(transports[i%2], "", name); err != nil || out != strings.Repeat(name, 10000) {
				t.Errorf("%s: %d bytes, %v", name, len(out), err)
			}
		})
		// One after the other: a server waits 10 seconds for a client's TLS, which a hundred do
		// not get from a busy machine at once.
		select {
		case <-arrived:
		case <-ended:
			return // it has said why
		}
	}
}

func TestRefusedBeforeTheUpgrade(t *testing.T) {
	b := newBench(t, nil)
	ended := running("ended")
	ended.Running = false
	b.put(ended)
	whole := running("vm")
	whole.WholeVM = true
	b.put(whole)
	for path, want := range map[string]string{
		"/exec/ci/other/main?command=a&output=1":        "404 pod does not exist",
		"/exec/ci/build/uid-2/main?command=a&output=1":  "404 pod does not exist",
		"/exec/ci/build/other?command=a&output=1":       `404 container not found ("other")`,
		"/exec/ci/build/ended?command=a&output=1":       `400 container not found ("ended"): it is not running`,
		"/exec/ci/build/main?command=a":                 "400 you must specify at least 1 of stdin, stdout, stderr",
		"/exec/ci/build/main?command=a&output=1":        "400 Upgrade request required",
		"/attach/ci/build/other?output=1":               `404 container not found ("other")`,
		"/attach/ci/build/ended?output=1":               `400 container not found ("ended"): it is not running`,
		"/portForward/ci/other":                         "404 pod does not exist",
		"/portForward/ci/build/uid-2":                   "404 pod does not exist",
		"/portForward/ci/build":                         "400 Upgrade request required",
		"/exec/ci/build/uid-1/main?command=a&error=1":   "400 Upgrade request required",
		"/attach/ci/build/main?tty=1&error=1":           "400 you must specify at least 1 of stdin, stdout, stderr",
		"/attach/ci/build/main?input=1&output=1&error=": "400 Upgrade request required",
	} {
		if code, text := b.send(b.client(), http.MethodPost, path, "good"); fmt.Sprint(code, " ", text) != want {
			t.Errorf("%s: %d %s, want %s", path, code, text, want)
		}
	}
	for _, transport := range transports {
		o := remotecommand.StreamOptions{Stdout: io.Discard}
		err := b.executor(transport, "/exec/ci/build/other", o, "a").StreamWithContext(t.Context(), o)
		if err == nil || transport == "SPDY" && !strings.Contains(err.Error(), `container not found ("other")`) {
			t.Errorf("%s: %v", transport, err)
		}
		err = b.executor(transport, "/attach/ci/build/vm", o).StreamWithContext(t.Context(), o)
		if err == nil || transport == "SPDY" && !strings.Contains(err.Error(), "it is the VM itself") {
			t.Errorf("%s: %v", transport, err)
		}
	}
}

// Who may read a node through its proxy cannot run commands, whatever the transport.
func TestReadersOfANodeCannotExec(t *testing.T) {
	b := newBench(t, nil)
	b.guests.exec = shell
	b.api.set(func() { b.api.may = []string{"alice get proxy"} })
	for _, transport := range transports {
		if out, _, err := b.run(transport, "", "echo", "secret"); err == nil || out != "" {
			t.Errorf("%s: %q", transport, out)
		}
	}
}

func TestAttach(t *testing.T) {
	for _, transport := range transports[:2] {
		for _, takesInput := range []bool{true, false} {
			b := newBench(t, nil)
			c := running("main")
			c.Stdin = takesInput
			b.put(c)
			b.guests.attach = func(_ context.Context, s vm.Streams) error {
				if s.Stdin != nil {
					_, err := io.Copy(s.Stdout, s.Stdin)
					return err
				}
				_, err := s.Stdout.Write([]byte("no input"))
				return err
			}
			var out bytes.Buffer
			o := remotecommand.StreamOptions{Stdin: strings.NewReader("typed"), Stdout: &out, Stderr: io.Discard}
			want := "typed"
			if !takesInput {
				want = "no input"
			}
			if err := b.executor(transport, "/attach/ci/build/main", o).StreamWithContext(t.Context(), o); err != nil || out.String() != want {
				t.Errorf("%s: %q, %v", transport, out.String(), err)
			}
			b.guests.attach = func(context.Context, vm.Streams) error { return errors.New("the shim is gone") }
			if err := b.executor(transport, "/attach/ci/build/main", o).StreamWithContext(t.Context(), o); err == nil || !strings.Contains(err.Error(), "error attaching to container: the shim is gone") {
				t.Errorf("%s: %v", transport, err)
			}
		}
	}
}

func TestRun(t *testing.T) {
	b := newBench(t, nil)
	b.guests.exec = shell
	post := func(query, want string) {
		t.Helper()
		if code, text := b.send(b.client(), http.MethodPost, "/run/ci/build/main?cmd="+url.QueryEscape(query), "good"); fmt.Sprint(code, " ", text) != want {
			t.Errorf("%s: %d %s, want %s", query, code, text, want)
		}
	}
	post("echo a b", "200 a b\n")
	post("false", "500 command 'false' exited with 1: ")
	post("no-such-command", `500 "no-such-command": the guest could not start the command: not found`)
	b.guests.exec = func(context.Context, vm.GuestCommand, vm.Streams) (int, error) { return 0, ErrTooMany }
	post("echo", "429 maximum number of in-flight requests exceeded")
}

func TestClientsThatNeverReadAStream(t *testing.T) {
	for _, transport := range transports[:2] {
		b := newBench(t, nil)
		b.guests.exec = func(_ context.Context, c vm.GuestCommand, s vm.Streams) (int, error) {
			if c.Argv[0] == "quick" {
				return 0, nil
			}
			_, err := io.Copy(s.Stdout, bytes.NewReader(make([]byte, 64<<20)))
			return 0, err
		}
		stuck := make(chan struct{})
		for range 3 {
			reached := make(chan struct{})
			o := remotecommand.StreamOptions{Stdout: unread{sync.OnceFunc(func() { close(reached) }), stuck}}
			go func() { _ = b.executor(transport, execPath, o, "flood").StreamWithContext(t.Context(), o) }()
			<-reached
		}
		if _, _, err := b.run(transport, "", "quick"); err != nil {
			t.Error(err)
		}
		begin := time.Now()
		b.stop()
		if took := time.Since(begin); took > patience {
			t.Errorf("%s: stopped after %s", transport, took)
		}
		close(stuck)
	}
}

// unread takes nothing, once it was reached.
type unread struct {
	reached func()
	stuck   chan struct{}
}

func (u unread) Write(p []byte) (int, error) {
	u.reached()
	<-u.stuck
	return len(p), nil
}
