package converge

import (
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/proofreboot"
	"github.com/macfleet/macfleet/internal/converge/session"
	"github.com/macfleet/macfleet/internal/converge/step"
	"github.com/macfleet/macfleet/internal/converge/takeover"
)

// env is what the steps of one run are made of.
func (o Options) env(d document.Desired, r *document.Report) *step.Env {
	return &step.Env{
		Mac: o.Mac, Desired: d, Report: r,
		Plan: o.Plan, Alone: o.Step != "", TakeOver: o.TakeOver || d.Host.TakeOver,
	}
}

// steps in their order. The disk marker comes before all that changes something, but
// for the folder that it is in: nothing of ours is on the disk, or given to a user,
// before it says which epoch and which user the disk belongs to.
func (o Options) steps(e *step.Env) []step.Step {
	console, former := session.New(e), takeover.Former{Env: e}
	all := []step.Step{preflight{e}.step(), diskMarker{e}.step(), dirs{e}.step()}
	var predecessor launchd.Predecessor
	if e.TakeOver {
		predecessor = former
		all = append(all, former.Step())
	}
	all = append(
		all,
		sshd{e}.step(),
		sharing{e}.step(),
		names{e}.step(),
		power{e}.step(),
		updates{e}.step(),
		console.Step(),
		storage{e}.step(),
		tart{e, o.Fetch}.step(),
		network{e}.step(),
		firewall.Step(e, takeover.PacketFilter{Env: e}),
		agent{e, o.Self}.step(),
		config{e}.step(),
		credentials{e}.step(),
		logs{e}.step(),
		launchd.New(e, predecessor).Step(),
	)
	if e.TakeOver {
		all = append(all, former.AgentStep())
	}
	all = append(all, sudo{e}.step())
	if e.TakeOver {
		all = append(all, former.FirewallStep())
	}
	return append(all, proofreboot.Step(e, console))
}
