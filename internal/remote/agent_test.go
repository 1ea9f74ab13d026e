package remote

import (
	"crypto/ed25519"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/document"
)

func testDesired() document.Desired {
	return document.Desired{
		SSHKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		Host:    document.Host{Name: "ci-1", ProviderID: "scw-applesilicon://fr-par-1/1", Epoch: 1, User: "m1"},
		Agent:   document.Agent{SHA256: strings.Repeat("ab", 32)},
		Node:    document.Node{MaxVMs: 2},
		Mac:     document.Mac{Network: document.Network{Subnet: document.DefaultSubnet}},
		Join: &document.Join{
			Server: "https://192.0.2.1", CA: []byte("pem"), Token: "abcdef.0123456789abcdef",
			Permit: document.JoinPermit{ID: "p", NotAfter: time.Unix(1, 0).UTC()},
		},
	}
}

var testKey = ed25519.NewKeyFromSeed([]byte("the fleet that these tests play!"))

func testSigner() *document.Signer { return document.NewSigner(testKey, testDesired().Host, time.Now) }

// instruction is what a verb read, as the fleet has signed it.
func instruction(t *testing.T, stdin io.Reader) document.Received {
	t.Helper()
	got, err := document.DecodeSigned(stdin)
	if err != nil || !got.SignedBy(testKey.Public().(ed25519.PublicKey)) {
		t.Fatalf("not signed: %v", err)
	}
	return got
}

func report(t *testing.T, verb string, exit int, steps ...document.StepReport) string {
	t.Helper()
	line, err := document.EncodeReport(document.Report{Verb: verb, Exit: exit, Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// rebooting is the report of a run that asks for a reboot.
func rebooting(t *testing.T, verb string, exit int) string {
	t.Helper()
	line, err := document.EncodeReport(document.Report{Verb: verb, Exit: exit, Rebooting: true})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// A Mac that reboots ends the connection or the run before the run could end by itself,
// at a moment that nobody knows. The report came before.
func TestAReportThatItsOwnRebootCutsOff(t *testing.T) {
	const noExit, byShell = -1, 128 + 15
	key := newSigner(t)
	whole := "Welcome!\n" + rebooting(t, "converge", document.ExitChanged)
	for name, c := range map[string]struct {
		stdout string
		exit   int
		check  func(document.Report, error) bool
	}{
		"the run ended first":             {whole, document.ExitChanged, reboots},
		"the connection went":             {whole, noExit, reboots},
		"a signal ended it":               {whole, bySignal, reboots},
		"a signal, as a shell says it":    {whole, byShell, reboots},
		"without its newline":             {strings.TrimSpace(whole), noExit, reboots},
		"half of it":                      {whole[:len(whole)-2], noExit, isLost},
		"half of it, and a signal":        {whole[:len(whole)-2], bySignal, noReport(Died)},
		"another verb's":                  {rebooting(t, "leave", document.ExitChanged), noExit, isLost},
		"no reboot, and the connection":   {report(t, "converge", document.ExitChanged), noExit, isLost},
		"no reboot, and a signal":         {report(t, "converge", document.ExitChanged), bySignal, isBadAnswer},
		"the reboot was refused":          {whole, document.ExitRetry, isBadAnswer},
		"a failure, and the connection":   {rebooting(t, "converge", document.ExitWait), noExit, isFailed(document.Wait)},
		"a strange exit, and a signal":    {rebooting(t, "converge", 99), bySignal, isBadAnswer},
		"nothing, before the connection":  {"", noExit, isLost},
		"only noise before the signal":    {"Welcome!\n", bySignal, noReport(Died)},
		"noise after it, then the signal": {whole + "Bye\n", bySignal, noReport(Died)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, key)
			s.handle = answering(c.stdout, "", c.exit)
			if r, err := s.dial(key).ConvergeInstalled(t.Context(), testDesired(), testSigner()); !c.check(r, err) {
				t.Errorf("got rebooting %t, %T %v", r.Rebooting, err, err)
			}
		})
	}
}

func reboots(r document.Report, err error) bool { return err == nil && r.Rebooting }

func isLost(_ document.Report, err error) bool {
	var e *Lost
	return errors.As(err, &e)
}

func isFailed(class document.Class) func(document.Report, error) bool {
	return func(_ document.Report, err error) bool {
		var e *Failed
		return errors.As(err, &e) && e.Class == class
	}
}

func TestConvergeOutcomes(t *testing.T) {
	key := newSigner(t)
	failed := document.StepReport{Name: "journal", Outcome: document.Failed, Class: document.Reinstall, Detail: "not wiped"}
	for name, c := range map[string]struct {
		stdout, stderr string
		exit           int
		check          func(document.Report, error) bool
	}{
		"unchanged": {
			report(t, "converge", 0), "", 0,
			func(_ document.Report, err error) bool { return err == nil },
		},
		"changed, after a talkative login": {
			"Welcome!\n" + report(t, "converge", 10), "", 10,
			func(r document.Report, err error) bool { return err == nil && r.Exit == 10 },
		},
		"failed": {
			report(t, "converge", 23, failed), "", 23,
			func(r document.Report, err error) bool {
				var e *Failed
				return errors.As(err, &e) && e.Class == document.Reinstall && e.Report.Exit == 23 && r.Exit == 23 &&
					strings.Contains(err.Error(), "journal")
			},
		},
		"sudo asks": {"", "sudo: a password is required\n", 1, noReport(SudoRefused)},
		"not there": {"", "sudo: .macfleet/staging/x: command not found\n", 1, noReport(NotInstalled)},
		"usage":     {"", "unknown field", 64, noReport(UsageRefused)},
		"panic":     {"", "panic: x", 2, noReport(Died)},
		"nothing":   {"", "", 0, isBadAnswer},
		"lies":      {report(t, "converge", 0), "", 20, isBadAnswer},
		"other verb": {
			report(t, "leave", 0), "", 0, isBadAnswer,
		},
		"strange exit": {report(t, "converge", 99), "", 99, isBadAnswer},
		"flood":        {strings.Repeat("x", document.MaxSize+maxLoginNoise+1), "", 0, isBadAnswer},
		"no exit":      {"", "", -1, isLost},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, key)
			s.handle = answering(c.stdout, c.stderr, c.exit)
			r, err := s.dial(key).ConvergeInstalled(t.Context(), testDesired(), testSigner())
			if !c.check(r, err) {
				t.Errorf("got %T %v", err, err)
			}
			if err != nil && c.stderr != "" && strings.Contains(err.Error(), strings.TrimSpace(c.stderr)) {
				t.Errorf("the error quotes the other side: %v", err)
			}
		})
	}
}

