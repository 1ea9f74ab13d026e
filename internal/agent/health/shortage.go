package health

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

// Shortage is something that the host has too little of, so that Pods have to go.
type Shortage struct {
	Resource corev1.ResourceName
	// Threshold and Available are amounts for people, as a kubelet writes them.
	Threshold, Available string
}

func bytes(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// Memory is short where macOS itself says that the pressure is critical: no amount of
// free memory tells that of a system which compresses and swaps.
type Memory struct {
	Read func() (hostos.Pressure, error)
	// Available bytes, for people.
	Available func(ctx context.Context) (int64, error)
}

// Short asks the kernel now.
func (m Memory) Short(ctx context.Context) ([]Shortage, error) {
	p, err := m.Read()
	if err != nil || !p.MemoryCritical {
		return nil, err
	}
	available := "unknown"
	if free, err := m.Available(ctx); err == nil {
		available = bytes(max(0, free))
	}
	return []Shortage{{corev1.ResourceMemory, "critical memory pressure", available}}, nil
}

// transition is how long a pressure is shown after it was last seen: a kubelet's default.
// Pods would come at once else, and go again.
const transition = 5 * time.Minute

// Lasting is a pressure that is shown for five minutes after it was last seen.
func Lasting(c Check, now func() time.Time) Check {
	l := &lasting{look: c.Look, now: now}
	c.Look = l.again
	return c
}

type lasting struct {
	look func(context.Context) (Finding, error)
	now  func() time.Time
	// seen is when there was a pressure last, and last what it was.
	seen time.Time
	last Finding
}

// again is never called twice at once: a monitor waits for a check to come back.
func (l *lasting) again(ctx context.Context) (Finding, error) {
	f, err := l.look(ctx)
	now := l.now()
	switch {
	case err == nil && f.Status == corev1.ConditionTrue:
		l.seen, l.last = now, f
	case !l.seen.IsZero() && now.Sub(l.seen) < transition:
		f = l.last
		f.Message = fmt.Sprintf("last seen at %s; the Node says so for %s after that", l.seen.UTC().Format(time.RFC3339), transition)
		return f, nil
	}
	return f, err
}
