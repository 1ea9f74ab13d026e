package profile

import (
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/rollout"
)

// The next leader's clock is not that of the one who saw the canary's proof.
func TestTheCanarySoaksByTheClockOfWhoLeads(t *testing.T) {
	for _, ahead := range []time.Duration{-10 * time.Minute, -30 * time.Second, 30 * time.Second, 10 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			w := newWorld(t, append(three("old"), builders())...)
			w.visit("builders")
			w.prove("a", revision())
			clock := clocktesting.NewFakePassiveClock(w.clock.Now().Add(ahead))
			o := w.r.Options
			o.Clock = clock
			w.r = New(o)
			for range 2 {
				w.visit("builders")
			}
			if got := w.turns(); !slices.Equal(got, []string{"a"}) {
				t.Fatalf("it is the turn of %q before the canary has soaked", got)
			}
			clock.SetTime(clock.Now().Add(rollout.DefaultSoak))
			w.visit("builders")
			if got := w.turns(); !slices.Equal(got, []string{"b"}) {
				t.Errorf("it is the turn of %q after the soak", got)
			}
		})
	}
}