func noReport(want NoReportReason) func(document.Report, error) bool {
	return func(_ document.Report, err error) bool {
		var e *NoReport
		return errors.As(err, &e) && e.Reason == want
	}
}

func isBadAnswer(_ document.Report, err error) bool {
	var e *badAnswer
	return errors.As(err, &e)
}

func TestConvergeRunsTheRightBuild(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	var got document.Received
	s.handle = func(command string, c ssh.Channel) int {
		if strings.Contains(command, "/bin/sh") {
			return answering("probe 1\ncurrent "+document.InstallDir+"/"+strings.Repeat("cd", 32)+"\nend 1\n", "", 0)(command, c)
		}
		got = instruction(t, c)
		_, _ = io.WriteString(c, report(t, "converge", 10))
		return 10
	}
	session := s.dial(key)
	if _, err := session.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := testDesired()
	for range 2 {
		if _, err := session.Converge(t.Context(), d.Agent.SHA256, d, testSigner()); err != nil {
			t.Fatal(err)
		}
	}
	commands := s.seen()[1:]
	want := []string{
		"sudo -n .macfleet/staging/" + d.Agent.SHA256 + " converge --signed",
		"sudo -n /usr/local/libexec/macfleet/current/tart-kubelet converge --signed",
	}
	for i, command := range commands {
		if command != want[i] {
			t.Errorf("ran %q, want %q", command, want[i])
		}
		if strings.Contains(command, d.Join.Token) {
			t.Error("the token is in a command")
		}
	}
	if j := got.Desired.Join; j == nil || j.Token != d.Join.Token || got.Desired.Schema != document.DesiredSchema {
		t.Errorf("the Mac read %+v", got.Desired)
	}
	if _, err := session.Converge(t.Context(), "x; reboot", d, testSigner()); err == nil {
		t.Error("a build that is no SHA-256 is run")
	}
}

