package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/accept"
	"github.com/macfleet/macfleet/internal/remote"
)

// acceptance runs the command's own code, with a person at the keyboard, and returns the
// report, where there is one.
func (m *testMac) acceptance(who *person, change func(_ *acceptance, interrupt func())) (prepared, *accept.Report) {
	m.t.Helper()
	address := m.listener.Addr().(*net.TCPAddr)
	build, err := remote.NewBuild([]byte("an agent"))
	if err != nil {
		m.t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	p := &preparation{
		target: remote.Target{
			Address: address.IP.String(), Port: address.Port, User: "m1", Key: m.client,
			Pin: remote.Pin{Algorithm: remote.DefaultAlgorithm, SHA256: ssh.FingerprintSHA256(m.hostKey.PublicKey())},
		},
		out: &stdout, asked: who,
	}
	a := &acceptance{preparation: p, flags: acceptFlags{report: filepath.Join(m.t.TempDir(), "report")}}
	a.options = accept.Options{Agent: build, Damaged: build, Now: time.Now, Pause: remote.Pause, Version: "v0"}
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer cancel()
	if change != nil {
		change(a, cancel)
	}
	got := prepared{}
	var exited exitError
	switch err := p.report(ctx, &stderr, a.run(ctx)); {
	case errors.As(err, &exited):
		got.code = exited.code
	case err != nil:
		m.t.Errorf("an end without a code: %v", err)
	}
	got.stdout, got.stderr = stdout.String(), stderr.String()
	return got, readAcceptance(m.t, a.flags.files())
}

func readAcceptance(t *testing.T, files []string) *accept.Report {
	t.Helper()
	text, err := os.ReadFile(files[1])
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var r accept.Report
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	if people, err := os.ReadFile(files[0]); err != nil || string(people) != r.Text() {
		t.Errorf("the two forms differ: %v", err)
	}
	return &r
}

// It is asked when it is known which Mac it is, by reads alone.
func TestAcceptTouchesNoMacWithoutLeave(t *testing.T) {
	for name, c := range map[string]struct {
		who  *person
		says string
	}{
		"yes is not wipe": {&person{answer: "yes"}, "may not be wiped"},
		"only enter":      {&person{}, "may not be wiped"},
		"nobody there":    {&person{err: errNobody}, "--yes-wipe"},
	} {
		m := newTestMac(t)
		got, r := m.acceptance(c.who, nil)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.says) || r != nil || strings.Join(m.saw(), " ") != "probe tart" {
			t.Errorf("%s: ran %q: %+v", name, m.saw(), got)
		}
		if !strings.Contains(got.stdout, "Mac16,10 with macOS 26.0, serial number C07TEST; its console belongs to root") {
			t.Errorf("%s: it does not say which Mac: %s", name, got.stdout)
		}
	}
}

func TestAcceptPinsTheHostKey(t *testing.T) {
	m := newTestMac(t)
	other := remote.Pin{Algorithm: remote.DefaultAlgorithm, SHA256: ssh.FingerprintSHA256(newKey(t).PublicKey())}
	got, _ := m.acceptance(&person{answer: "wipe"}, func(a *acceptance, _ func()) { a.target.Pin = other })
	if got.code != exitHostKey || len(m.saw()) != 0 {
		t.Errorf("another key: ran %q: %+v", m.saw(), got)
	}
	// One answer cannot be both, so that the flag says the first.
	who := &person{answer: "yes"}
	got, r := m.acceptance(who, func(a *acceptance, _ func()) {
		a.target.Pin, a.flags.yesWipe = remote.Pin{}, true
		a.options.Skip = accept.Sections()
	})
	if got.code != 0 || who.lines != 1 || r == nil || !strings.Contains(got.stdout, "pinned for this run: "+remote.DefaultAlgorithm) {
		t.Errorf("asked %d times: %+v", who.lines, got)
	}
	if r.Count(accept.NotTried) != len(accept.Sections()) || len(r.Rows) != len(accept.Sections()) || r.Left != "nothing" {
		t.Errorf("skipped, and it says %s", r.Text())
	}
}

