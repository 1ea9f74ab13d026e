package accept

import (
	"bytes"
	"context"
	"debug/macho"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/doctor"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/session"
	"github.com/macfleet/macfleet/internal/remote"
)

// What a run leaves on the Mac, by how far it came.
const (
	leftNothing   = "nothing"
	leftSudo      = "a rule in /etc/sudoers.d that lets the user become root without a password, and ~/.macfleet"
	leftStaged    = "~/.macfleet"
	leftInstalled = "what converge set, for a key that is gone, and where it did not come to its end the right to become root without a password: " +
		"have the Mac reinstalled, or as its user run `sudo " + document.CurrentAgent + " uninstall` there"
	leftTraces = "the disk marker in /var/db/macfleet, the Mac's names and power settings, and ~/.macfleet: have it reinstalled before a fleet takes it"
)

// rebootPoll is how often a Mac that reboots is dialled.
const rebootPoll = 5 * time.Second

// upload delivers the agent.
func upload(ctx context.Context, t *trial) error {
	if t.left == leftNothing {
		t.left = leftStaged
	}
	began := t.Now()
	if _, err := t.session.Receive(ctx, t.Agent); err != nil {
		return err
	}
	took := t.Now().Sub(began)
	t.add(Row{
		ID: "receive", Asked: "Does the agent arrive?", Seen: []string{"staged"}, Seconds: took.Seconds(),
		Detail: fmt.Sprintf("%d bytes, packed %d", t.Agent.Size, t.Agent.PackedSize()),
	})
	return t.runs(ctx, "runs", "Does macOS run a program with the linker's signature that was renamed into place?", staged(t.Agent))
}

func staged(b *remote.Build) string { return document.StagingDir + "/" + b.SHA256 }

// stagedDoctor and installedDoctor have the doctor look.
func stagedDoctor(ctx context.Context, t *trial) error { return t.doctor(ctx, staged(t.Agent)) }

func installedDoctor(ctx context.Context, t *trial) error {
	return t.doctor(ctx, document.CurrentAgent)
}

func (t *trial) doctor(ctx context.Context, program string) error {
	findings, err := t.findings(ctx, program)
	for _, f := range findings {
		t.add(found(f))
	}
	return err
}

// findings are the doctor's, without what would tell which Mac it is.
func (t *trial) findings(ctx context.Context, program string) ([]doctor.Finding, error) {
	out, _, code, err := t.execute(ctx, "sudo -n "+program+" doctor --json", "")
	if err != nil {
		return nil, err
	}
	var r doctor.Report
	if json.Unmarshal([]byte(out), &r) != nil || r.Schema != doctor.Schema {
		return nil, fmt.Errorf("the doctor ended with %d and without a report", code)
	}
	for i := range r.Findings {
		r.Findings[i].Evidence = t.hide.text(r.Findings[i].Evidence)
	}
	return r.Findings, nil
}

// found is the row of a finding.
func found(f doctor.Finding) Row {
	return Row{ID: f.ID, Asked: f.Title, Question: f.Question, Seen: []string{string(f.Verdict)}, Detail: f.Evidence}
}

// convergeFirst makes the Mac a node that joins nothing.
func convergeFirst(ctx context.Context, t *trial) error {
	t.left = leftInstalled
	if t.password != nil {
		t.desired.Mac.AutoLogin = true
		t.desired.Secrets = &document.Secrets{ConsolePassword: t.password.Reveal()}
	} else {
		t.notTried("session", "The step session", "it takes the user's password")
	}
	t.before = t.facts.BootSession
	t.desired.Mac.ProofReboot = !slices.Contains(t.Skip, "reboot")
	report, err := t.session.Converge(ctx, t.Agent.SHA256, t.desired, t.signer)
	if _, lost := errors.AsType[*remote.Lost](err); lost {
		t.hangUp()
		if err := t.connectPatiently(ctx); err != nil {
			return err
		}
		report, err = t.session.Converge(ctx, t.Agent.SHA256, t.desired, t.signer)
	}
	t.steps("", report)
	t.rebooting = report.Rebooting || t.rebooted()
	if report.Rebooting {
		t.before = t.facts.BootSession
	}
	if err == nil {
		t.desired.Secrets = nil // the Mac has it, and no run after this one needs it
	}
	return err
}

// steps are the rows of a report.
func (t *trial) steps(prefix string, r document.Report) {
	for _, s := range r.Steps {
		seen := string(s.Outcome)
		if s.Class != "" {
			seen += ", " + string(s.Class)
		}
		t.add(Row{
			ID: prefix + s.Name, Asked: "What does step " + s.Name + " of " + r.Verb + " come to?", Question: stepQuestions[s.Name],
			Seen: []string{seen}, Detail: t.hide.text(s.Detail), Seconds: float64(s.Millis) / 1000,
		})
	}
}

// stepQuestions are the open questions that steps bear on.
var stepQuestions = map[string]string{"session": "R11", "sharing": "R27", "sshd": "R15", "launchd": "R9", "firewall": "R4", "storage": "R19"}

