package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
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

// mint puts a one-hour token and a join permit into the document. The token's
// id is recorded before the token exists, so that none is ever forgotten.
func (p push) mint(ctx context.Context, desired *document.Desired) (workload.Token, error) {
	if !p.join {
		return workload.Token{}, nil
	}
	endpoint, err := p.r.Discovery.Endpoint(ctx)
	if unknown, ok := errors.AsType[*workload.UnknownEndpointError](err); ok {
		return workload.Token{}, &Failure{Step: stepJoin, Class: document.Wait, Reason: infrav1.ReasonEndpointUnknown, Err: unknown}
	}
	if err != nil {
		return workload.Token{}, err
	}
	if err := p.r.dropToken(ctx, p.machine); err != nil {
		return workload.Token{}, err
	}
	now := p.r.Clock.Now()
	token, err := workload.NewToken(now)
	if err != nil {
		return workload.Token{}, err
	}
	if err := p.r.patchStaged(ctx, p.machine, map[string]*string{host.KeyTokenID: ptr.To(token.ID)}); err != nil {
		return workload.Token{}, err
	}
	if err := workload.CreateToken(ctx, p.r.Client, token, "macfleet "+p.machine.String()); err != nil {
		return workload.Token{}, err
	}
	desired.Join = &document.Join{
		Server: endpoint.Server, CA: endpoint.CA, Token: token.Reveal(),
		Permit: document.JoinPermit{ID: uuid.NewString(), NotAfter: token.Expires.UTC().Truncate(time.Second)},
	}
	return token, nil
}

// delivered notes until when the Mac can use its token. Where another manager
// has replaced the token meanwhile, nobody knows which one the Mac holds.
func (p push) delivered(ctx context.Context, token workload.Token) error {
	if token.ID == "" {
		return nil
	}
	s, err := p.r.readStaged(ctx, p.machine)
	if err != nil {
		return err
	}
	if s.tokenID != token.ID {
		return &Failure{Step: stepJoin, Class: document.Retry, Err: errors.New("the bootstrap token was replaced meanwhile")}
	}
	return p.r.patchStaged(ctx, p.machine, map[string]*string{keyTokenExpiry: ptr.To(token.Expires.UTC().Format(time.RFC3339))})
}

// revoke ends a token that was not delivered, even when the job was cancelled.
// What fails here is made up for by the next push or the token's end.
func (p push) revoke(ctx context.Context, token workload.Token) {
	if token.ID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	_ = p.r.dropToken(ctx, p.machine)
}

// dropToken ends the token that <machine>-bootstrap remembers, if any.
func (r *Reconciler) dropToken(ctx context.Context, machine client.ObjectKey) error {
	s, err := r.readStaged(ctx, machine)
	if err != nil || s.tokenID == "" {
		return err
	}
	if err := workload.DeleteToken(ctx, r.Client, s.tokenID); err != nil {
		return err
	}
	err = r.patchStaged(ctx, machine, map[string]*string{host.KeyTokenID: nil, keyTokenExpiry: nil})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forgetting a bootstrap token: %w", err)
	}
	return nil
}

// unstage takes back what is staged for a claim that ends while its Machine lives:
// the token, and the mirror of a host's record, which the next host must not get.
func (r *Reconciler) unstage(ctx context.Context, machine client.ObjectKey) error {
	if err := r.dropToken(ctx, machine); err != nil {
		return err
	}
	s, err := r.readStaged(ctx, machine)
	if err != nil || (s.hostKey == "" && s.attempts == "" && s.failures == "") {
		return err
	}
	err = r.patchStaged(ctx, machine, map[string]*string{host.KeyHostKey: nil, host.KeyPasswordAttempts: nil, keyFailures: nil})
	return client.IgnoreNotFound(err)
}