func TestAcceptRefusesWhatIsNoMacForTrials(t *testing.T) {
	for label, value := range map[string]string{
		"arch": "x86_64", "kern.hv_vmm_present": "1", "sudo": "agent", "journal": "{}", "os": "", "filevault": "FileVault is On.",
		"console": "somebody", "disk": "/dev/disk3s5 200 100 50 67% 1 2 0% /", "hw.memsize": "",
		"current": "/usr/local/libexec/macfleet/" + strings.Repeat("0a", 32),
	} {
		m := newTestMac(t)
		m.facts[label] = value
		who := &person{answer: "wipe", password: rightPassword}
		got, r := m.acceptance(who, nil)
		if got.code != exitUnfit || who.hiddens != 0 || r != nil || strings.Join(m.saw(), " ") != "probe" {
			t.Errorf("%s: ran %q: %+v", label, m.saw(), got)
		}
	}
}

// On a Mac without tart, converge would fail before the agent is there to take it back.
func TestAcceptRefusesAMacWithoutTart(t *testing.T) {
	m := newTestMac(t)
	m.noTart = 1
	got, r := m.acceptance(&person{answer: "wipe"}, nil)
	if got.code != exitUnfit || r != nil || !strings.Contains(got.stderr, "--tart-version") || strings.Join(m.saw(), " ") != "probe tart tart" {
		t.Errorf("ran %q: %+v", m.saw(), got)
	}
}

// The mark of a fleet is read by root alone: it is looked for again after the grant.
func TestAcceptRefusesAMarkThatOnlyRootReads(t *testing.T) {
	m := newTestMac(t)
	m.granted = map[string]string{"sudo": "yes", "journal": "{}"}
	got, r := m.acceptance(&person{answer: "wipe", password: rightPassword}, func(a *acceptance, _ func()) { a.options.Skip = []string{"looks"} })
	if got.code != exitUnfit || r != nil || !strings.Contains(got.stderr, "mark of a fleet") || strings.Join(m.saw(), " ") != "probe tart probe probe grant probe remove" {
		t.Errorf("ran %q: %+v", m.saw(), got)
	}
	if last := m.runs[len(m.runs)-1].command; !strings.HasSuffix(last, " /etc/sudoers.d/m1-nopasswd") {
		t.Errorf("it removed %q", last)
	}
}

// A run that only became root takes that back, also on a Mac that is away for a while.
func TestAcceptTakesItsRuleBack(t *testing.T) {
	m := newTestMac(t)
	got, r := m.acceptance(&person{answer: "wipe", password: rightPassword}, func(a *acceptance, _ func()) {
		a.options.Skip = []string{"looks", "root-looks", "upload"}
		a.options.Pause = func(context.Context, time.Duration) error { return nil }
		a.out = &watcher{on: "uninstall: ", do: func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.away = 3
		}}
	})
	if m.away >= 0 {
		t.Error("it was not dialled until it answered")
	}
	if r == nil || r.Left != "nothing" || !strings.HasSuffix(strings.Join(m.saw(), " "), "grant probe probe remove remove probe") {
		t.Errorf("ran %q: %+v", m.saw(), got)
	}
}

// The password is asked for once and sent once, and a wrong one ends what needs it.
func TestAcceptReportsAWrongPassword(t *testing.T) {
	m := newTestMac(t)
	m.grant = "rejected"
	who := &person{answer: "wipe", password: rightPassword}
	got, r := m.acceptance(who, func(a *acceptance, _ func()) {
		a.options.Skip = []string{"looks"}
		a.options.Simulated = accept.Simulated{accept.AsDelivered: {"root/grant": {"granted"}, "root/end": {"to its end"}}}
	})
	if got.code != exitDiffers || who.hiddens != 1 || strings.Join(m.saw(), " ") != "probe tart probe probe grant" {
		t.Fatalf("asked %d times, ran %q: %+v", who.hiddens, m.saw(), got)
	}
	if !strings.Contains(got.stdout, "root: broken off: the user does not become root") {
		t.Errorf("it does not say that the section broke off: %s", got.stdout)
	}
	if r.Count(accept.Differs) != 2 || r.Left != "nothing" || strings.Contains(got.stdout+got.stderr+r.Text(), rightPassword) {
		t.Errorf("%s%s", got.stdout, r.Text())
	}
}

