package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

const rightPassword = `right "horse"`

// testMac answers over real SSH as a Mac does to stage 0, and records all it gets.
type testMac struct {
	t        *testing.T
	listener net.Listener
	hostKey  ssh.Signer
	client   ssh.Signer
	// facts replace lines of what it says of itself.
	facts map[string]string
	// grant is what comes of the password, and granted what it says of itself then.
	grant   string
	granted map[string]string
	// noTart is how a look at tart ends.
	noTart int
	// steps are the answers to the runs of the session step, one after the other.
	steps []document.Report
	// console plays all commands, where it is there.
	console func(command string, c ssh.Channel) int

	mu     sync.Mutex
	logins int
	// away is how many connections it ends before it answers again.
	away int
	runs []execution
}

// execution is what was run: what it was, and what it read.
type execution struct{ what, command, stdin string }

func newTestMac(t *testing.T) *testMac {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &testMac{
		t: t, listener: listener, hostKey: newKey(t), client: newKey(t), grant: "granted",
		facts: map[string]string{
			"os": "26.0", "arch": "arm64", "hw.model": "Mac16,10", "hw.memsize": "17179869184", "kern.hv_vmm_present": "0",
			"kern.bootsessionuuid": "B-1", "ioreg": `"IOPlatformSerialNumber" = "C07TEST"`, "console": "root", "user": "m1",
			"disk": "/dev/disk3s5 200000000 100000000 50000000 67% 1 2 0% /", "filevault": "FileVault is Off.",
		},
		steps: []document.Report{sessionReport(document.Changed, ""), sessionReport(document.Unchanged, "")},
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.logins++
		if !bytes.Equal(key.Marshal(), m.client.PublicKey().Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(m.hostKey)
	var all sync.WaitGroup
	all.Go(func() { m.accept(config, &all) })
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return m
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// sessionReport is a report of the session step: of a failure, when it has a class.
func sessionReport(outcome document.Outcome, class document.Class) document.Report {
	r := document.Report{Verb: document.VerbConverge, Steps: []document.StepReport{
		{Name: "session", Outcome: outcome, Class: class, Detail: "as the test wants"},
	}}
	switch outcome {
	case document.Failed:
		r.Exit = class.Exit()
	case document.Changed:
		r.Exit = document.ExitChanged
	}
	return r
}

func (m *testMac) accept(config *ssh.ServerConfig, all *sync.WaitGroup) {
	for {
		conn, err := m.listener.Accept()
		if err != nil {
			return
		}
		all.Go(func() {
			defer func() { _ = conn.Close() }()
			if m.isAway() {
				return
			}
			_, channels, requests, err := ssh.NewServerConn(conn, config)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			for c := range channels {
				if channel, requests, err := c.Accept(); err == nil {
					all.Go(func() { m.session(channel, requests) })
				}
			}
		})
	}
}

func (m *testMac) isAway() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away--
	return m.away >= 0
}

func (m *testMac) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for r := range requests {
		var asked struct{ Command string }
		_ = ssh.Unmarshal(r.Payload, &asked)
		_ = r.Reply(r.Type == "exec", nil)
		exit := m.execute(asked.Command, channel)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(exit)}))
		return
	}
}

// execute plays a command by what it is for.
func (m *testMac) execute(command string, c ssh.Channel) int {
	if m.console != nil {
		return m.console(command, c)
	}
	what := "session"
	switch {
	case strings.Contains(command, "macfleet-grant"):
		what = "grant"
	case strings.Contains(command, "say probe 1"):
		what = "probe"
	case strings.Contains(command, "xattr "):
		what = "tart"
	case strings.HasPrefix(command, "rm "), strings.HasPrefix(command, "sudo -n rm "):
		what = "remove"
	case strings.Contains(command, "/bin/sh"):
		what = "receive"
		_, _ = fmt.Fprintln(c, "have 0")
	}
	stdin, err := io.ReadAll(c)
	if err != nil {
		m.t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs = append(m.runs, execution{what, command, string(stdin)})
	return m.answer(what, c)
}

func (m *testMac) answer(what string, c io.Writer) int {
	switch what {
	case "grant":
		maps.Copy(m.facts, m.granted)
		_, _ = fmt.Fprintln(c, "grant", m.grant)
	case "tart":
		return m.noTart
	case "remove":
	case "receive":
		_, _ = fmt.Fprintln(c, "receive staged")
	case "probe":
		_, _ = fmt.Fprintln(c, "probe 1")
		for label, value := range m.facts {
			_, _ = fmt.Fprintln(c, label, value)
		}
		_, _ = fmt.Fprintln(c, "end 1")
	default:
		if len(m.steps) == 0 {
			m.t.Error("the session step is run once more than expected")
			return 1
		}
		line, err := document.EncodeReport(m.steps[0])
		if err != nil {
			m.t.Error(err)
		}
		_, _ = c.Write(line)
		exit := m.steps[0].Exit
		m.steps = m.steps[1:]
		return exit
	}
	return 0
}

// saw are the executions, in order.
func (m *testMac) saw() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, r := range m.runs {
		all = append(all, r.what)
	}
	return all
}

// person answers as told, and counts the questions.
type person struct {
	answer, password string
	lines, hiddens   int
	err              error
}

func (p *person) line(context.Context, string) (string, error) {
	p.lines++
	return p.answer, p.err
}

func (p *person) hidden(context.Context, string) (string, error) {
	p.hiddens++
	return p.password, p.err
}

// prepared is one run of prepare against the Mac.
type prepared struct {
	code           int
	stdout, stderr string
}

// prepare runs the command's own code, with a person at the keyboard.
func (m *testMac) prepare(who *person, change func(*preparation)) prepared {
	m.t.Helper()
	address := m.listener.Addr().(*net.TCPAddr)
	build, err := remote.NewBuild([]byte("an agent"))
	if err != nil {
		m.t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	p := &preparation{
		target: remote.Target{Address: address.IP.String(), Port: address.Port, User: "m1", Key: m.client},
		build:  build, out: &stdout, asked: who, settle: func(context.Context) error { return nil },
	}
	if change != nil {
		change(p)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer cancel()
	got := prepared{}
	var exited exitError
	switch err := p.report(ctx, &stderr, p.run(ctx)); {
	case errors.As(err, &exited):
		got.code = exited.code
	case err != nil:
		m.t.Errorf("an end without a code: %v", err)
	}
	got.stdout, got.stderr = stdout.String(), stderr.String()
	return got
}

func keyFile(t *testing.T, key any) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// machO is the smallest header that names a program for a processor.
func machO(processor uint32) []byte {
	head := make([]byte, 0, 32)
	for _, word := range []uint32{0xfeedfacf, processor, 0, 2, 0, 0, 0, 0} {
		head = binary.LittleEndian.AppendUint32(head, word)
	}
	return head
}
