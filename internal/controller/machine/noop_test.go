package machine

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkNoOp is a visit to a Machine that runs. Its client is in memory, and
// slower than a cache: it copies through JSON.
func BenchmarkNoOp(b *testing.B) {
	w := newWorld(b, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	written := w.countWrites()
	times := make([]time.Duration, 0, 1<<16)
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		w.visit("mac-1")
		times = append(times, time.Since(began))
	}
	if w.countWrites() != written {
		b.Fatalf("%d writes", w.countWrites()-written)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns/op")
}
