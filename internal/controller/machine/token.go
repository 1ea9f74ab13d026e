package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// mint puts a one-hour token and a join permit into the document. The token's id is
// recorded before the token exists: on the Host, which says whose token it is, and in
// <machine>-bootstrap, so that the token of a Host that is lost is not forgotten.
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
	if err := p.r.dropToken(ctx, p.machine, p.ledger.on()); err != nil {
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
	if err := p.ledger.bind(ctx, token.ID); err != nil {
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
	bound, err := p.r.boundToken(ctx, p.ledger.on())
	if err != nil {
		return err
	}
	if s.tokenID != token.ID || bound != token.ID {
		// Another manager was faster: that says nothing of the Mac.
		return &Failure{Step: stepJoin, Class: document.Wait, Err: errors.New("the bootstrap token was replaced meanwhile")}
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
	_ = p.r.dropToken(ctx, p.machine, p.ledger.on())
}

// claimOn is a claim and the Host that it is on; the zero value is none.
type claimOn struct {
	host  string
	claim infrav1.ClaimReference
}

// on is the claim that the ledger is of.
func (l ledger) on() claimOn { return claimOn{l.host, l.claim} }

// meant is the claim that the Machine's hostRef means, if it has one.
func (v *visit) meant() claimOn {
	if v.machine.Spec.HostRef == nil {
		return claimOn{}
	}
	return claimOn{v.machine.Spec.HostRef.Name, host.ClaimOf(v.machine)}
}

// bind records on the host which token may be used to join as this claim's Node.
func (l ledger) bind(ctx context.Context, id string) error {
	h, err := l.r.amendHost(ctx, l.host, l.claim, func(h *host.Host) bool {
		if h.Spec.Release != nil {
			return false
		}
		h.Spec.Record.Bootstrap.TokenID = id
		return true
	})
	if err == nil && h.Spec.Record.Bootstrap.TokenID != id {
		err = fmt.Errorf("host %s is released and joins nothing", l.host)
	}
	return err
}

// boundToken is the token that the host of a claim may join with, read uncached;
// empty without one, and where the host does not carry the claim.
func (r *Reconciler) boundToken(ctx context.Context, on claimOn) (string, error) {
	if on.host == "" {
		return "", nil
	}
	h := &host.Host{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: on.host}, h); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return "", nil
		}
		return "", fmt.Errorf("reading host %s: %w", on.host, err)
	}
	if !host.Holds(h, on.claim) {
		return "", nil
	}
	return h.Spec.Record.Bootstrap.TokenID, nil
}

// dropToken ends the tokens that the claim's host and <machine>-bootstrap remember.
func (r *Reconciler) dropToken(ctx context.Context, machine client.ObjectKey, on claimOn) error {
	bound, err := r.boundToken(ctx, on)
	if err != nil {
		return err
	}
	s, err := r.readStaged(ctx, machine)
	if err != nil {
		return err
	}
	if err := r.endTokens(ctx, bound, s.tokenID); err != nil {
		return err
	}
	if bound != "" {
		_, err := r.amendHost(ctx, on.host, on.claim, func(h *host.Host) bool {
			is := h.Spec.Record.Bootstrap.TokenID == bound
			if is {
				h.Spec.Record.Bootstrap.TokenID = ""
			}
			return is
		})
		if client.IgnoreNotFound(err) != nil && !errors.Is(err, errClaimGone) {
			return err
		}
	}
	if s.tokenID == "" {
		return nil
	}
	err = r.patchStaged(ctx, machine, map[string]*string{host.KeyTokenID: nil, keyTokenExpiry: nil})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forgetting a bootstrap token: %w", err)
	}
	return nil
}

// endTokens deletes the token that is bound to the claim's host, and the one that
// the Secret remembers. Whoever writes the Secret must not end another Mac's token
// with it: one that is bound to a host is ended by that host's claim alone, and a
// refusal by the API server is no reason to wait.
func (r *Reconciler) endTokens(ctx context.Context, bound, remembered string) error {
	if bound != "" {
		if err := workload.DeleteToken(ctx, r.Client, bound); err != nil {
			return err
		}
	}
	if remembered == bound || !workload.IsTokenID(remembered) {
		return nil
	}
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := r.Reader.List(ctx, hosts); err != nil {
		return fmt.Errorf("listing hosts: %w", err)
	}
	for i := range hosts.Items {
		if hosts.Items[i].Spec.Record.Bootstrap.TokenID == remembered {
			return nil
		}
	}
	err := workload.DeleteToken(ctx, r.Client, remembered)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return nil // by the policy of the chart: it is no token of ours
	}
	return err
}

// unstage takes back what is staged for a claim that ends while its Machine lives:
// the token, and the mirror of a host's record, which the next host must not get.
func (r *Reconciler) unstage(ctx context.Context, machine client.ObjectKey, on claimOn) error {
	if err := r.dropToken(ctx, machine, on); err != nil {
		return err
	}
	s, err := r.readStaged(ctx, machine)
	if err != nil || (s.hostKey == "" && s.hardware == "" && s.attempts == "" && s.failures == "") {
		return err
	}
	err = r.patchStaged(ctx, machine, map[string]*string{host.KeyHostKey: nil, host.KeyHardware: nil, host.KeyPasswordAttempts: nil, keyFailures: nil})
	return client.IgnoreNotFound(err)
}
