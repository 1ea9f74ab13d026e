package takeover

import (
	"context"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/step"
)

// firewallPart is the first system's firewall: the job that loads its rules, at each
// boot and whenever they are gone, and what that job reads.
func firewallPart() part {
	return part{
		labels: []string{formerPrefix + "pfctl-runners"},
		files: []string{
			packetFilterFile,
			"/etc/pf.anchors/tuist.sshguard",
			"/usr/local/bin/tuist-pf-vmnat",
			"/usr/local/bin/tuist-pf-sshguard",
		},
	}
}

// FirewallStep removes the first system's firewall. It comes after the step that has
// hostd loaded, which puts our rules in force at each boot: a take-over that fails or is
// cut before leaves the first system's agent at work, and a boot must find its firewall
// whole.
func (x Former) FirewallStep() step.Step {
	retired, filter := firewallPart(), PacketFilter(x)
	return step.Step{
		Name: "former-firewall",
		About: "Only where the Mac is taken over: boots out and removes the launchd job " + strings.Join(retired.labels, ", ") +
			", which loads the first system's rules, clears these from the packet filter and from " + pfConf + ", and removes the files " + strings.Join(retired.files, ", ") +
			". That is after `launchd`, whose hostd loads our rules at every boot: until then both are in force, and the first system's come back after a boot.",
		Undo: "None: install the first system again.",
		Check: func(ctx context.Context) ([]string, error) {
			all, err := x.left(ctx, retired)
			if err != nil {
				return nil, err
			}
			rules, err := filter.Left(ctx)
			return append(all, rules...), err
		},
		Act: func(ctx context.Context) error {
			// The job first, for it would load the rules again. The files last: pf.conf
			// that names a file which is gone is refused at the next boot as a whole, and
			// with it the call of our anchor.
			if err := x.retire(ctx, retired.labels); err != nil {
				return err
			}
			if err := filter.Clear(ctx); err != nil {
				return err
			}
			return x.Remove(retired.files...)
		},
	}
}
