package stage0

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/doctor"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/test/parttest"
)

// console is a connection of a person's own, not the manager's.
type console struct {
	b      *bench
	client *ssh.Client
}

func (b *bench) console() console {
	b.t.Helper()
	c, err := ssh.Dial("tcp", b.Address().String(), &ssh.ClientConfig{
		User: "m1", Auth: []ssh.AuthMethod{ssh.PublicKeys(b.key)}, Timeout: patience,
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), // a Mac of this very test
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return console{b, c}
}

// execute runs a line in the user's shell, and returns what it printed and how it
// ended.
func (c console) execute(line string) (stdout, stderr string, exit int) {
	c.b.t.Helper()
	s, err := c.client.NewSession()
	if err != nil {
		c.b.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	deadline := time.AfterFunc(patience, func() { _ = c.client.Close() })
	defer deadline.Stop()
	var out, complaints bytes.Buffer
	s.Stdout, s.Stderr = &out, &complaints
	err = s.Run(line)
	var ended *ssh.ExitError
	if err != nil && !errors.As(err, &ended) {
		c.b.t.Fatal(err)
	}
	if ended != nil {
		exit = ended.ExitStatus()
	}
	return out.String(), complaints.String(), exit
}

// findings of one look, by the id of the check.
type findings map[string]doctor.Finding

func (f findings) problems() []string {
	var ids []string
	for id, finding := range f {
		if finding.Verdict == doctor.Problem {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// doctor has a program look at the Mac as root, and holds its exit code, and what
// each finding says, to what was found.
func (c console) doctor(program string) findings {
	c.b.t.Helper()
	out, complaints, exit := c.execute("sudo -n " + program + " doctor --json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		c.b.t.Fatalf("exit %d, %v: %s%s", exit, err, out, complaints)
	}
	if want := min(1, r.Problems()); exit != want || !r.Root || r.Schema != doctor.Schema {
		c.b.t.Errorf("exit %d with %d problems, as root %t, schema %s", exit, r.Problems(), r.Root, r.Schema)
	}
	found := findings{}
	for _, f := range r.Findings {
		found[f.ID] = f
		if f.Verdict == doctor.Problem && (f.Evidence == "" || f.Consequence == "" || f.Remedy == "") {
			c.b.t.Errorf("%s says too little: %+v", f.ID, f)
		}
	}
	if strings.Contains(out+complaints, password) {
		c.b.t.Error("the password is shown")
	}
	return found
}

// settled has the installed doctor look until no job of ours answers too late: it asks for
// a few seconds, which one that is well may take on a busy machine.
func (c console) settled() findings {
	c.b.t.Helper()
	var found findings
	awaitMoment(c.b.t, "an answer of every job that runs", func() bool {
		found = c.doctor(document.CurrentAgent)
		return !answersLate(found["agent-job"].Evidence) && !answersLate(found["hostd-job"].Evidence)
	})
	return found
}

// answersLate reports whether the doctor says of a process that it runs and gave no answer.
func answersLate(evidence string) bool { return strings.Contains(evidence, "runs and does not answer") }

func TestDoctorOfAFreshMac(t *testing.T) {
	parttest.Skip(t)
	b := newBench(t)
	s := b.session()
	b.probe(s)
	if err := s.Grant(t.Context(), secret(password)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(t.Context(), programs.builds[0]); err != nil {
		t.Fatal(err)
	}
	found := b.console().doctor(document.StagingDir + "/" + programs.builds[0].SHA256)
	want := []string{"auto-login", "power", "session", "sshd", "sudo"}
	if diff := cmp.Diff(want, found.problems()); diff != "" {
		t.Errorf("problems: %s", diff)
	}
	for id, want := range map[string]doctor.Verdict{
		"system": doctor.Well, "hardware": doctor.Well, "filevault": doctor.Well, "ssh-answers": doctor.Well,
		// Whose they are is known by who called sudo.
		"keys": doctor.Well, "modes": doctor.Well,
		// The vendor offers VNC.
		"screen-sharing": doctor.Warning,
		"agent-job":      doctor.NotApplicable, "firewall": doctor.NotApplicable, "last-report": doctor.NotApplicable,
		// There is no lsof here: what cannot be seen is not well.
		"listening": doctor.Unknown,
	} {
		if f := found[id]; f.Verdict != want {
			t.Errorf("%s is %q, want %q: %s", id, f.Verdict, want, f.Evidence)
		}
	}
}

// The rule that converge leaves lets the console user have a look, and all is well
// but that no cluster answers here.
func TestDoctorOfAConvergedMac(t *testing.T) {
	parttest.Skip(t)
	b := newBench(t)
	s := b.session()
	b.probe(s)
	if err := s.Grant(t.Context(), secret(password)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(t.Context(), programs.builds[0]); err != nil {
		t.Fatal(err)
	}
	d := b.desired(programs.builds[0])
	d.Mac.AutoLogin, d.Secrets = true, &document.Secrets{ConsolePassword: password}
	b.converge(s, d)
	c := b.console()
	found := c.settled()
	if diff := cmp.Diff([]string{"api-server"}, found.problems()); diff != "" {
		t.Errorf("problems: %s: %+v", diff, found)
	}
	for _, id := range []string{
		"sudo", "sshd", "keys", "screen-sharing", "session", "auto-login", "power", "updates", "agent-job", "hostd-job", "firewall", "modes", "last-report",
	} {
		if f := found[id]; f.Verdict != doctor.Well {
			t.Errorf("%s is %q: %s", id, f.Verdict, f.Evidence)
		}
	}
	// hostd would mend what is broken next.
	b.unload(document.HostdLabel)
	known := c.settled().problems()
	for _, tt := range []struct {
		name, script string
		// problems are those that were not there before; the last says says.
		problems []string
		says     string
	}{
		{"a sealed password", `printf '\101\3727B\276\331\271\324' >/etc/kcpassword`, []string{"auto-login"}, "sealed"},
		{"no password", "rm /etc/kcpassword", nil, ""},
		{"no fence", "printf '' | pfctl -a com.apple/000.macfleet -f -", []string{"firewall"}, "rule"},
		{"a wide sudo rule", "echo 'm1 ALL = (ALL) NOPASSWD: ALL' >/etc/sudoers.d/zz", []string{"sudo"}, "zz"},
		{"passwords again", "echo 'PasswordAuthentication yes' >/etc/ssh/sshd_config.d/000-a.conf", []string{"sshd"}, "passwordauthentication"},
		// The connection that is open goes on.
		{"nonsense for sshd", "echo 'Nonsense yes' >/etc/ssh/sshd_config.d/000-a.conf", []string{"ssh-answers"}, ""},
	} {
		b.root(tt.script)
		found := c.settled()
		var fresh []string
		for _, id := range found.problems() {
			if !slices.Contains(known, id) {
				fresh = append(fresh, id)
			}
		}
		if diff := cmp.Diff(tt.problems, fresh); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if n := len(fresh); n > 0 && !strings.Contains(found[fresh[n-1]].Evidence, tt.says) {
			t.Errorf("%s: it does not say %q: %+v", tt.name, tt.says, found[fresh[n-1]])
		}
		known = found.problems()
	}
	if f := c.doctor(document.CurrentAgent)["sshd"]; !strings.Contains(f.Evidence, "refuses its own settings") || !strings.Contains(f.Evidence, "000-a.conf") {
		t.Errorf("sshd: %+v", f)
	}
}

// unload takes a job out of launchd, and waits until it is gone: bootout itself comes
// back before a process that is slow to end, with the code for "in progress".
func (b *bench) unload(label string) {
	b.t.Helper()
	b.root("launchctl bootout system/" + label + " || [ $? -eq " + strconv.Itoa(macos.LaunchdLoaded) + " ]")
	awaitMoment(b.t, label+" to be unloaded", func() bool {
		_, err := b.AsRoot(b.t.Context(), "launchctl print system/"+label)
		return err != nil
	})
}

// root runs a script on the Mac, as somebody would who sits there.
func (b *bench) root(script string) string {
	b.t.Helper()
	out, err := b.AsRoot(b.t.Context(), script)
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return out
}
