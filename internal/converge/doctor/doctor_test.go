package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/session"
)

// script answers commands by their whole line.
type script map[string]string

func (s script) Output(_ context.Context, path string, args ...string) (string, error) {
	if text, found := s[strings.Join(append([]string{path}, args...), " ")]; found {
		return text, nil
	}
	return "", errors.New("no such command")
}

func answers() script {
	return script{
		"/usr/bin/sw_vers":                      "ProductName:\t\tmacOS\nProductVersion:\t\t26.0\nBuildVersion:\t\t25A354\n",
		"/usr/sbin/sysctl -n hw.model":          "Mac14,12\n",
		"/usr/sbin/sysctl -n hw.memsize":        "17179869184\n",
		"/usr/sbin/sysctl -n kern.boottime":     "{ sec = 1800000000, usec = 0 } Fri Jan 15 08:00:00 2027\n",
		"/usr/bin/csrutil status":               "System Integrity Protection status: enabled.\n",
		"/usr/sbin/spctl --status":              "assessments enabled\n",
		"/usr/sbin/visudo -c":                   "",
		"/usr/sbin/lsof -nP -iTCP -sTCP:LISTEN": "",
		"/sbin/pfctl -s Anchors -v":             "  com.apple\n",

		"/opt/homebrew/bin/tart --version":                           "2.32.1\n",
		"/usr/bin/sudo -n -H -u m1 /opt/homebrew/bin/tart --version": "2.32.1\n",
		"/usr/bin/sudo -n -H -u m1 /usr/local/bin/tart --version":    "2.32.1\n",
		"/usr/bin/xattr /opt/homebrew/bin/tart":                      "",
		"/usr/bin/xattr /usr/local/bin/tart":                         "",
		"/usr/local/bin/tart --version":                              "2.32.1\n",
	}
}

const secretPassword = "hunter2 hunter2"

func freshMac() *macostest.Mac {
	m := macostest.New()
	m.Put("/usr/bin/sw_vers", nil, macos.Attr{Mode: 0o755, Owner: "root", Group: "wheel"})
	return m
}

func examine(m *macostest.Mac, root bool) Report {
	return Examine(context.Background(), Options{Mac: m.Interfaces(), Commands: answers(), Root: root, User: "m1"})
}

// finding is what a check found.
func finding(t *testing.T, r Report, id string) Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.ID == id })
	if i < 0 {
		t.Fatalf("the report has no %s", id)
	}
	return r.Findings[i]
}

func (r Report) verdict(id string) Verdict {
	for _, f := range r.Findings {
		if f.ID == id {
			return f.Verdict
		}
	}
	return ""
}

// On another system it says what it is not, and leaves nothing out.
func TestPlainLinuxIsToldWhatItIsNot(t *testing.T) {
	r := Examine(t.Context(), Options{Mac: macos.Local(), Commands: macos.LocalCommands{}})
	if _, err := macos.Local().Files.Stat(t.Context(), swVers); !errors.Is(err, fs.ErrNotExist) {
		t.Skip("this machine has sw_vers: it is no plain Linux")
	}
	if len(r.Findings) != len(checks())+1 {
		t.Fatalf("%d findings for %d checks", len(r.Findings), len(checks())+1)
	}
	first := r.Findings[0]
	if first.Verdict != Problem || !strings.Contains(first.Evidence, "this is not macOS") || !strings.Contains(first.Evidence, "Linux") {
		t.Errorf("the first finding is %+v", first)
	}
	for _, f := range r.Findings[1:] {
		if f.Verdict != Unknown {
			t.Errorf("%s is %q on a machine that is no Mac", f.ID, f.Verdict)
		}
	}
}

func TestEachCheckHasOneEntryOfItsOwn(t *testing.T) {
	r := examine(freshMac(), true)
	seen := map[string]bool{}
	for _, f := range r.Findings {
		if seen[f.ID] || f.Title == "" || f.Verdict == "" || f.Evidence == "" {
			t.Errorf("entry %+v", f)
		}
		seen[f.ID] = true
		if f.Verdict == Problem || f.Verdict == Warning {
			if f.Consequence == "" || f.Remedy == "" {
				t.Errorf("%s says what is wrong and not what follows or what to do: %+v", f.ID, f)
			}
		}
	}
	if len(seen) != len(checks())+1 {
		t.Errorf("%d entries, %d checks", len(seen), len(checks())+1)
	}
	known := map[string]bool{"": true}
	for _, q := range Questions() {
		known[q.ID] = true
	}
	for _, c := range checks() {
		if !known[c.question] {
			t.Errorf("%s bears on %s, which is no question", c.id, c.question)
		}
	}
}

