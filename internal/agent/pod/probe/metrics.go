package probe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Labels name a container.
type Labels struct{ Container, Pod, Namespace, UID string }

// Metrics counts the probes of a node, under a kubelet's names. Its zero value is ready; a
// nil one counts nothing.
type Metrics struct {
	mu    sync.Mutex
	count map[series]*counts
}

// series is one probe of one container.
type series struct {
	Labels
	kind Kind
}

// counts of one series. Only the time of probes that succeeded is kept, as failures take
// what the timeout says.
type counts struct {
	succeeded, failed uint64
	buckets           [11]uint64
	seconds           float64
}

// bounds of the buckets in seconds: those that Prometheus' clients have by default.
func bounds() [11]float64 { return [11]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10} }

func (m *Metrics) add(l Labels, kind Kind, healthy bool, took time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count == nil {
		m.count = map[series]*counts{}
	}
	c := m.count[series{l, kind}]
	if c == nil {
		c = &counts{}
		m.count[series{l, kind}] = c
	}
	if !healthy {
		c.failed++
		return
	}
	c.succeeded++
	c.seconds += took.Seconds()
	for i, bound := range bounds() {
		if took.Seconds() <= bound {
			c.buckets[i]++
		}
	}
}

// Forget drops what was counted of a Pod.
func (m *Metrics) Forget(uid string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.count, func(s series, _ *counts) bool { return s.UID == uid })
}

// Text is all counts in Prometheus' text format.
func (m *Metrics) Text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := []byte("# HELP prober_probe_total Probes of containers by their result.\n# TYPE prober_probe_total counter\n")
	for _, s := range slices.SortedFunc(maps.Keys(m.count), series.compare) {
		text = m.count[s].appendTotals(text, s)
	}
	text = append(text, "# HELP prober_probe_duration_seconds How long probes took that succeeded.\n# TYPE prober_probe_duration_seconds histogram\n"...)
	names := m.byName()
	for _, s := range slices.SortedFunc(maps.Keys(names), series.compare) {
		text = names[s].appendDurations(text, s)
	}
	return string(text)
}

// byName adds up Pods that had one name, one after the other: durations are counted without
// the UID.
func (m *Metrics) byName() map[series]counts {
	names := map[series]counts{}
	for s, c := range m.count {
		s.UID = ""
		sum := names[s]
		sum.succeeded += c.succeeded
		sum.seconds += c.seconds
		for i := range sum.buckets {
			sum.buckets[i] += c.buckets[i]
		}
		names[s] = sum
	}
	return names
}

func (s series) compare(o series) int {
	return cmp.Or(cmp.Compare(s.Namespace, o.Namespace), cmp.Compare(s.Pod, o.Pod), cmp.Compare(s.UID, o.UID),
		cmp.Compare(s.Container, o.Container), cmp.Compare(s.kind, o.kind))
}

func (c counts) appendTotals(text []byte, s series) []byte {
	for _, r := range []struct {
		name  string
		count uint64
	}{{"successful", c.succeeded}, {"failed", c.failed}} {
		if r.count > 0 {
			text = fmt.Appendf(text, "prober_probe_total{container=%q,namespace=%q,pod=%q,pod_uid=%q,probe_type=%q,result=%q} %d\n",
				s.Container, s.Namespace, s.Pod, s.UID, s.kind, r.name, r.count)
		}
	}
	return text
}

func (c counts) appendDurations(text []byte, s series) []byte {
	if c.succeeded == 0 {
		return text
	}
	labels := fmt.Sprintf("container=%q,namespace=%q,pod=%q,probe_type=%q", s.Container, s.Namespace, s.Pod, s.kind)
	for i, bound := range bounds() {
		text = fmt.Appendf(text, "prober_probe_duration_seconds_bucket{%s,le=%q} %d\n", labels, strconv.FormatFloat(bound, 'g', -1, 64), c.buckets[i])
	}
	return fmt.Appendf(text, "prober_probe_duration_seconds_bucket{%s,le=\"+Inf\"} %d\nprober_probe_duration_seconds_sum{%s} %g\nprober_probe_duration_seconds_count{%s} %d\n",
		labels, c.succeeded, labels, c.seconds, labels, c.succeeded)
}
