package host

import (
	"slices"
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// BenchmarkNoOp is a pass over a claimed host that has nothing to do. Its client is
// in memory, and slower than a cache: it copies through JSON.
func BenchmarkNoOp(b *testing.B) {
	w := worldOf(b)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	w.untilPhase(infrav1.HostInUse)
	written := w.written()
	times := make([]time.Duration, 0, 1<<16)
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		if _, err := w.reconcile(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	if w.written() != written {
		b.Fatalf("%d writes", w.written()-written)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns/op")
}
