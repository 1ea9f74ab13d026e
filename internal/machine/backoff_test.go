package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
)

// start is when the tests' clocks start.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func TestBackOffDoublesUpToFiveMinutes(t *testing.T) {
	key := types.NamespacedName{Namespace: "fleet", Name: "mac-1"}
	for _, c := range []struct {
		class    document.Class
		attempts int32
		least    time.Duration
	}{
		{document.Retry, 1, 5 * time.Second},
		{document.Retry, 2, 10 * time.Second},
		{document.Reboot, 4, 40 * time.Second},
		{document.Wait, 4, 30 * time.Second},
		{document.Retry, 6, 160 * time.Second},
		{document.Retry, 7, 5 * time.Minute},
		{document.Retry, 1 << 30, 5 * time.Minute},
		{document.Human, 1, 30 * time.Minute},
		{document.Retry, 0, 5 * time.Minute},
	} {
		if got := Backoff(c.class, c.attempts, key); got < c.least || got > c.least*5/4 {
			t.Errorf("Backoff(%s, %d) = %s, want %s and up to a quarter more", c.class, c.attempts, got, c.least)
		}
	}
}

// Macs that were left at the same moment are not looked at together.
func TestChecksAreSpread(t *testing.T) {
	at := metav1.NewTime(start())
	seen := map[time.Time]bool{}
	for _, name := range []string{"mac-1", "mac-2", "mac-3", "mac-4"} {
		m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}}
		m.Status.Drift.CheckedAt = &at
		due := CheckDue(m, m.Status.Drift, 6*time.Hour)
		if wait := due.Sub(start()); wait < 4*time.Hour+30*time.Minute || wait > 6*time.Hour {
			t.Errorf("%s is looked at after %s", name, wait)
		}
		seen[due] = true
	}
	if len(seen) < 3 {
		t.Errorf("only %d moments for four Macs", len(seen))
	}
}
