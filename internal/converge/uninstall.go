package converge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/session"
	"github.com/macfleet/macfleet/internal/converge/step"
	"github.com/macfleet/macfleet/internal/converge/takeover"
)

// uninstall takes back what the steps did, the last one first, and goes on after
// a failure. The disk marker, the upgrade key and the counter stay: the disk belongs to
// its epoch until it is wiped. A Mac that changes hands is wiped instead: guests leave traces
// that no list of ours knows. With force it does so although guests run.
func uninstall(ctx context.Context, o Options, force bool) document.Report {
	r := o.newReport(ctx, document.VerbUninstall)
	return o.locked(ctx, &r, func() bool { o.uninstall(ctx, &r, force); return true })
}

func (o Options) uninstall(ctx context.Context, r *document.Report, force bool) {
	e := o.env(o.installed(), r)
	r.Epoch = e.Desired.Host.Epoch
	if !force {
		if err := requireNoGuests(ctx, o.Mac); err != nil {
			r.Steps = append(r.Steps, step.Failed("guests", err))
			return
		}
	}
	for _, s := range o.backwards(e) {
		r.Steps = append(r.Steps, e.Revert(ctx, s))
	}
	r.Steps = append(r.Steps, leftovers(ctx, e))
}

// installed is what is known of the Mac without a document: its configuration. A
// Mac without one still has a user, whom the disk marker names, or who called.
func (o Options) installed() document.Desired {
	var c document.AgentConfig
	if data, err := step.Read(o.Mac.Files, document.ConfigFile); err == nil {
		// What does not parse leaves the zero value: less is known.
		_ = json.Unmarshal(data, &c)
	}
	if c.Host.User == "" {
		j := markedAs(o.Mac.Files)
		c.Host.User, c.Host.Epoch = cmp.Or(j.User, o.Invoker), j.Epoch
	}
	return document.Desired{Host: c.Host, Agent: c.Agent, Node: c.Node, Mac: c.Mac}
}

func requireNoGuests(ctx context.Context, mac macos.Mac) error {
	n, err := mac.Guests.Running(ctx)
	if err != nil {
		return fmt.Errorf("counting the guests: %w", err)
	}
	if n > 0 {
		return step.Fail(document.Wait, "waits until no guest runs: %d do; drain the node, or give --force", n)
	}
	return nil
}

// backwards are the steps that can be taken back, the last one first. Of a take-over
// that was cut, the first system's agent is left, switched off: once ours is gone, it may
// start again. The sudo rule is the very last: without it nobody could try again.
func (o Options) backwards(e *step.Env) []step.Step {
	all := slices.DeleteFunc(o.steps(e), func(s step.Step) bool { return s.TakeBack == nil })
	slices.Reverse(all)
	return append(
		all,
		step.Step{Name: "former-agent", TakeBack: takeover.Former{Env: e}.GiveBack},
		step.Step{Name: "sudo", TakeBack: sudo{e}.remove},
	)
}

// leftovers looks for what is still there.
func leftovers(ctx context.Context, e *step.Env) document.StepReport {
	var left []string
	ours := []string{
		document.AgentPlist, document.HostdPlist, document.InstallDir, document.ConfigDir, document.AgentStateDir,
		document.LogDir, sudoersFile(e.Desired.Host.User),
	}
	if e.Desired.Mac.AutoLogin { // else it is somebody else's
		ours = append(ours, session.PasswordFile)
	}
	for _, p := range ours {
		if there, err := e.Exists(ctx, p); err != nil || there {
			left = append(left, p)
		}
	}
	if len(left) > 0 {
		return step.Failed("leftovers", step.Fail(document.Retry, "still there: %s; uninstall again, or remove them by hand", strings.Join(left, ", ")))
	}
	return document.StepReport{
		Name: "leftovers", Outcome: document.Unchanged,
		Detail: "kept: the names and the power settings of the Mac; in " + document.StateDir + " the last report, and the journal, " +
			"the upgrade key and the counter of instructions, for the disk belongs to its epoch until it is wiped",
	}
}
