package accept

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/remote"
)

// The time that a section may take at most.
const (
	probeLimit  = 3 * time.Minute
	looksLimit  = 10 * time.Minute
	uploadLimit = 15 * time.Minute
	// convergeLimit covers two runs, since the second build is pushed forth and back.
	convergeLimit = 25 * time.Minute
	// rebootLimit covers a Mac that stays away, and converge after it.
	rebootLimit = 25 * time.Minute
)

// section is one part of a run.
type section struct {
	name, about string
	// limit bounds it.
	limit time.Duration
	// needs are sections that must have gone to their end.
	needs []string
	// after are sections that must not have been broken off: they may have been skipped.
	after []string
	// absent: it begins without a connection.
	absent bool
	// patient: it begins also on a Mac that does not answer at first.
	patient bool
	// lacks says what else is not there that it needs; may be nil.
	lacks func(*trial) string
	run   func(context.Context, *trial) error
}

func sections() []section {
	return []section{
		{name: "probe", about: "what the Mac says of itself before anything is sent to it", limit: probeLimit, run: probe},
		{name: "looks", about: "what macOS prints where stage 0, converge and the doctor look; changes nothing", limit: looksLimit, needs: []string{"probe"}, run: looks(userLooks)},
		{name: "root", about: "the password's one attempt, after which the user becomes root without", limit: probeLimit, needs: []string{"probe"}, run: grant},
		{name: "root-looks", about: "what only root can ask of macOS, and trials in a packet filter anchor and preferences of their own", limit: looksLimit, needs: []string{"root"}, run: rootLooksAndMeet},
		{name: "upload", about: "the agent on its way to the Mac, and its first start there", limit: uploadLimit, needs: []string{"root"}, run: upload},
		{name: "doctor-before", about: "the doctor on a Mac that nothing was done to", limit: looksLimit, needs: []string{"upload"}, run: stagedDoctor},
		{name: "signatures", about: "programs that are damaged, overwritten in place, and renamed into place", limit: uploadLimit, needs: []string{"upload"}, run: signatures},
		{name: "converge", about: "all steps that make a Mac a node, but for the joining", limit: convergeLimit, needs: []string{"upload"}, after: []string{"signatures"}, run: convergeFirst},
		{name: "reboot", about: "the proof reboot, and whether all steps hold after it", limit: rebootLimit, needs: []string{"converge"}, absent: true, run: proofReboot},
		{name: "again", about: "converge on a Mac that is converged, which changes nothing", limit: convergeLimit, needs: []string{"converge"}, after: []string{"reboot"}, run: convergeAgain},
		{name: "doctor-after", about: "the doctor on a converged Mac", limit: looksLimit, needs: []string{"converge"}, after: []string{"reboot"}, run: installedDoctor},
		{name: "guests", about: "guests of the user's own, one more than the licence allows, the firewall while they run, and the driver of tart", limit: guestsLimit, needs: []string{"converge"}, after: []string{"reboot"}, lacks: lacksImage, run: guests},
		{name: "upgrade", about: "another release of the agent, and back to the first", limit: convergeLimit, needs: []string{"converge"}, after: []string{"reboot"}, lacks: lacksNext, run: upgrade},
		{name: "rollback", about: "the other release with a configuration that it does not start with, from which converge goes back by itself", limit: convergeLimit, needs: []string{"converge"}, after: []string{"reboot", "upgrade"}, lacks: lacksNext, run: rollback},
		{name: "leave", about: "the agent's goodbye", limit: convergeLimit, needs: []string{"converge"}, after: []string{"reboot"}, run: leave},
		{name: "uninstall", about: "the way back of all steps", limit: convergeLimit, patient: true, lacks: lacksChange, run: uninstall},
	}
}

func lacksNext(t *trial) string {
	if t.Next == nil {
		return "no other release of the agent was named: --next-agent"
	}
	return ""
}

func lacksChange(t *trial) string {
	if t.left == leftNothing {
		return "nothing was changed"
	}
	return ""
}

// looks asks macOS.
func looks(all func() []look) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		for _, l := range all() {
			if err := t.look(ctx, l); err != nil {
				return err
			}
		}
		return nil
	}
}

func (t *trial) look(ctx context.Context, l look) error {
	began := t.Now()
	var seen []string
	for _, r := range l.runs {
		out, complaints, code, err := t.execute(ctx, r.shellLine(l.root), r.in)
		if err != nil {
			return err
		}
		if !l.exact {
			out += complaints
		}
		lines := append(t.hide.lines(out), fmt.Sprintf("exit %d", code))
		seen = append(append(seen, prompt+r.line), l.pick(lines)...)
	}
	t.add(Row{ID: l.id, Asked: l.asked, Question: l.question, Exact: l.exact, Seen: seen, Seconds: t.Now().Sub(began).Seconds()})
	return nil
}

// probe judges the facts of stage 0.
func probe(_ context.Context, t *trial) error {
	f := t.facts
	t.add(Row{ID: "missing", Asked: "Which facts does stage 0's probe lack?", Seen: orNone(f.Missing())})
	t.add(Row{ID: "not-understood", Asked: "Which lines of the probe does nobody understand?", Seen: unknownLines(f)})
	t.add(Row{ID: "filevault", Asked: "Is FileVault on?", Seen: []string{string(f.FileVault)}})
	t.add(Row{ID: "console", Asked: "Who owns the console of a delivered Mac?", Question: "R11", Seen: []string{t.hide.text(f.ConsoleUser)}})
	t.add(Row{ID: "sudo", Asked: "Does sudo ask for a password?", Seen: []string{yesNo(!f.Sudo)}})
	return nil
}

// unknownLines counts them: a login shell prints what it likes.
func unknownLines(f remote.Facts) []string {
	if len(f.Unknown) == 0 {
		return orNone(nil)
	}
	return []string{fmt.Sprintf("%d lines", len(f.Unknown))}
}

// grant spends the password's one attempt, where one is due. A Mac that needs none keeps
// its console as it is, for nobody tells the password.
func grant(ctx context.Context, t *trial) error {
	if t.noPassword != nil {
		if !t.facts.Sudo {
			return t.noPassword
		}
		t.notTried("session", "Does a console session come up, and after a boot?", "it takes the user's password: "+t.noPassword.Error())
	}
	const asked = "Does the password's one attempt make the user root?"
	if t.facts.Sudo {
		t.notTried("grant", asked, "sudo asks for no password on this Mac")
		return nil
	}
	began := t.Now()
	row := Row{ID: "grant", Asked: asked, Seen: []string{"granted"}}
	t.left = leftSudo // also where the connection goes, and no answer comes
	err := t.session.Grant(ctx, t.password)
	row.Seconds = t.Now().Sub(began).Seconds()
	if err == nil {
		t.add(row)
		return t.refuseTaken(ctx)
	}
	if refused, is := errors.AsType[*remote.GrantRefused](err); is && refused.Outcome != remote.RuleOverridden {
		t.left = leftNothing
	}
	row.Seen = []string{t.hide.text(err.Error())}
	t.add(row)
	return errors.New("the user does not become root")
}