// Enter alone is no answer where the password is needed, and skips it where it is not.
func TestAcceptAsksAgainForAPassword(t *testing.T) {
	for name, c := range map[string]struct {
		sudo string
		asks int
		says string
	}{
		"needed":     {"no", mostAsked, "no password was typed"},
		"not needed": {"yes", 1, "it takes the user's password"},
	} {
		m := newTestMac(t)
		m.facts["sudo"] = c.sudo
		who := &person{answer: "wipe"}
		_, r := m.acceptance(who, func(a *acceptance, _ func()) {
			a.options.Skip = slices.DeleteFunc(accept.Sections(), func(name string) bool { return name == "root" || name == "probe" })
		})
		if who.hiddens != c.asks || r == nil || !strings.Contains(r.Text(), c.says) {
			t.Errorf("%s: asked %d times: %+v", name, who.hiddens, r)
		}
	}
}

// A Mac on which sudo asks for nothing needs no password, and gets no session without one.
func TestAcceptWithoutAPassword(t *testing.T) {
	m := newTestMac(t)
	m.facts["sudo"] = "yes"
	got, r := m.acceptance(&person{err: errNobody}, func(a *acceptance, _ func()) {
		a.flags.yesWipe = true
		a.options.Skip = slices.DeleteFunc(accept.Sections(), func(name string) bool { return name == "root" || name == "probe" })
	})
	if got.code != 0 || strings.Join(m.saw(), " ") != "probe probe probe" {
		t.Fatalf("ran %q: %+v", m.saw(), got)
	}
	why := map[string]string{}
	for _, row := range r.Rows {
		why[row.Key()] = row.Why
	}
	if !strings.Contains(why["root/session"], "no terminal") || !strings.Contains(why["root/grant"], "asks for no password") {
		t.Errorf("%s", r.Text())
	}
}

// What cannot be written shows before the Mac is changed, and what is known is written after
// each section.
func TestAcceptWritesItsReportAsItGoes(t *testing.T) {
	m := newTestMac(t)
	got, _ := m.acceptance(&person{answer: "wipe", password: rightPassword}, func(a *acceptance, _ func()) {
		a.flags.report = filepath.Join(t.TempDir(), "none", "report")
	})
	if got.code != exitUsage || !strings.Contains(got.stderr, "--report") || len(m.saw()) != 0 {
		t.Errorf("no such folder: ran %q: %+v", m.saw(), got)
	}
	var files []string
	seen := &watcher{on: "looks: "}
	got, r := m.acceptance(&person{answer: "wipe", password: rightPassword}, func(a *acceptance, interrupt func()) {
		files, a.out = a.flags.files(), seen
		seen.do = func() {
			if r := readAcceptance(t, files); r == nil || len(r.Rows) == 0 || r.Rows[0].Section != "probe" {
				t.Errorf("after the first section the report is %+v", r)
			}
			interrupt()
		}
	})
	if got.code != exitInterrupted || r == nil || !seen.seen {
		t.Errorf("%+v, seen %t", got, seen.seen)
	}
}

// watcher does something once, when a line begins as it wants.
type watcher struct {
	on   string
	do   func()
	seen bool
}

func (w *watcher) Write(p []byte) (int, error) {
	if !w.seen && strings.HasPrefix(string(p), w.on) {
		w.seen = true
		w.do()
	}
	return len(p), nil
}

// interrupted is a person who presses Ctrl-C where the password is asked for.
type interrupted struct{ press func() }

func (interrupted) line(context.Context, string) (string, error) { return "wipe", nil }

