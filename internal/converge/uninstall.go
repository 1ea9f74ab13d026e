package converge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Uninstall takes back what the steps did, the last one first, and goes on after
// a failure. The journal, the upgrade key and the counter stay: the disk belongs to
// its epoch until it is wiped. A Mac that changes hands is wiped instead: guests leave traces
// that no list of ours knows. With force it does so although guests run.
func Uninstall(ctx context.Context, o Options, force bool) document.Report {
	r := o.newReport(ctx, document.VerbUninstall)
	unlock, err := o.lock(ctx)
	if err != nil {
		r.Steps = []document.StepReport{failedStep("lock", err)}
		return o.seal(r)
	}
	defer func() { _ = unlock.Close() }()
	t := &target{Options: o, report: &r}
	t.uninstall(ctx, force)
	return o.keep(ctx, o.seal(r))
}

func (t *target) uninstall(ctx context.Context, force bool) {
	t.desired = t.installed()
	t.report.Epoch = t.desired.Host.Epoch
	if !force {
		if err := t.waitForGuests(ctx); err != nil {
			t.report.Steps = append(t.report.Steps, failedStep("guests", err))
			return
		}
	}
	for _, s := range t.backwards() {
		started := t.Mac.Clock.Now()
		step := document.StepReport{Name: s.name, Outcome: document.Changed}
		if err := s.takeBack(ctx); err != nil {
			step = failedStep(s.name, err)
		}
		step.Millis = t.Mac.Clock.Now().Sub(started).Milliseconds()
		t.report.Steps = append(t.report.Steps, step)
	}
	t.report.Steps = append(t.report.Steps, t.leftovers(ctx))
}

// installed is what is known of the Mac without a document: its configuration. A
// Mac without one still has a user, whom the journal names, or who called.
func (o Options) installed() document.Desired {
	var c document.AgentConfig
	if data, err := read(o.Mac.Files, document.ConfigFile); err == nil {
		// What does not parse leaves the zero value: less is known.
		_ = json.Unmarshal(data, &c)
	}
	if c.Host.User == "" {
		j := o.journaled()
		c.Host.User, c.Host.Epoch = cmp.Or(j.User, o.Invoker), j.Epoch
	}
	return document.Desired{Host: c.Host, Agent: c.Agent, Node: c.Node, Mac: c.Mac}
}

func (t *target) waitForGuests(ctx context.Context) error {
	n, err := t.Mac.Guests.Running(ctx)
	if err != nil {
		return fmt.Errorf("counting the guests: %w", err)
	}
	if n > 0 {
		return fail(document.Wait, "waits until no guest runs: %d do; drain the node, or give --force", n)
	}
	return nil
}

// backwards are the steps that can be taken back, the last one first. The sudo
// rule is the very last: without it nobody could try again.
func (t *target) backwards() []step {
	all := slices.DeleteFunc(t.steps(), func(s step) bool { return s.takeBack == nil })
	slices.Reverse(all)
	return append(all, step{name: "sudo", takeBack: t.removeSudo})
}

func (t *target) removeSudo(context.Context) error {
	user := t.desired.Host.User
	if user == "" {
		return fail(document.Human, "nothing says who the console user is: remove %s by hand", sudoersFile("<user>"))
	}
	return t.remove(sudoersFile(user))
}

// leftovers looks for what is still there.
func (t *target) leftovers(ctx context.Context) document.StepReport {
	var left []string
	for _, p := range []string{
		document.AgentPlist, document.HostdPlist, document.InstallDir, document.ConfigDir, document.AgentStateDir,
		document.LogDir, sudoersFile(t.desired.Host.User),
	} {
		if there, err := t.exists(ctx, p); err != nil || there {
			left = append(left, p)
		}
	}
	if len(left) > 0 {
		return failedStep("leftovers", fail(document.Retry, "still there: %s; uninstall again, or remove them by hand", strings.Join(left, ", ")))
	}
	return document.StepReport{
		Name: "leftovers", Outcome: document.Unchanged,
		Detail: "kept: the names and the power settings of the Mac; in " + document.StateDir + " the last report, and the journal, " +
			"the upgrade key and the counter of instructions, for the disk belongs to its epoch until it is wiped",
	}
}
