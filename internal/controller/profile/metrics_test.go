package profile

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// An increase is seen of a series that was there before.
func TestTurnsAreCountedFromZero(t *testing.T) {
	if n := testutil.CollectAndCount(newMetrics().turns); n != 2 {
		t.Errorf("%d kinds of turns before the first one, want both", n)
	}
}