// proofReboot waits for another boot, and converges in it.
func proofReboot(ctx context.Context, t *trial) error {
	if !t.rebooting {
		return errors.New("converge did not ask for the proof reboot")
	}
	began := t.Now()
	if err := t.awaitBoot(ctx); err != nil {
		return err
	}
	t.add(Row{
		ID: "back", Asked: "Does the Mac come back by itself, and when?", Question: "R23", Seen: []string{"another boot answers"},
		Seconds: t.Now().Sub(began).Seconds(),
	})
	if err := login(ctx, t); err != nil {
		return err
	}
	report, err := t.session.Converge(ctx, t.Agent.SHA256, t.desired, t.signer)
	t.steps("", report)
	return err
}

// rebooted says that another boot answers than the one before: one that may have been asked
// for in a report which the reboot has cut off.
func (t *trial) rebooted() bool { return t.facts.BootSession != "" && t.facts.BootSession != t.before }

// awaitBoot dials until another boot than the one before answers.
func (t *trial) awaitBoot(ctx context.Context) error {
	for {
		if err := t.Pause(ctx, rebootPoll); err != nil {
			return errors.New("the Mac did not come back in time")
		}
		err := t.connect(ctx)
		var mismatch *remote.HostKeyMismatch
		switch {
		case errors.As(err, &mismatch):
			return err
		case err != nil:
			continue
		case t.rebooted():
			return nil
		}
		t.hangUp()
	}
}

// answerLimit is how long a Mac that does not answer is dialled.
const answerLimit = 5 * time.Minute

// connectPatiently connects to a Mac that may not answer for a while. The connection lasts
// as long as ctx.
func (t *trial) connectPatiently(ctx context.Context) error {
	for until := t.Now().Add(answerLimit); ; {
		err := t.connect(ctx)
		_, another := errors.AsType[*remote.HostKeyMismatch](err)
		if err == nil || another || t.Now().After(until) || t.Pause(ctx, rebootPoll) != nil {
			return err
		}
	}
}

// convergeAgain finds nothing to do.
func convergeAgain(ctx context.Context, t *trial) error {
	report, err := t.session.ConvergeInstalled(ctx, t.desired, t.signer)
	t.steps("", report)
	return err
}

// The files of the trial with signatures, in the user's home folder.
const (
	written  = ".macfleet/accept-written"
	toRename = ".macfleet/accept-renamed"
)

// signatures tries what macOS does with programs whose bytes are not what their signature,
// or what it remembers of the file, says. The agent is uploaded anew afterwards.
func signatures(ctx context.Context, t *trial) error {
	if err := t.orders(ctx, "cp "+staged(t.Agent)+" "+written); err != nil {
		return err
	}
	if err := t.runs(ctx, "copied", "Does a copied program run?", written); err != nil {
		return err
	}
	if _, err := t.session.Receive(ctx, t.Damaged); err != nil {
		return err
	}
	if err := t.runs(ctx, "damaged", "Does a program run that has a page which its signature does not know?", staged(t.Damaged)); err != nil {
		return err
	}
	if err := t.replaced(ctx); err != nil {
		return err
	}
	if err := t.orders(ctx, "rm -f "+written+" "+toRename); err != nil {
		return err
	}
	_, err := t.session.Receive(ctx, t.Agent)
	return err
}

// replaced writes another release over a program that ran, in place and then by a rename.
func (t *trial) replaced(ctx context.Context) error {
	const inPlace, renamed = "Does a program run whose file was overwritten in place after it had run?", "Does one that was renamed over it run?"
	if t.Next == nil {
		t.notTried("in-place", inPlace, lacksNext(t))
		t.notTried("renamed", renamed, lacksNext(t))
		return nil
	}
	if _, err := t.session.Receive(ctx, t.Next); err != nil {
		return err
	}
	if err := t.orders(ctx, "cp "+staged(t.Next)+" "+written); err != nil {
		return err
	}
	if err := t.runs(ctx, "in-place", inPlace, written); err != nil {
		return err
	}
	if err := t.orders(ctx, "cp "+staged(t.Next)+" "+toRename, "mv -f "+toRename+" "+written); err != nil {
		return err
	}
	return t.runs(ctx, "renamed", renamed, written)
}

// runs starts a program as root, and says whether macOS let it.
func (t *trial) runs(ctx context.Context, id, asked, program string) error {
	_, complaints, code, err := t.execute(ctx, "sudo -n "+program+" version", "")
	if err != nil {
		return err
	}
	seen := fmt.Sprintf("exit %d", code)
	switch code {
	case 0:
		seen = "it runs"
	case killed, signalled:
		seen = "it is killed"
	}
	t.add(Row{ID: id, Asked: asked, Question: "R10", Seen: []string{seen}, Detail: strings.Join(t.hide.lines(complaints), "; ")})
	return nil
}

// How a command ends that was killed: as sudo says it, and as SSH does.
const (
	killed    = 128 + 9
	signalled = -1
)