// Without root nothing that only root can see is called well.
func TestWhatCannotBeSeenIsUnknown(t *testing.T) {
	r := examine(freshMac(), false)
	for _, c := range checks() {
		if c.root && r.verdict(c.id) != Unknown {
			t.Errorf("%s is %q without root", c.id, r.verdict(c.id))
		}
	}
	m := freshMac()
	broken := Options{Mac: m.Interfaces(), Commands: script{}, Root: true, User: "m1"}
	for _, id := range []string{"integrity", "gatekeeper"} {
		if got := Examine(t.Context(), broken).verdict(id); got != Unknown {
			t.Errorf("%s is %q where the command fails", id, got)
		}
	}
}

func TestAFreshMacLacksASession(t *testing.T) {
	r := examine(freshMac(), true)
	for id, want := range map[string]Verdict{
		"system": Well, "hardware": Well, "filevault": Well, "integrity": Well,
		"session": Problem, "auto-login": Problem, "power": Problem, "updates": Warning,
		"agent-job": NotApplicable, "hostd-job": NotApplicable, "firewall": NotApplicable,
		"certificate": NotApplicable, "api-server": NotApplicable, "last-report": NotApplicable,
	} {
		if got := r.verdict(id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}

// Nothing of the stored password is told, sealed or not.
func TestTheStoredPasswordIsNotTold(t *testing.T) {
	m := freshMac()
	scrambled := make([]byte, 24)
	key := []byte{0x7d, 0x89, 0x52, 0x23, 0xd2, 0xbc, 0xdd, 0xea, 0xa3, 0xb9, 0x1f}
	copy(scrambled, secretPassword)
	for i := range scrambled {
		scrambled[i] ^= key[i%len(key)]
	}
	m.Put(session.PasswordFile, scrambled, macos.Attr{Mode: 0o600, Owner: "root", Group: "wheel"})
	if err := m.Interfaces().Defaults.WriteString(t.Context(), session.LoginwindowDomain, "autoLoginUser", "m1"); err != nil {
		t.Fatal(err)
	}
	r := examine(m, true)
	if got := r.verdict("auto-login"); got != Well {
		t.Errorf("automatic login is %q", got)
	}
	told, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range [][]byte{[]byte(secretPassword), scrambled[:8]} {
		if bytes.Contains(told, secret) || bytes.Contains([]byte(text(r, true)), secret) {
			t.Error("the report holds the password")
		}
	}
	m.Put(session.PasswordFile, []byte("\x41\xfa\x37\x42\xbe\xd9\xb9\xd4\x00\x00\x00\x00"), macos.Attr{Mode: 0o600, Owner: "root", Group: "wheel"})
	if got := examine(m, true).verdict("auto-login"); got != Problem {
		t.Errorf("a sealed password is %q", got)
	}
}

// The certificate in use is a link, whose own mode says nothing.
func TestModesAreThoseBehindALink(t *testing.T) {
	m := freshMac()
	real := document.AgentCertDir + "/node-client-1.pem"
	m.Put(real, nil, macos.Attr{Mode: 0o600, Owner: "m1", Group: "staff"})
	for _, dir := range []string{document.AgentStateDir, document.AgentCertDir} {
		if err := m.Interfaces().Files.MakeDir(t.Context(), dir, macos.Attr{Mode: 0o700, Owner: "m1", Group: "staff"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Interfaces().Files.Link(document.AgentCertFile, "node-client-1.pem"); err != nil {
		t.Fatal(err)
	}
	if got := examine(m, true).verdict("modes"); got != Well {
		t.Errorf("modes are %q", got)
	}
	m.Put(real, nil, macos.Attr{Mode: 0o644, Owner: "m1", Group: "staff"})
	if got := examine(m, true).verdict("modes"); got != Problem {
		t.Errorf("a key that all can read is %q", got)
	}
}

func TestTheLastRunIsJudgedByItsClass(t *testing.T) {
	for class, c := range map[document.Class]struct {
		verdict Verdict
		says    string
	}{
		document.Human:     {Problem, "failed at step power (human): pmset refuses"},
		document.Reinstall: {Problem, "mend what it names"},
		document.Reboot:    {Problem, "mend what it names"},
		document.Bug:       {Problem, "mend what it names"},
		document.Wait:      {Warning, "converge of 2026-03-01T12:00:00Z put off step power: pmset refuses"},
		document.Retry:     {Warning, "the manager tries it again in its turn"},
	} {
		t.Run(string(class), func(t *testing.T) {
			m := freshMac()
			line, err := document.EncodeReport(document.Report{
				Verb: document.VerbConverge, Exit: class.Exit(), Finished: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
				Steps: []document.StepReport{{Name: "power", Outcome: document.Failed, Class: class, Detail: "pmset refuses"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			m.Put(document.ReportFile, line, macos.Attr{Mode: 0o600, Owner: "root", Group: "wheel"})
			r := examine(m, true)
			if r.verdict("last-report") != c.verdict || !strings.Contains(text(r, false), c.says) {
				t.Errorf("last-report is %q, want %q with %q:\n%s", r.verdict("last-report"), c.verdict, c.says, text(r, false))
			}
		})
	}
}

// What a hostile program prints stays on one line, printable and short.
func TestEvidenceIsTamed(t *testing.T) {
	got := oneLine("a\x1b[2Jb\a\u009b1A\n\ncritical\xff " + strings.Repeat("x", 5000))
	if !strings.HasPrefix(got, "a?[2Jb??1A critical? x") || len(got) > maxEvidence+len("…") {
		t.Errorf("evidence %q", got)
	}
}

// The firewall is judged by what converge and hostd load.
func TestTheFirewallIsWellOnceItIsArmed(t *testing.T) {
	m := freshMac()
	mac := m.Interfaces()
	config, err := document.EncodeConfig(document.Desired{
		Host: document.Host{User: "m1"}, Mac: document.Mac{Network: document.Network{Subnet: document.DefaultSubnet, DenyPrivate: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Put(document.ConfigFile, config, macos.Attr{Mode: 0o640, Owner: "root", Group: "staff"})
	if err := mac.Files.MakeDir(t.Context(), document.StateDir, macos.Attr{Mode: 0o700, Owner: "root", Group: "wheel"}); err != nil {
		t.Fatal(err)
	}
	if got := examine(m, true).verdict("firewall"); got != Problem {
		t.Errorf("nothing is loaded, and it is %q", got)
	}
	c, err := document.DecodeConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := firewall.Arm(t.Context(), mac, firewall.PolicyOf(c.Host, c.Mac, c.Kubelet)); err != nil {
		t.Fatal(err)
	}
	if got := examine(m, true).verdict("firewall"); got != Well {
		t.Errorf("it is loaded, and it is %q", got)
	}
	m.PF.SetAnchor(firewall.Anchor)
	if got := examine(m, true).verdict("firewall"); got != Problem {
		t.Errorf("an empty anchor is %q", got)
	}
}

// private is a disk of which macOS hides a folder, also from root.
type private struct {
	macos.Files
	dir string
}

func (p private) List(path string) ([]string, error) {
	if path == p.dir {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EPERM}
	}
	return p.Files.List(path)
}

func TestHiddenBackgroundItemsAreUnknown(t *testing.T) {
	mac := freshMac().Interfaces()
	mac.Files = private{mac.Files, backgroundItemsDir}
	f := finding(t, Examine(t.Context(), Options{Mac: mac, Commands: answers(), Root: true, User: "m1"}), "background-items")
	if f.Verdict != Unknown || !strings.Contains(f.Remedy, "Full Disk Access") {
		t.Errorf("%+v", f)
	}
}

// atSetup is a console on which the Setup Assistant waits.
type atSetup struct{ macos.Session }

func (atSetup) Owner(context.Context) (string, error)      { return "_mbsetupuser", nil }
func (atSetup) Aqua(context.Context, string) (bool, error) { return true, nil }

func TestTheSetupAssistantIsNobody(t *testing.T) {
	mac := freshMac().Interfaces()
	mac.Session = atSetup{mac.Session}
	f := finding(t, Examine(t.Context(), Options{Mac: mac, Commands: answers(), Root: true, Invoker: "m1"}), "session")
	if f.Verdict != Problem || f.Evidence != "nobody is logged in at the console" {
		t.Errorf("%+v", f)
	}
}
