// Package push brings one Mac to its desired state over SSH: it dials, looks whether
// the Mac is fit, installs the agent's build, gives it what it joins with, and has it
// converge. Everything that must survive a crash is recorded on the Mac's Host, and
// mirrored in <machine>-bootstrap, before it happens.
package push

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/tracing"
	"github.com/macfleet/macfleet/internal/workload"
)

// The steps of a push, as people see them.
const (
	StepDial     = "dial"
	StepProbe    = "probe"
	StepGrant    = "grant"
	StepReceive  = "receive"
	StepJoin     = "join"
	StepConverge = "converge"
	StepReboot   = "reboot"
)

// Steps is the order of the steps, for "step n of m".
func Steps() []string {
	return []string{StepDial, StepProbe, StepGrant, StepReceive, StepJoin, StepConverge, StepReboot}
}

// revokeTimeout bounds taking a token back after a failed push.
const revokeTimeout = 10 * time.Second

// Pusher pushes to Macs, checks them, and tells them to leave.
type Pusher struct {
	Macs Dialer
	// Agent is the build that Macs are given.
	Agent   Agent
	Hosts   hostclaim.Hosts
	Secrets bootstrapsecret.Secrets
	Tokens  *Tokens
	Clock   clock.PassiveClock
	// Pause waits between two looks at a Mac that reboots.
	Pause func(ctx context.Context, d time.Duration) error
	// Observe is told how long a step took that succeeded.
	Observe func(step string, took time.Duration)
	// Tracer makes a span of each push, check and leave.
	Tracer tracing.Tracer
}

// Request is one push: which Mac, for which claim, and what it is to become.
type Request struct {
	Machine client.ObjectKey
	Claim   hostclaim.Ref
	// Epoch is the install epoch of the Mac.
	Epoch  int64
	Target Target
	// Seeds key the digests of passwords: new ones are made with the first.
	Seeds    [][]byte
	Password cloud.Password
	// NoPassword is the reason to give when the password is needed and not there.
	NoPassword string
	Desired    document.Desired
	// Registration is what the document tells the Mac to register its Node with.
	Registration infrav1.RegistrationRecord
	// Signer of what the Mac is told.
	Signer *document.Signer
	// Join says that the Mac needs a token and a permit.
	Join bool
	// Told is told what each converge did to the Mac, also one that failed. Nil: nobody is.
	Told func(document.Report)
}

// push is a request under way.
type push struct {
	*Pusher
	Request
	say func(step string)
}

// Push does the steps in order and stops at the first that fails, with a *Failure.
func (p *Pusher) Push(ctx context.Context, request Request, say func(step string)) error {
	ctx, end := p.Tracer.Start(ctx, "push", "machine", request.Machine.String(), "host", request.Claim.Host)
	err := push{p, request, say}.run(ctx)
	end(err)
	return err
}

func (p push) run(ctx context.Context) error {
	target, pinned := p.Target, false
	target.FirstUse = func(ctx context.Context, key infrav1.HostKey) error {
		err := notRecorded(StepDial, p.pin(ctx, key))
		pinned = err == nil
		return err
	}
	var mac Mac
	err := p.at(StepDial, func() (err error) {
		if mac, err = p.Macs.Dial(ctx, target); err != nil || pinned {
			return err
		}
		return notRecorded(StepDial, p.pin(ctx, mac.HostKey()))
	})
	if mac != nil {
		defer mac.Close() //nolint:errcheck // the work is done or has failed already
	}
	if err != nil {
		return err
	}
	var facts Facts
	err = p.at(StepProbe, func() (err error) {
		if facts, err = mac.Probe(ctx); err != nil {
			return err
		}
		return p.preflight(ctx, facts)
	})
	if err != nil {
		return err
	}
	if err := p.at(StepGrant, func() error { return p.grant(ctx, mac, facts) }); err != nil {
		return err
	}
	if err := p.at(StepReceive, func() error { return p.receive(ctx, mac, facts) }); err != nil {
		return err
	}
	return p.joinAndConverge(ctx, mac, facts)
}

// at does one step.
func (p push) at(step string, act func() error) error {
	p.say(step)
	began := p.Clock.Now()
	if err := act(); err != nil {
		return AsFailure(step, err)
	}
	p.Observe(step, p.Clock.Since(began))
	return nil
}

// grant spends the password's one attempt, unless sudo works without.
func (p push) grant(ctx context.Context, mac Mac, facts Facts) error {
	if facts.Sudo {
		return nil
	}
	if !p.Password.Present() {
		return &Failure{Step: StepGrant, Class: document.Wait, Reason: p.NoPassword, Err: errors.New("the vendor shows no usable sudo password")}
	}
	fresh, err := p.spend(ctx, p.Password)
	if err != nil {
		return notRecorded(StepGrant, err)
	}
	if !fresh {
		return &Failure{Step: StepGrant, Class: document.Retry, Reason: infrav1.ReasonMissingSudoPassword, Err: errors.New("the vendor's password had its one attempt in this install epoch, and no other comes before a wipe")}
	}
	return mac.Grant(ctx, p.Password)
}

func (p push) receive(ctx context.Context, mac Mac, facts Facts) error {
	if facts.Installed == p.Agent.SHA256 {
		return nil
	}
	return mac.Receive(ctx, p.Agent)
}

// joinAndConverge mints join material where the Mac needs it, converges, and takes the
// token back when that did not work.
func (p push) joinAndConverge(ctx context.Context, mac Mac, facts Facts) error {
	desired := p.Desired
	if facts.Client.IsValid() {
		desired.Host.ManagedFrom = facts.Client.String()
	}
	if p.Password.Present() {
		// Steps that need it may come in any run; the Mac keeps it in one file only.
		desired.Secrets = &document.Secrets{ConsolePassword: p.Password.Reveal()}
	}
	var token workload.Token
	err := p.at(StepJoin, func() (err error) {
		if p.Join {
			token, desired.Join, err = p.Tokens.mint(ctx, p.Machine, p.Claim)
		}
		return notRecorded(StepJoin, err)
	})
	if err != nil {
		return err
	}
	err = p.at(StepConverge, func() error { return p.converge(ctx, mac, facts, desired) })
	if token.ID == "" {
		return err
	}
	if err == nil {
		err = notRecorded(StepJoin, p.Tokens.recordDelivery(ctx, p.Machine, p.Claim, token))
	}
	if err != nil {
		p.revoke(ctx)
	}
	return err
}

// revoke ends a token that was not delivered, even when the job was cancelled.
// What fails here is made up for by the next push or the token's end.
func (p push) revoke(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	_ = p.Tokens.End(ctx, p.Machine, p.Claim)
}
