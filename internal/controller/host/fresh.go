package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/host"
)

// fresh reads the host uncached, right before an act on the server. It returns
// nil unless this is still the object, the claim and the release, or none, that
// the pass works for.
func (p *pass) fresh(ctx context.Context) (*host.Host, error) {
	now := &host.Host{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.host), now); err != nil {
		return nil, fmt.Errorf("reading the claim again: %w", err)
	}
	released := p.host.Spec.Release != nil
	switch {
	case now.UID != p.host.UID, !host.Carries(now, *p.host.Spec.ClaimRef):
		return nil, nil
	case released != (now.Spec.Release != nil), released && !host.Licensed(now):
		return nil, nil
	case released && now.Spec.Release.Policy != p.host.Spec.Release.Policy:
		return nil, nil
	}
	return now, nil
}

// freshIdle is the same for a host that nobody has, whose adoption a person
// wishes: it still is so, and the wish is the same.
func (p *pass) freshIdle(ctx context.Context) (bool, error) {
	now := &host.Host{}
	if err := p.Reader.Get(ctx, client.ObjectKeyFromObject(p.host), now); err != nil {
		return false, fmt.Errorf("reading the host again: %w", err)
	}
	return now.UID == p.host.UID && now.Spec.ClaimRef == nil && now.Spec.Release == nil && now.Spec.Maintenance == nil &&
		equality.Semantic.DeepEqual(now.Spec.Adopt, p.host.Spec.Adopt), nil
}

// outdated: the reading that a rename is decided by is so old that a rename of
// another manager, begun after it, may have been read back already as settled.
func (p *pass) outdated() bool {
	return p.Clock.Since(p.began) > max(p.Settle-renameDeadline, p.Settle/2)
}

// asked remembers when the vendor acknowledged the reinstall of each host, or its
// deletion. It is lost with the process: then the request is repeated at once,
// which costs a second wipe at most.
type asked struct {
	mu sync.Mutex
	at map[types.UID]acknowledged
}

type acknowledged struct {
	generation int64
	at         time.Time
}

func (a *asked) note(h *host.Host, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil {
		a.at = map[types.UID]acknowledged{}
	}
	a.at[h.UID] = acknowledged{h.Spec.Record.Wipe.Generation, now}
}

// lately: this very wipe was acknowledged too short a time ago to ask again.
func (a *asked) lately(h *host.Host, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.at[h.UID]
	return known && last.generation == h.Spec.Record.Wipe.Generation && now.Before(last.at.Add(host.RepeatWipe))
}

// forget drops a host whose wipe was seen to start, or that is removed.
func (a *asked) forget(h *host.Host) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.at, h.UID)
}
