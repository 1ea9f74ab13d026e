package eviction

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/health"
)

const (
	// period is how often a host under pressure is looked at, as by a kubelet.
	period = 10 * time.Second
	// stands is how long something must have been short before a Pod goes: a guest that
	// boots may take a lot for a moment, and a Pod is hours of work.
	stands = 10 * time.Second
	// cleanup is how long the next Pod waits for one that goes.
	cleanup = 30 * time.Second
	// freeAgain is how long a host that stays short of disk, and has no Pod to end, waits
	// for the next try to make room.
	freeAgain = 5 * time.Minute
)

// Options of New. All must be set but Clock and Log.
type Options struct {
	// Host is looked at closely while one of its conditions is a pressure.
	Host Host
	// Short reads what the host is short of now.
	Short func(context.Context) ([]health.Shortage, error)
	// Free removes what nobody needs: logs of Pods that have ended, and images.
	Free func(context.Context) error
	// Candidates are the Pods that hold some of a resource.
	Candidates func(context.Context, corev1.ResourceName) []Candidate
	// Evict ends a Pod, and returns what is closed once nothing of it is left; nil: it
	// ends already.
	Evict func(uid types.UID, message string) <-chan struct{}
	// Met is told once for each time that something has become short.
	Met   func(corev1.ResourceName)
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Host is what is found out about it, as package health does it.
type Host interface {
	Findings() []health.Finding
	Changed() <-chan struct{}
	LookAgain()
}

// Manager ends pressures.
type Manager struct {
	o Options
	// since is when something was first seen short that has been since.
	since map[corev1.ResourceName]time.Time
	freed time.Time
}

// New returns a manager; Run makes it work.
func New(o Options) *Manager {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Manager{o: o, since: map[corev1.ResourceName]time.Time{}}
}

// Run looks after the host until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := m.o.Host.Changed()
		if len(Pressures(m.o.Host.Findings())) == 0 {
			clear(m.since)
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		m.relieve(ctx)
		t := m.o.Clock.NewTimer(period)
		select {
		case <-ctx.Done():
		case <-t.C():
		}
		t.Stop()
	}
	return nil
}

// Pressures are the conditions for which a kubelet takes no Pods, and ends some.
func Pressures(found []health.Finding) []corev1.NodeConditionType {
	var list []corev1.NodeConditionType
	for _, f := range found {
		if f.Status == corev1.ConditionTrue && (f.Type == corev1.NodeDiskPressure || f.Type == corev1.NodeMemoryPressure || f.Type == corev1.NodePIDPressure) {
			list = append(list, f.Type)
		}
	}
	return list
}

// relieve does something about the first thing that is short and can be helped: it makes
// room, or ends one Pod.
func (m *Manager) relieve(ctx context.Context) {
	for _, s := range m.short(ctx) {
		if m.relieveOne(ctx, s) || ctx.Err() != nil {
			return
		}
	}
}

// relieveOne reports whether it has done something, so that all is to be read anew.
func (m *Manager) relieveOne(ctx context.Context, s health.Shortage) (done bool) {
	victim, found := choose(s.Resource, m.o.Candidates(ctx, s.Resource))
	if s.Resource == corev1.ResourceEphemeralStorage {
		if !found && m.o.Clock.Since(m.freed) < freeAgain {
			return false
		}
		m.free(ctx)
		m.o.Host.LookAgain()
		still := m.short(ctx)
		at := slices.IndexFunc(still, func(o health.Shortage) bool { return o.Resource == s.Resource })
		if at < 0 {
			return true
		}
		s = still[at]
	}
	if !found || ctx.Err() != nil || m.o.Clock.Since(m.since[s.Resource]) < stands {
		return false
	}
	m.evict(ctx, s, victim)
	m.o.Host.LookAgain()
	return true
}

// short is what has to be seen to, memory first, as with a kubelet.
func (m *Manager) short(ctx context.Context) []health.Shortage {
	found, err := m.o.Short(ctx)
	if err != nil && ctx.Err() == nil {
		m.o.Log.Warn("the host does not tell all that it is short of", "err", err)
	}
	var list []health.Shortage
	for _, r := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		at := slices.IndexFunc(found, func(s health.Shortage) bool { return s.Resource == r })
		if at < 0 {
			delete(m.since, r)
			continue
		}
		list = append(list, found[at])
		if _, known := m.since[r]; !known {
			m.since[r] = m.o.Clock.Now()
			m.o.Met(r)
		}
	}
	return list
}

func (m *Manager) free(ctx context.Context) {
	m.freed = m.o.Clock.Now()
	if err := m.o.Free(ctx); err != nil && ctx.Err() == nil {
		m.o.Log.Warn("making room on a host that is short of disk", "err", err)
	}
}

// evict ends a Pod, and waits for its end: what that frees may be enough.
func (m *Manager) evict(ctx context.Context, s health.Shortage, victim Candidate) {
	gone := m.o.Evict(victim.Pod.UID, message(s, victim))
	if gone == nil {
		return
	}
	delete(m.since, s.Resource)
	t := m.o.Clock.NewTimer(cleanup)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-gone:
	case <-t.C():
		m.o.Log.Warn("a Pod that was evicted is not gone yet", "pod", victim.Pod.Namespace+"/"+victim.Pod.Name)
	}
}
