package act

import (
	"errors"
	"fmt"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// reasoned: what is begun has a reason.
func reasoned(reason string, end bool) error {
	if reason == "" && !end {
		return errors.New("say why with --reason: it is shown to people")
	}
	return nil
}

// Quarantine keeps a host out of the pool, or ends that.
type Quarantine struct {
	Reason string
	// For is how long; 0: until somebody ends it.
	For time.Duration
	End bool
	Now time.Time
}

// Check says what is missing in what was typed.
func (q Quarantine) Check() error { return reasoned(q.Reason, q.End) }

// Plan is for any host.
func (q Quarantine) Plan(m Mac) (Plan, error) {
	h := m.Host
	var p Plan
	switch {
	case q.End && h.Spec.Quarantine == nil:
		return Plan{}, fmt.Errorf("host %s is not quarantined", h.Name)
	case q.End:
		p.say("the quarantine of host %s (%s) ends", h.Name, h.Spec.Quarantine.Reason)
		p.say("it is free then, unless no wipe was seen since its last owner; a wipe that came to nothing is asked for again")
		p.patch(h, spec(map[string]any{"quarantine": nil}))
		return p, nil
	case h.Spec.Quarantine != nil:
		return Plan{}, fmt.Errorf("host %s is quarantined already (%s): end that first, with --end", h.Name, h.Spec.Quarantine.Reason)
	}
	fields := map[string]any{"reason": q.Reason, "until": nil}
	until := "somebody ends it"
	if q.For > 0 {
		until = q.Now.Add(q.For).UTC().Truncate(time.Second).Format(time.RFC3339)
		fields["until"] = until
	}
	p.say("host %s is kept out of the pool until %s", h.Name, until)
	p.kept(m)
	p.patch(h, spec(map[string]any{"quarantine": fields}))
	return p, nil
}

func (p *Plan) kept(m Mac) {
	if m.Machine != nil {
		p.say("Machine %s, which has it, keeps it as long as it lives", m.owner())
		p.goOn(m)
	}
}

// Maintenance keeps a host out of everything, or ends that.
type Maintenance struct {
	Reason string
	End    bool
}

// Check says what is missing in what was typed.
func (a Maintenance) Check() error { return reasoned(a.Reason, a.End) }

// Plan is for any host.
func (a Maintenance) Plan(m Mac) (Plan, error) {
	h := m.Host
	var p Plan
	switch {
	case a.End && h.Spec.Maintenance == nil:
		return Plan{}, fmt.Errorf("host %s is not in maintenance", h.Name)
	case a.End:
		p.say("the maintenance of host %s (%s) ends: recovery and the pool have it again", h.Name, h.Spec.Maintenance.Reason)
		p.patch(h, spec(map[string]any{"maintenance": nil}))
		return p, nil
	case h.Spec.Maintenance != nil:
		return Plan{}, fmt.Errorf("host %s is in maintenance already (%s): end that first, with --end", h.Name, h.Spec.Maintenance.Reason)
	}
	p.say("host %s is kept out of the pool and of recovery until somebody ends it: no reboot, no adoption, no reclaim", h.Name)
	p.kept(m)
	if m.Machine != nil {
		p.say("a rollout still takes the Mac in its turn, and deleting its Machine still wipes it")
	}
	p.patch(h, spec(map[string]any{"maintenance": map[string]any{"reason": a.Reason}}))
	return p, nil
}

// Reboot asks for one reboot, which is a power cut.
type Reboot struct {
	ID, Reason string
	Force      bool
	// Cancel takes a request back.
	Cancel bool
}

// Check says what is missing in what was typed.
func (r Reboot) Check() error { return reasoned(r.Reason, r.Cancel) }

// Plan is for a host whose server exists.
func (r Reboot) Plan(m Mac) (Plan, error) {
	h := m.Host
	switch {
	case r.Cancel:
		return r.takeBack(h)
	case h.Spec.Order != nil || h.Status.Phase == infrav1.HostGone:
		return Plan{}, fmt.Errorf("host %s has no server: it is %s", h.Name, h.Status.Phase)
	case h.Spec.Release != nil:
		return Plan{}, fmt.Errorf("host %s is being released, and is not rebooted before it is wiped", h.Name)
	case h.Spec.Record.HandedOverAt != nil:
		return Plan{}, fmt.Errorf("host %s went to another management cluster, which alone reboots it", h.Name)
	case h.Status.LastReboot.ID == r.ID:
		return Plan{}, fmt.Errorf("host %s was rebooted for %s already, at %s, and is so once for each id: leave --id out, or give another", h.Name, r.ID, h.Status.LastReboot.At.UTC().Format(time.RFC3339))
	case h.Spec.Reboot != nil && !r.Force:
		return Plan{}, fmt.Errorf("host %s waits for reboot %s already: macfleet explain host %s. To take it back: macfleet host reboot %s --cancel", h.Name, h.Spec.Reboot.ID, h.Name, h.Name)
	case host.ChangedByOther(h):
		return Plan{}, renamed(h, "rebooted")
	case host.ErrorForbidsReboot(h) != "":
		return Plan{}, fmt.Errorf("host %s is not rebooted: %s", h.Name, host.ErrorForbidsReboot(h))
	}
	var p Plan
	p.say("the vendor cuts the power of host %s, and the Mac starts again", h.Name)
	switch {
	case r.Force:
		p.say("as soon as the vendor allows it: Pods on it die with it")
		p.end(m)
	case m.Machine == nil:
		p.say("as soon as neither maintenance, nor a pause, nor what the vendor does with the server, nor Pods on a Ready Node hold it up: no Machine here has it, and nobody here knows what runs on it")
		p.awaitWhereReady(m)
	case m.unwell():
		p.say("as soon as neither maintenance nor a pause holds it up: its Node is not Ready, so Pods on it are not waited for")
		p.end(m)
	default:
		p.say("when no Pod runs on its Ready Node, and neither maintenance nor a pause holds it up")
		p.await(m)
	}
	fields := map[string]any{"id": r.ID, "reason": r.Reason}
	if r.Force {
		fields["force"] = true
	}
	p.patch(h, spec(map[string]any{"reboot": fields}))
	return p, nil
}

// takeBack ends a request that waits.
func (Reboot) takeBack(h *infrav1.ScalewayAppleSiliconHost) (Plan, error) {
	if h.Spec.Reboot == nil {
		return Plan{}, fmt.Errorf("host %s waits for no reboot", h.Name)
	}
	var p Plan
	p.say("host %s is not rebooted for %s (%s), unless the vendor took that already; one that a recovery asked for it may ask for again", h.Name, h.Spec.Reboot.ID, h.Spec.Reboot.Reason)
	p.patch(h, spec(map[string]any{"reboot": nil}))
	return p, nil
}
