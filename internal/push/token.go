package push

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/workload"
)

// Tokens are the bootstrap tokens that Macs join with.
type Tokens struct {
	Client client.Client
	// Reader reads uncached.
	Reader  client.Reader
	Hosts   hostclaim.Hosts
	Secrets bootstrapsecret.Secrets
	// Discovery finds the API server's address for Macs.
	Discovery workload.Discovery
	Clock     clock.PassiveClock
}

// mint makes a one-hour token and a join permit. The token's id is recorded before the
// token exists: on the Host, which says whose token it is, and in <machine>-bootstrap,
// so that the token of a Host that is lost is not forgotten.
func (t *Tokens) mint(ctx context.Context, machine client.ObjectKey, claim hostclaim.Ref) (workload.Token, *document.Join, error) {
	endpoint, err := t.Discovery.Endpoint(ctx)
	if unknown, ok := errors.AsType[*workload.UnknownEndpointError](err); ok {
		return workload.Token{}, nil, &Failure{Step: StepJoin, Class: document.Wait, Reason: infrav1.ReasonEndpointUnknown, Err: unknown}
	}
	if err != nil {
		return workload.Token{}, nil, err
	}
	if err := t.End(ctx, machine, claim); err != nil {
		return workload.Token{}, nil, err
	}
	token, err := workload.NewToken(t.Clock.Now())
	if err != nil {
		return workload.Token{}, nil, err
	}
	if err := t.Secrets.Patch(ctx, machine, map[string]*string{host.KeyTokenID: ptr.To(token.ID)}); err != nil {
		return workload.Token{}, nil, err
	}
	if err := t.bind(ctx, claim, token.ID); err != nil {
		return workload.Token{}, nil, err
	}
	if err := workload.CreateToken(ctx, t.Client, token, "macfleet "+machine.String()); err != nil {
		return workload.Token{}, nil, err
	}
	return token, &document.Join{
		Server: endpoint.Server, CA: endpoint.CA, Token: token.Reveal(),
		Permit: document.JoinPermit{ID: uuid.NewString(), NotAfter: token.Expires.UTC().Truncate(time.Second)},
	}, nil
}

// recordDelivery notes until when the Mac can use its token. Where another manager
// has replaced the token meanwhile, nobody knows which one the Mac holds.
func (t *Tokens) recordDelivery(ctx context.Context, machine client.ObjectKey, claim hostclaim.Ref, token workload.Token) error {
	secret, err := t.Secrets.Read(ctx, machine)
	if err != nil {
		return err
	}
	bound, err := t.Hosts.TokenID(ctx, claim)
	if err != nil {
		return err
	}
	if secret.TokenID != token.ID || bound != token.ID {
		// Another manager was faster: that says nothing of the Mac.
		return &Failure{Step: StepJoin, Class: document.Wait, Err: errors.New("the bootstrap token was replaced meanwhile")}
	}
	return t.Secrets.Patch(ctx, machine, map[string]*string{bootstrapsecret.KeyTokenExpiry: ptr.To(token.Expires.UTC().Format(time.RFC3339))})
}

// bind records on the host which token may be used to join as this claim's Node.
func (t *Tokens) bind(ctx context.Context, claim hostclaim.Ref, id string) error {
	h, err := t.Hosts.Amend(ctx, claim, func(h *host.Host) bool {
		if h.Spec.Release != nil {
			return false
		}
		h.Spec.Record.Bootstrap.TokenID = id
		return true
	})
	if err == nil && h.Spec.Record.Bootstrap.TokenID != id {
		err = &Failure{Step: StepJoin, Class: document.Wait, Err: fmt.Errorf("host %s is released and joins nothing", claim.Host)}
	}
	return err
}

// End ends the tokens that the claim's host and <machine>-bootstrap remember.
func (t *Tokens) End(ctx context.Context, machine client.ObjectKey, claim hostclaim.Ref) error {
	bound, err := t.Hosts.TokenID(ctx, claim)
	if err != nil {
		return err
	}
	secret, err := t.Secrets.Read(ctx, machine)
	if err != nil {
		return err
	}
	if err := t.delete(ctx, bound, secret.TokenID); err != nil {
		return err
	}
	if bound != "" {
		_, err := t.Hosts.Amend(ctx, claim, func(h *host.Host) bool {
			is := h.Spec.Record.Bootstrap.TokenID == bound
			if is {
				h.Spec.Record.Bootstrap.TokenID = ""
			}
			return is
		})
		if client.IgnoreNotFound(err) != nil && !errors.Is(err, hostclaim.ErrGone) {
			return err
		}
	}
	if secret.TokenID == "" {
		return nil
	}
	err = t.Secrets.Patch(ctx, machine, map[string]*string{host.KeyTokenID: nil, bootstrapsecret.KeyTokenExpiry: nil})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forgetting a bootstrap token: %w", err)
	}
	return nil
}

// delete ends the token that is bound to the claim's host, and the one that the Secret
// remembers. Whoever writes the Secret must not end another Mac's token with it: one
// that is bound to a claimed host is ended by that claim alone, and a refusal by the API
// server is no reason to wait. A host that was detached remembers its own still.
func (t *Tokens) delete(ctx context.Context, bound, remembered string) error {
	if bound != "" {
		if err := workload.DeleteToken(ctx, t.Client, bound); err != nil {
			return err
		}
	}
	if remembered == bound || !workload.IsTokenID(remembered) {
		return nil
	}
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := t.Reader.List(ctx, hosts); err != nil {
		return fmt.Errorf("listing hosts: %w", err)
	}
	for i := range hosts.Items {
		if h := hosts.Items[i]; h.Spec.ClaimRef != nil && h.Spec.Record.Bootstrap.TokenID == remembered {
			return nil
		}
	}
	err := workload.DeleteToken(ctx, t.Client, remembered)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return nil // by the policy of the chart: it is no token of ours
	}
	return err
}