func (i interrupted) hidden(ctx context.Context, _ string) (string, error) {
	i.press()
	return "", ctx.Err()
}

// Before the first section there is nothing to report.
func TestAcceptInterruptedReportsWhatItTried(t *testing.T) {
	m := newTestMac(t)
	got, r := m.acceptance(nil, func(a *acceptance, interrupt func()) { a.asked = interrupted{interrupt} })
	if got.code != exitInterrupted || r != nil || strings.Join(m.saw(), " ") != "probe tart" {
		t.Fatalf("ran %q, reported %v: %+v", m.saw(), r, got)
	}
	got, r = m.acceptance(&person{answer: "wipe", password: rightPassword}, func(a *acceptance, interrupt func()) {
		a.out = &watcher{on: "looks: ", do: interrupt}
	})
	if got.code != exitInterrupted || r == nil {
		t.Fatalf("%+v", got)
	}
	if first, last := r.Rows[0], r.Rows[len(r.Rows)-1]; first.Section != "probe" || last.Verdict != accept.NotTried || last.Why != "the run was ended before it" {
		t.Errorf("%s", r.Text())
	}
}

// The page names every section, in order.
func TestAcceptIsDescribed(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/accept.md")
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.HasPrefix(cells[1], " `") && strings.HasSuffix(cells[3], " min ") || len(cells) == 5 && strings.HasSuffix(cells[3], " h ") {
			described = append(described, strings.Trim(cells[1], " `"))
		}
	}
	if diff := cmp.Diff(accept.Sections(), described); diff != "" {
		t.Error(diff)
	}
}

// identified gives a program of headers alone the identifier that the linker gives others.
func identified(program []byte) []byte {
	const loads, size, loadUUID = 16, 20, 0x1b
	program[loads], program[size] = 1, 24
	return append(program, append([]byte{loadUUID, 0, 0, 0, 24, 0, 0, 0}, make([]byte, 16)...)...)
}

func TestAcceptCommandLine(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	agent, taken := filepath.Join(dir, "agent"), filepath.Join(dir, "taken")
	for path, data := range map[string][]byte{agent: identified(machO(0x0100000c)), taken + ".json": []byte("{}")} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := []string{"--port=1", "--key", keyFile(t, private), "--agent", agent, "--report", filepath.Join(dir, "report"), "--yes-wipe"}
	for name, c := range map[string]struct {
		args []string
		says string
		code int
	}{
		"nobody answers":       {[]string{"127.0.0.1"}, "Remote Login", exitUnreachable},
		"no address":           {nil, "which address", exitUsage},
		"no such section":      {[]string{"127.0.0.1", "--skip", "lunch"}, "--skip lunch", exitUsage},
		"a report that is":     {[]string{"127.0.0.1", "--report", taken}, "taken.json is there already", exitUsage},
		"another that is none": {[]string{"127.0.0.1", "--next-agent", taken + ".json"}, "--next-agent: ", exitUsage},
		"another that is it":   {[]string{"127.0.0.1", "--next-agent", agent}, "another release's", exitUsage},
		"a suite that is none": {[]string{"127.0.0.1", "--driver-suite", taken + ".json"}, "--driver-suite: ", exitUsage},
		"a suite that is not":  {[]string{"127.0.0.1", "--driver-suite", taken}, "--driver-suite: ", exitUsage},
		"a tart of no file":    {[]string{"127.0.0.1", "--tart-version", "2.32.1", "--tart-url", "https://x/y"}, "go together", exitUsage},
		"an image that is not": {[]string{"127.0.0.1", "--guest-image", "a;b"}, "names no image", exitUsage},
		"root":                 {[]string{"127.0.0.1", "--user", "root"}, "--user", exitUsage},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append(append([]string{"host", "accept"}, good...), c.args...), &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.says) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: exit %d: %s", name, code, stderr.String())
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "report*")); err != nil || len(left) != 0 {
		t.Errorf("%s", fmt.Sprint(left, err))
	}
}
