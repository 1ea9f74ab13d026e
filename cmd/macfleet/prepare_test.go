package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

func willing() *person { return &person{answer: "yes", password: rightPassword} }

// Requirement 002, part 3: a key and one password is all it takes.
func TestRequirement002_PrepareByHand(t *testing.T) {
	m := newTestMac(t)
	who := willing()
	got := m.prepare(who, nil)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff([]string{"probe", "grant", "receive", "session", "session"}, m.saw()); diff != "" {
		t.Error(diff)
	}
	if who.lines != 1 || who.hiddens != 1 {
		t.Errorf("asked %d and %d times", who.lines, who.hiddens)
	}
	if m.runs[1].stdin != rightPassword+"\n" {
		t.Errorf("sudo reads %q", m.runs[1].stdin)
	}
	first, second := m.document(3), m.document(4)
	if first.Secrets == nil || first.Secrets.ConsolePassword != rightPassword || second.Secrets != nil {
		t.Error("the password belongs to the first run of the step, and to that only")
	}
	if !first.Mac.AutoLogin || first.Host.User != "m1" || first.Join != nil {
		t.Errorf("the document asks for %+v", first)
	}
	for _, r := range m.runs {
		if strings.Contains(r.command, rightPassword) {
			t.Errorf("the password is in the command of %s", r.what)
		}
		if !strings.Contains(r.command, "--step session") && strings.Contains(r.command, document.VerbConverge) && r.what == "session" {
			t.Errorf("%s would leave a journal", r.command)
		}
	}
	if strings.Contains(got.stdout, rightPassword) || !strings.Contains(got.stdout, ssh.FingerprintSHA256(m.hostKey.PublicKey())) {
		t.Errorf("it says %q", got.stdout)
	}
}

// What answers at an address before anybody knows that it is a Mac writes to a terminal.
func TestWhatAMacSaysOfItselfDoesNothingToATerminal(t *testing.T) {
	m := newTestMac(t)
	m.facts["hw.model"] = "Mac14,3\x1b[2J\a\u009b1A\xff\rtype rm"
	got := m.prepare(willing(), nil)
	if want := "it is a Mac14,3\ufffd[2J\ufffd\ufffd1A\ufffd\ufffdtype rm with macOS "; got.code != 0 || !strings.Contains(got.stdout, want) {
		t.Errorf("%+v, want %q", got, want)
	}
}

// document is what an execution read.
func (m *testMac) document(i int) document.Desired {
	m.t.Helper()
	d, err := document.DecodeDesired(strings.NewReader(m.runs[i].stdin))
	if err != nil {
		m.t.Fatal(err)
	}
	return d
}

func TestPrepareAsksForNoPasswordThatIsNotNeeded(t *testing.T) {
	m := newTestMac(t)
	m.facts["sudo"] = "yes"
	m.steps = []document.Report{sessionReport(document.Unchanged, "")}
	who := willing()
	if got := m.prepare(who, nil); got.code != 0 || who.hiddens != 0 {
		t.Errorf("asked %d times: %+v", who.hiddens, got)
	}
	if diff := cmp.Diff([]string{"probe", "receive", "session"}, m.saw()); diff != "" {
		t.Error(diff)
	}
}

func TestPrepareAsksForTheSessionAlone(t *testing.T) {
	m := newTestMac(t)
	m.facts["sudo"] = "yes"
	m.steps = append([]document.Report{sessionReport(document.Failed, document.Wait)}, m.steps...)
	who := willing()
	if got := m.prepare(who, nil); got.code != 0 || who.hiddens != 1 {
		t.Errorf("asked %d times: %+v", who.hiddens, got)
	}
	if diff := cmp.Diff([]string{"probe", "receive", "session", "session", "session"}, m.saw()); diff != "" {
		t.Error(diff)
	}
	if m.document(2).Secrets != nil || m.document(3).Secrets == nil {
		t.Error("the password is sent before it is needed, or not then")
	}
}