// orders runs commands that must succeed.
func (t *trial) orders(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		_, complaints, code, err := t.execute(ctx, line, "")
		if err == nil && code != 0 {
			err = fmt.Errorf("%s: exit %d: %s", line, code, strings.Join(t.hide.lines(complaints), "; "))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Damage returns a program with another identifier than the linker gave it: it means
// nothing, and stands in the first page, which is looked at before anything runs.
func Damage(program []byte) ([]byte, error) {
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("reading the agent: %w", err)
	}
	const loadUUID = 0x1b
	for _, l := range f.Loads {
		raw := l.Raw()
		if len(raw) < 24 || binary.LittleEndian.Uint32(raw) != loadUUID {
			continue
		}
		changed := bytes.Clone(program)
		at := bytes.Index(changed, raw)
		changed[at+len(raw)-1] ^= 0xff
		return changed, nil
	}
	return nil, errors.New("the agent has no identifier that could be changed")
}

// upgrade goes to the other release and back.
func upgrade(ctx context.Context, t *trial) error {
	for _, to := range []struct {
		id    string
		build *remote.Build
	}{{"forth-", t.Next}, {"back-", t.Agent}} {
		if _, err := t.session.Receive(ctx, to.build); err != nil {
			return err
		}
		d := t.desired
		d.Agent.SHA256 = to.build.SHA256
		report, err := t.session.Converge(ctx, to.build.SHA256, d, t.signer)
		t.steps(to.id, report)
		if err != nil {
			return err
		}
		t.hangUp()
		if err := t.connect(ctx); err != nil {
			return err
		}
	}
	return nil
}

func leave(ctx context.Context, t *trial) error {
	report, err := t.session.Leave(ctx, t.signer)
	t.steps("", report)
	return err
}

func uninstall(ctx context.Context, t *trial) error {
	if err := t.takeBack(ctx); err != nil {
		return err
	}
	t.hangUp()
	if err := t.connect(ctx); err != nil {
		return err
	}
	t.add(Row{ID: "agent-gone", Asked: "Is the agent gone?", Seen: []string{yesNo(t.facts.CurrentAgent == "")}})
	if t.left == leftNothing && t.facts.Sudo { // as it was delivered
		return nil
	}
	t.add(Row{ID: "sudo-gone", Asked: "Is the right to become root without a password gone?", Seen: []string{yesNo(!t.facts.Sudo && !t.facts.SudoAgent)}})
	return nil
}

// takeBack takes back what was done, by how far that came.
func (t *trial) takeBack(ctx context.Context) error {
	if t.left != leftInstalled {
		lines := []string{"rm -rf .macfleet"}
		if t.left == leftSudo {
			lines = append(lines, t.withoutRule())
		}
		err := t.orders(ctx, lines...)
		if err == nil {
			t.left = leftNothing
		}
		return err
	}
	report, err := t.session.Uninstall(ctx, t.signer)
	t.steps("", report)
	if silent, is := errors.AsType[*remote.NoReport](err); is && silent.Reason == remote.NotInstalled {
		err = t.takeBackByStaged(ctx)
	}
	if err == nil {
		t.left = leftTraces
	}
	return err
}

// takeBackByStaged takes back a converge that ended before it installed the agent: the
// staged one does, as the rule of the grant allows. It takes the automatic login for somebody
// else's, since no configuration says whose it is, and the rule goes last.
func (t *trial) takeBackByStaged(ctx context.Context) error {
	if t.desired.Mac.AutoLogin {
		if err := t.orders(ctx, "sudo -n rm -f "+session.PasswordFile); err != nil {
			return err
		}
		// It fails where converge did not come so far.
		if _, _, _, err := t.execute(ctx, "sudo -n defaults delete "+session.LoginwindowDomain+" "+session.AutoLoginUser, ""); err != nil {
			return err
		}
	}
	_, _, code, err := t.execute(ctx, "sudo -n "+staged(t.Agent)+" "+document.VerbUninstall, "")
	if err == nil && code != document.ExitUnchanged && code != document.ExitChanged {
		err = fmt.Errorf("the staged agent's uninstall ended with %d", code)
	}
	return err
}

// withoutRule removes the rule of the grant.
func (t *trial) withoutRule() string {
	return "sudo -n rm -f /etc/sudoers.d/" + t.Target.User + "-nopasswd"
}

// commandLimit bounds one command; the slowest is the doctor.
const commandLimit = 3 * time.Minute

// execute runs a command to its end.
func (t *trial) execute(ctx context.Context, line, in string) (out, complaints string, exit int, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	var stdout, stderr macos.Bounded
	exit, err = t.session.Interact(ctx, line, remote.Console{In: strings.NewReader(in), Out: &stdout, Err: &stderr})
	return stdout.String(), stderr.String(), exit, err
}

func orNone(all []string) []string {
	if len(all) == 0 {
		return []string{"none"}
	}
	return slices.Clone(all)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
