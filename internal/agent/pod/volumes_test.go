package pod

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

// A volume that fails is tried again ever later. The others are renewed when they are due.
func TestVolumesAreRenewedWhenDueBesideOneThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		due         time.Duration
		least, most int
	}{
		"a token is due each minute": {time.Minute, 30, 34},
		"nothing is due":             {0, 9, 11},
		"a token is due in an hour":  {time.Hour, 9, 11},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, events := newFakeInputs(), &eventLog{}
				source.refreshErr, source.refreshIn = errors.Join(errors.New("volume a: away"), errors.New("volume b: away")), c.due
				p := newObject(podtest.OnMac("a", corev1.RestartPolicyNever), clock.RealClock{})
				i := &podInputs{source: source, pod: p, report: &reporter{pod: p, events: events}, clock: p.clock, log: slog.New(slog.DiscardHandler)}
				ctx, end := context.WithTimeout(t.Context(), 30*time.Minute)
				defer end()
				i.refreshVolumes(ctx, nil, func(why string) { t.Errorf("evicted: %s", why) })
				if n := source.refreshed(); n < c.least || n > c.most {
					t.Errorf("renewed %d times in half an hour, want %d to %d", n, c.least, c.most)
				}
				want := []string{"a Failed Volumes were not renewed, the guest goes on with what it has: volume a: away; volume b: away"}
				if d := cmp.Diff(want, events.all()); d != "" {
					t.Errorf("events (-want +got):\n%s", d)
				}
			})
		})
	}
}