// Requirement 002, part 3, and what a wrong password costs: it is sent once.
func TestRequirement002_PrepareNeverSendsAPasswordTwice(t *testing.T) {
	for outcome, c := range map[string]struct {
		code int
		says string
	}{
		"rejected":   {exitPassword, "cost one of the few attempts"},
		"locked":     {exitPassword, "locked"},
		"overridden": {exitFailed, "sudoers.d"},
		"failed":     {exitFailed, "sudoers.d"},
		"nonsense":   {exitFailed, "may have been tried"},
	} {
		m := newTestMac(t)
		m.grant = outcome
		who := willing()
		got := m.prepare(who, nil)
		if got.code != c.code || !strings.Contains(got.stderr, c.says) || who.hiddens != 1 {
			t.Errorf("%s: asked %d times: %+v", outcome, who.hiddens, got)
		}
		if diff := cmp.Diff([]string{"probe", "grant"}, m.saw()); diff != "" {
			t.Errorf("%s: %s", outcome, diff)
		}
		if strings.Contains(got.stderr, rightPassword) {
			t.Errorf("%s: the password is shown", outcome)
		}
	}
}

func TestPrepareRefusesWhatCannotBeAPassword(t *testing.T) {
	for _, text := range []string{"", document.Sealed, "vnc://m1:" + document.Sealed + "@192.0.2.1", "a\x00b"} {
		m := newTestMac(t)
		got := m.prepare(&person{answer: "yes", password: text}, nil)
		if got.code != exitUsage || !strings.Contains(got.stderr, "nothing was sent") {
			t.Errorf("%q: %+v", text, got)
		}
		if diff := cmp.Diff([]string{"probe"}, m.saw()); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestPrepareNeedsTheHostKeyAccepted(t *testing.T) {
	other := remote.Pin{Algorithm: remote.DefaultAlgorithm, SHA256: ssh.FingerprintSHA256(newKey(t).PublicKey())}
	for name, c := range map[string]struct {
		who   *person
		pin   remote.Pin
		code  int
		asked int
	}{
		"no":               {&person{answer: "no"}, remote.Pin{}, exitHostKey, 1},
		"only enter":       {&person{}, remote.Pin{}, exitHostKey, 1},
		"y":                {&person{answer: "y"}, remote.Pin{}, exitHostKey, 1},
		"nobody there":     {&person{err: errNobody}, remote.Pin{}, exitUsage, 1},
		"another was said": {willing(), other, exitHostKey, 0},
	} {
		m := newTestMac(t)
		got := m.prepare(c.who, func(p *preparation) { p.target.Pin = c.pin })
		if got.code != c.code || c.who.lines != c.asked || c.who.hiddens != 0 || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: %+v", name, got)
		}
		if len(m.saw()) != 0 || m.logins != 0 {
			t.Errorf("%s: %d logins, ran %v", name, m.logins, m.saw())
		}
	}
	m := newTestMac(t)
	who := willing()
	got := m.prepare(who, func(p *preparation) {
		p.target.Pin = remote.Pin{Algorithm: remote.DefaultAlgorithm, SHA256: ssh.FingerprintSHA256(m.hostKey.PublicKey())}
	})
	if got.code != 0 || who.lines != 0 {
		t.Errorf("with the right fingerprint: asked %d times: %+v", who.lines, got)
	}
}

// Whatever is no Mac for a fleet gets nothing secret.
func TestF13_PrepareSendsNothingToAnotherMachine(t *testing.T) {
	for label, value := range map[string]string{
		"arch": "x86_64", "kern.hv_vmm_present": "1", "filevault": "FileVault is On.", "sudo": "agent", "disk": "", "ioreg": "",
	} {
		m := newTestMac(t)
		m.facts[label] = value
		who := willing()
		got := m.prepare(who, nil)
		if got.code != exitUnfit || who.hiddens != 0 || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: %+v", label, got)
		}
		if diff := cmp.Diff([]string{"probe"}, m.saw()); diff != "" {
			t.Errorf("%s: %s", label, diff)
		}
		if m.runs[0].stdin != "" {
			t.Errorf("%s: it was sent %q", label, m.runs[0].stdin)
		}
	}
}

func TestPrepareTellsTheWaysOutWhenTheKeyIsRefused(t *testing.T) {
	m := newTestMac(t)
	other := newKey(t)
	who := willing()
	got := m.prepare(who, func(p *preparation) { p.target.Key = other })
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(other.PublicKey())))
	if got.code != exitKeyRefused || who.hiddens != 0 {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{line, "~/.ssh/scw_authorized_keys", "VNC", "reinstall"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("%q is not in %q", want, got.stderr)
		}
	}
}