// A Mac whose sudo knows the agent's verbs only takes a new build in two steps:
// the installed one verifies it, the new one converges.
func TestConvergeWhereSudoKnowsTheAgentOnly(t *testing.T) {
	key := newSigner(t)
	d := testDesired()
	staged := "sudo -n .macfleet/staging/" + d.Agent.SHA256 + " converge --signed"
	upgraded := []string{"sudo -n " + document.CurrentAgent + " upgrade", "sudo -n " + document.NextAgent + " converge --signed"}
	for name, c := range map[string]struct {
		sudo string
		want []string
	}{
		"told by the probe": {"agent", upgraded},
		"found out by sudo": {"no", append([]string{staged}, upgraded...)},
		"broad":             {"yes", []string{staged}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, key)
			var stdin []string
			s.handle = sudoing(t, c.sudo, &stdin)
			session := s.dial(key)
			if f, err := session.Probe(t.Context()); err != nil || f.Sudo != (c.sudo == "yes") || f.SudoAgent != (c.sudo == "agent") {
				t.Fatalf("%+v, %v", f, err)
			}
			if _, err := session.Converge(t.Context(), d.Agent.SHA256, d, testSigner()); err != nil {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(c.want, s.seen()[1:], cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if len(c.want) < 2 {
				return
			}
			up, then := instruction(t, strings.NewReader(stdin[len(stdin)-2])), instruction(t, strings.NewReader(stdin[len(stdin)-1]))
			if up.Verb != document.VerbUpgrade || up.Build != d.Agent.SHA256 || then.Counter <= up.Counter {
				t.Errorf("read %s of %s, then %s", up, up.Build, then)
			}
		})
	}
}

// sudoing answers as a Mac whose sudo allows "yes" (all), "agent" (its verbs) or,
// where the probe does not say so, the agent's verbs too.
func sudoing(t *testing.T, sudo string, stdin *[]string) func(string, ssh.Channel) int {
	return func(command string, c ssh.Channel) int {
		data, err := io.ReadAll(c)
		if err != nil {
			t.Error(err)
		}
		*stdin = append(*stdin, string(data))
		verb := strings.TrimSuffix(command, flagSigned)
		verb = verb[strings.LastIndexByte(verb, ' ')+1:]
		switch {
		case strings.Contains(command, "/bin/sh"):
			_, _ = io.WriteString(c, "probe 1\nsudo "+sudo+"\nend 1\n")
			return 0
		case strings.Contains(command, document.StagingDir) && sudo != "yes":
			_, _ = io.WriteString(c.Stderr(), "sudo: a password is required\n")
			return 1
		}
		_, _ = io.WriteString(c, report(t, verb, 10))
		return 10
	}
}

func TestPlanIsOneExecutionThatChangesNothing(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	s.handle = answering(report(t, "converge", 10, document.StepReport{Name: "power", Outcome: document.Planned}), "", 10)
	r, err := s.dial(key).Plan(t.Context(), testDesired())
	if err != nil || len(r.Steps) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := s.seen(); len(got) != 1 || got[0] != "sudo -n "+document.CurrentAgent+" converge --plan" {
		t.Errorf("ran %v", got)
	}
}

func TestOneStepByTheStagedBuild(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	s.handle = answering(report(t, "converge", 10), "", 10)
	session, d := s.dial(key), testDesired()
	if _, err := session.ConvergeStep(t.Context(), d.Agent.SHA256, "session", d); err != nil {
		t.Error(err)
	}
	for _, bad := range [][2]string{{d.Agent.SHA256, ""}, {d.Agent.SHA256, "a;b"}, {d.Agent.SHA256, "a b"}, {"x", "session"}} {
		if _, err := session.ConvergeStep(t.Context(), bad[0], bad[1], d); err == nil {
			t.Errorf("%q is run", bad)
		}
	}
	want := "sudo -n .macfleet/staging/" + d.Agent.SHA256 + " converge --step session"
	if got := s.seen(); len(got) != 1 || got[0] != want {
		t.Errorf("ran %v", got)
	}
}

func TestLeave(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	s.handle = answering(report(t, "leave", 10), "", 10)
	if _, err := s.dial(key).Leave(t.Context(), testSigner()); err != nil {
		t.Error(err)
	}
	if got := s.seen(); len(got) != 1 || got[0] != "sudo -n "+document.CurrentAgent+" leave --signed" {
		t.Errorf("ran %v", got)
	}
}

