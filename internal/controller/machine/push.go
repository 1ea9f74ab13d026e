package machine

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/workload"
)

// The steps of a push, as people see them.
const (
	stepDial     = "dial"
	stepProbe    = "probe"
	stepGrant    = "grant"
	stepReceive  = "receive"
	stepJoin     = "join"
	stepConverge = "converge"
	stepReboot   = "reboot"

	// stepQueued is what is told of a push that waits for others.
	stepQueued = "queued"
)

// pushSteps is the order of the steps, for "step n of m".
func pushSteps() []string {
	return []string{stepDial, stepProbe, stepGrant, stepReceive, stepJoin, stepConverge, stepReboot}
}

// revokeTimeout bounds taking a token back after a failed push.
const revokeTimeout = 10 * time.Second

// push brings one Mac to its desired state: a job of some minutes. Everything
// that must survive it is recorded before it happens.
type push struct {
	r        *Reconciler
	machine  client.ObjectKey
	target   Target
	ledger   ledger
	password cloud.Password
	// missing is the reason to give when the password is needed and not there.
	missing string
	agent   Agent
	desired document.Desired
	// signer of what the Mac is told.
	signer *document.Signer
	// join says that the Mac needs a token and a permit.
	join bool
}

// run does the steps in order and stops at the first that fails.
func (p push) run(ctx context.Context, say func(string)) error {
	at := func(step string, act func() error) error {
		say(step)
		began := p.r.Clock.Now()
		err := act()
		p.r.metrics.step(step, p.r.Clock.Since(began), err)
		if err != nil {
			return asFailure(step, err)
		}
		return nil
	}
	var mac Mac
	err := at(stepDial, func() (err error) {
		if mac, err = p.r.Macs.Dial(ctx, p.target); err != nil {
			return err
		}
		return p.ledger.pin(ctx, mac.HostKey())
	})
	if mac != nil {
		defer mac.Close() //nolint:errcheck // the work is done or has failed already
	}
	if err != nil {
		return err
	}
	var facts Facts
	err = at(stepProbe, func() (err error) {
		if facts, err = mac.Probe(ctx); err != nil {
			return err
		}
		return p.fit(ctx, facts)
	})
	if err != nil {
		return err
	}
	if err := at(stepGrant, func() error { return p.grant(ctx, mac, facts) }); err != nil {
		return err
	}
	if err := at(stepReceive, func() error { return p.receive(ctx, mac, facts) }); err != nil {
		return err
	}
	return p.admit(ctx, mac, facts, at, say)
}

// grant spends the password's one attempt, unless sudo works without.
func (p push) grant(ctx context.Context, mac Mac, facts Facts) error {
	if facts.Sudo {
		return nil
	}
	if !p.password.Present() {
		return &Failure{Step: stepGrant, Class: document.Wait, Reason: p.missing, Err: errors.New("the vendor shows no usable sudo password")}
	}
	fresh, err := p.ledger.spend(ctx, p.password)
	if err != nil {
		return err
	}
	if !fresh {
		return &Failure{Step: stepGrant, Class: document.Retry, Reason: infrav1.ReasonMissingSudoPassword, Err: errors.New("the vendor's password had its one attempt in this install epoch; another password or a wipe is needed")}
	}
	return mac.Grant(ctx, p.password)
}

func (p push) receive(ctx context.Context, mac Mac, facts Facts) error {
	if facts.Installed == p.agent.SHA256 {
		return nil
	}
	return mac.Receive(ctx, p.agent)
}

// admit mints join material where the Mac needs it, converges, and takes the
// token back when that did not work.
func (p push) admit(ctx context.Context, mac Mac, facts Facts, at func(string, func() error) error, say func(string)) error {
	desired := p.desired
	if facts.Client.IsValid() {
		desired.Host.ManagedFrom = facts.Client.String()
	}
	if p.password.Present() {
		// Steps that need it may come in any run; the Mac keeps it in one file only.
		desired.Secrets = &document.Secrets{ConsolePassword: p.password.Reveal()}
	}
	var token workload.Token
	if err := at(stepJoin, func() (err error) { token, err = p.mint(ctx, &desired); return err }); err != nil {
		return err
	}
	err := at(stepConverge, func() error { return p.converge(ctx, mac, facts, desired, say) })
	if err == nil {
		err = p.delivered(ctx, token)
	}
	if err != nil {
		p.revoke(ctx, token)
	}
	return err
}
