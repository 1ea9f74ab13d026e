// Package hostclaim changes Hosts for the Machine whose claim they carry: each write
// follows an uncached read that shows the claim, and carries its resourceVersion.
package hostclaim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/requeue"
)

// ErrGone says that the host does not carry the claim (any more).
var ErrGone = errors.New("the host does not carry this Machine's claim")

// Ref is a claim and the Host that it is on; the zero value is none.
type Ref struct {
	Host  string
	Claim infrav1.ClaimReference
}

// RefOf is the claim that the Machine's hostRef means, if it has one.
func RefOf(m *infrav1.ScalewayAppleSiliconMachine) Ref {
	if m.Spec.HostRef == nil {
		return Ref{}
	}
	return Ref{m.Spec.HostRef.Name, host.ClaimOf(m)}
}

// Hosts are the Hosts of the management cluster.
type Hosts struct {
	Client client.Client
	// Reader reads uncached.
	Reader client.Reader
}

// Amend changes the Host of a claim, under its resourceVersion and on an uncached
// read. A change that returns false writes nothing.
func (s Hosts) Amend(ctx context.Context, ref Ref, change func(*host.Host) bool) (*host.Host, error) {
	h := &host.Host{}
	err := requeue.Retry(func() error { return s.amendOnce(ctx, h, ref, change) })
	if err != nil {
		return nil, fmt.Errorf("recording on host %s: %w", ref.Host, err)
	}
	return h, nil
}

func (s Hosts) amendOnce(ctx context.Context, h *host.Host, ref Ref, change func(*host.Host) bool) error {
	if err := s.Reader.Get(ctx, client.ObjectKey{Name: ref.Host}, h); err != nil {
		return err
	}
	if !host.Holds(h, ref.Claim) {
		return ErrGone
	}
	if !change(h) {
		return nil
	}
	return s.Client.Update(ctx, h)
}

// End takes a claim off its Host, if it is there, and records that nothing was
// wiped. A released claim is the host controller's to end.
func (s Hosts) End(ctx context.Context, ref Ref, now time.Time) error {
	h := &host.Host{}
	if err := s.Reader.Get(ctx, client.ObjectKey{Name: ref.Host}, h); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !host.Carries(h, ref.Claim) || host.Ending(h) {
		return nil
	}
	host.Detach(h, now)
	if err := s.Client.Update(ctx, h); err != nil {
		return fmt.Errorf("ending the claim of host %s: %w", ref.Host, err)
	}
	return nil
}

// TokenID is the bootstrap token that the Host of a claim may join with, read
// uncached; empty without one, and where the Host does not carry the claim.
func (s Hosts) TokenID(ctx context.Context, ref Ref) (string, error) {
	if ref.Host == "" {
		return "", nil
	}
	h := &host.Host{}
	if err := s.Reader.Get(ctx, client.ObjectKey{Name: ref.Host}, h); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return "", nil
		}
		return "", fmt.Errorf("reading host %s: %w", ref.Host, err)
	}
	if !host.Holds(h, ref.Claim) {
		return "", nil
	}
	return h.Spec.Record.Bootstrap.TokenID, nil
}