func TestUninstall(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	s.handle = answering(report(t, "uninstall", 10), "", 10)
	if _, err := s.dial(key).Uninstall(t.Context(), testSigner()); err != nil {
		t.Error(err)
	}
	if got := s.seen(); len(got) != 1 || got[0] != "sudo -n "+document.CurrentAgent+" uninstall --signed" {
		t.Errorf("ran %v", got)
	}
}

// A manager whose clock is behind the one that was here before is told so by the Mac,
// and signs above it, once. Who answers for a Mac cannot have it sign a number after
// which there is none, nor go on for ever.
func TestACounterThatIsBehindIsFollowedOnce(t *testing.T) {
	ahead := time.Now().Add(24 * time.Hour).UnixMicro()
	for name, c := range map[string]struct {
		says  int64
		tries int
		fails bool
	}{
		"an hour ahead":     {says: ahead, tries: 2},
		"always ahead":      {says: ahead, tries: 2, fails: true},
		"the last there is": {says: math.MaxInt64 - 1, tries: 1, fails: true},
		"below what came":   {says: 7, tries: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			key := newSigner(t)
			s := newServer(t, key)
			var counters []int64
			s.handle = func(_ string, ch ssh.Channel) int {
				counters = append(counters, instruction(t, ch).Counter)
				if len(counters) > 1 && !c.fails {
					_, _ = io.WriteString(ch, report(t, "leave", 10))
					return 10
				}
				line, err := document.EncodeReport(document.Report{
					Verb: "leave", Exit: document.ExitRetry, Counter: c.says,
					Steps: []document.StepReport{{Name: "signature", Outcome: document.Failed, Class: document.Retry}},
				})
				if err != nil {
					t.Error(err)
				}
				_, _ = ch.Write(line)
				return document.ExitRetry
			}
			_, err := s.dial(key).Leave(t.Context(), testSigner())
			if (err != nil) != c.fails || len(counters) != c.tries {
				t.Fatalf("%d tries, %v", len(counters), err)
			}
			if c.tries > 1 && counters[1] != c.says+1 {
				t.Errorf("signed %d above %d", counters[1], c.says)
			}
		})
	}
}

func TestProbeRefusesHalfAnAnswer(t *testing.T) {
	key := newSigner(t)
	for name, out := range map[string]string{
		"cut": "probe 1\nos 15.6\n", "headless": "os 15.6\nend 1\n", "flood": strings.Repeat("x", maxFacts+1), "none": "",
	} {
		s := newServer(t, key)
		s.handle = answering(out, "", 0)
		_, err := s.dial(key).Probe(t.Context())
		var bad *badAnswer
		if !errors.As(err, &bad) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

type secret string

func (s secret) Reveal() string { return string(s) }

func TestGrantOutcomes(t *testing.T) {
	key := newSigner(t)
	for out, want := range map[string]GrantOutcome{
		"grant granted\n": "", "grant rejected\n": PasswordRejected, "grant locked\n": AccountLocked,
		"grant overridden\n": RuleOverridden, "noise\ngrant failed\n": GrantFailed,
	} {
		s := newServer(t, key)
		s.handle = answering(out, "", 0)
		err := s.dial(key).Grant(t.Context(), secret("pass word"))
		var refused *GrantRefused
		if errors.As(err, &refused); (want == "") != (err == nil) || want != "" && refused.Outcome != want {
			t.Errorf("%q: got %v", out, err)
		}
	}
	for _, out := range []string{"", "grant \n", "grant yes\n"} {
		s := newServer(t, key)
		s.handle = answering(out, "", 0)
		var bad *badAnswer
		if err := s.dial(key).Grant(t.Context(), secret("x")); !errors.As(err, &bad) {
			t.Errorf("%q: got %v", out, err)
		}
	}
}

func TestGrantSendsNothingThatIsNoPassword(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	session := s.dial(key)
	for _, p := range []secret{"", "a\nb", "a\x00b"} {
		var refused *GrantRefused
		if err := session.Grant(t.Context(), p); !errors.As(err, &refused) || refused.Outcome != NoPassword {
			t.Errorf("%q: got %v", p, err)
		}
	}
	if got := s.seen(); len(got) != 0 {
		t.Errorf("ran %v", got)
	}
}
