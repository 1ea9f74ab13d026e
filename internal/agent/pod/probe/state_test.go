package probe

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestAProbeDecidesByResultsInARow: + and - are results, each upper-case letter of want
// says what is decided by then: H healthy, U unhealthy, . nothing.
func TestAProbeDecidesByResultsInARow(t *testing.T) {
	for _, c := range []struct {
		name             string
		success, failure int32
		results, want    string
	}{
		{"defaults", 1, 3, "---", "..U"},
		{"a success between failures begins anew", 1, 3, "--+--+---", "..H..H..U"},
		{"the first failure counts", 1, 1, "+-+", "HUH"},
		{"several successes", 3, 1, "++-+++", "..U..H"},
		{"it goes on to say so", 1, 2, "----", ".UUU"},
		{"thresholds that are not set", 0, 0, "+-", "HU"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := &corev1.Probe{SuccessThreshold: c.success, FailureThreshold: c.failure}
			var got strings.Builder
			var count tally
			for _, r := range c.results {
				var decided bool
				count, decided = count.add(r == '+', spec)
				switch {
				case !decided:
					got.WriteByte('.')
				case count.last:
					got.WriteByte('H')
				default:
					got.WriteByte('U')
				}
			}
			if got.String() != c.want {
				t.Errorf("got %s, want %s", got.String(), c.want)
			}
		})
	}
}

func TestConclusions(t *testing.T) {
	up, ready := Status{Started: true}, Status{Started: true, Ready: true}
	for _, c := range []struct {
		name      string
		from      Status
		kind      Kind
		healthy   bool
		readiness bool
		next      Status
		failed    bool
		done      bool
	}{
		{"it has started", Status{}, Startup, true, false, ready, false, true},
		{"it has started, and readiness is another matter", Status{}, Startup, true, true, up, false, true},
		{"it does not start", Status{}, Startup, false, true, Status{}, true, true},
		{"it is ready", up, Readiness, true, true, ready, false, false},
		{"it is ready no more", ready, Readiness, false, true, up, false, false},
		{"it is alive", up, Liveness, true, true, up, false, false},
		{"it is dead", ready, Liveness, false, true, ready, true, true},
	} {
		next, failed, done := conclusion(c.from, c.kind, c.healthy, c.readiness)
		if next != c.next || failed != c.failed || done != c.done {
			t.Errorf("%s: %+v, failed %v, done %v", c.name, next, failed, done)
		}
	}
}

func TestInitialStatus(t *testing.T) {
	p := &corev1.Probe{}
	for _, c := range []struct {
		container corev1.Container
		want      Status
	}{
		{corev1.Container{}, Status{Started: true, Ready: true}},
		{corev1.Container{LivenessProbe: p}, Status{Started: true, Ready: true}},
		{corev1.Container{ReadinessProbe: p}, Status{Started: true}},
		{corev1.Container{StartupProbe: p}, Status{}},
	} {
		if got := Initial(c.container); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.container, got, c.want)
		}
	}
}

func TestGraceIsThatOfTheProbeThatFailed(t *testing.T) {
	c := corev1.Container{
		StartupProbe:  &corev1.Probe{TerminationGracePeriodSeconds: ptr.To(int64(5))},
		LivenessProbe: &corev1.Probe{},
	}
	if g := Grace(c, Startup); g == nil || *g != 5 {
		t.Errorf("startup: %v", g)
	}
	for _, kind := range []Kind{Liveness, Readiness} {
		if g := Grace(c, kind); g != nil {
			t.Errorf("%s: %d", kind, *g)
		}
	}
}

func TestTimesHaveDefaults(t *testing.T) {
	if period(&corev1.Probe{}) != 10*time.Second || timeout(&corev1.Probe{}) != time.Second {
		t.Error("the API's defaults are 10 s and 1 s")
	}
	if period(&corev1.Probe{PeriodSeconds: 3}) != 3*time.Second || timeout(&corev1.Probe{TimeoutSeconds: 4}) != 4*time.Second {
		t.Error("what the Pod says does not count")
	}
}