func TestPrepareWithoutAMac(t *testing.T) {
	m := newTestMac(t)
	_ = m.listener.Close()
	if got := m.prepare(willing(), nil); got.code != exitUnreachable || !strings.Contains(got.stderr, "Remote Login") {
		t.Errorf("%+v", got)
	}
}

func TestPrepareSaysWhyThereIsNoSession(t *testing.T) {
	failed := sessionReport(document.Failed, document.Retry)
	for name, steps := range map[string][]document.Report{
		"at once": {failed}, "sealed soon after": {sessionReport(document.Changed, ""), failed},
		"the password was not enough": {sessionReport(document.Failed, document.Wait)},
	} {
		m := newTestMac(t)
		m.steps = steps
		if got := m.prepare(willing(), nil); got.code != exitSession || !strings.Contains(got.stderr, "as the test wants") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestPrepareInterrupted(t *testing.T) {
	m := newTestMac(t)
	var stderr bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &preparation{out: &stderr, target: remote.Target{Address: m.listener.Addr().String()}}
	var exited exitError
	if err := p.report(ctx, &stderr, p.run(ctx)); !errors.As(err, &exited) || exited.code != exitInterrupted {
		t.Errorf("got %v", err)
	}
}

func TestPrepareCommandLine(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := keyFile(t, private)
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const arm, intel = 0x0100000c, 0x01000007
	agent := file("agent", machO(arm))
	good := map[string]string{"host": "127.0.0.1", "port": "1", "user": "m1", "key": key, "agent": agent}
	for name, c := range map[string]struct {
		flag, value, says string
		code              int
	}{
		"as it should be":      {"port", "1", "Remote Login", exitUnreachable},
		"no host":              {"host", "", "--host is missing", exitUsage},
		"a user before it":     {"host", "m1@127.0.0.1", "--user", exitUsage},
		"a port behind it":     {"host", "127.0.0.1:22", "--port", exitUsage},
		"an address of IPv6":   {"host", "::1", "Remote Login", exitUnreachable},
		"root":                 {"user", "root", "--user", exitUsage},
		"no port":              {"port", "0", "--port", exitUsage},
		"no number":            {"port", "x", "--port", exitUsage},
		"half a fingerprint":   {"host-key-fingerprint", "SHA256:abc", "--host-key-fingerprint", exitUsage},
		"no key":               {"key", filepath.Join(dir, "none"), "--key", exitUsage},
		"a key that is none":   {"key", agent, "--key", exitUsage},
		"no agent":             {"agent", filepath.Join(dir, "none"), "--agent", exitUsage},
		"an empty agent":       {"agent", file("empty", nil), "not a program for Macs", exitUsage},
		"a truncated agent":    {"agent", file("cut", machO(arm)[:20]), "not a program for Macs", exitUsage},
		"an agent for Intel":   {"agent", file("intel", machO(intel)), "Apple silicon", exitUsage},
		"an agent for nothing": {"agent", file("text", []byte("#!/bin/sh\n")), "not a program for Macs", exitUsage},
	} {
		for _, command := range [][]string{{"host", "prepare"}, {"prepare-fleet-host"}} {
			args := command
			for flag, value := range good {
				if flag != c.flag {
					args = append(args, "--"+flag, value)
				}
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append(args, fmt.Sprintf("--%s=%s", c.flag, c.value)), &stdout, &stderr)
			if code != c.code || !strings.Contains(stderr.String(), c.says) || strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("%s: exit %d: %s", name, code, stderr.String())
			}
		}
	}
}

func TestTypedPasswordsDoNotPrint(t *testing.T) {
	p := struct{ P typed }{rightPassword}
	if text := fmt.Sprintf("%v %+v %#v %s", p, p, p, p.P); strings.Contains(text, "horse") {
		t.Error(text)
	}
	if text, err := json.Marshal(typed("x").String()); err != nil || strings.Contains(string(text), "x") {
		t.Errorf("%s %v", text, err)
	}
}
