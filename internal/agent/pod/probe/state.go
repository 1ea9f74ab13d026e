package probe

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kind of probe, as events name it.
type Kind string

// The kinds of probes.
const (
	Startup   Kind = "Startup"
	Liveness  Kind = "Liveness"
	Readiness Kind = "Readiness"
)

// Status is what probes say of a container that runs.
type Status struct{ Started, Ready bool }

// Initial is the status of a container that has just begun.
func Initial(c corev1.Container) Status {
	return Status{Started: c.StartupProbe == nil, Ready: c.StartupProbe == nil && c.ReadinessProbe == nil}
}

// Any reports that a container has a probe.
func Any(c corev1.Container) bool {
	return c.StartupProbe != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil
}

// Grace is the terminationGracePeriodSeconds of the probe that failed; nil: the Pod's.
func Grace(c corev1.Container, failed Kind) *int64 {
	for kind, spec := range of(c) {
		if kind == failed && spec != nil {
			return spec.TerminationGracePeriodSeconds
		}
	}
	return nil
}

func of(c corev1.Container) iter.Seq2[Kind, *corev1.Probe] {
	return func(yield func(Kind, *corev1.Probe) bool) {
		_ = yield(Startup, c.StartupProbe) && yield(Liveness, c.LivenessProbe) && yield(Readiness, c.ReadinessProbe)
	}
}

// tally counts the results of one probe in a row.
type tally struct {
	last bool
	run  int32
}

// add counts one more result, and reports whether there are enough of it in a row.
func (t tally) add(healthy bool, spec *corev1.Probe) (tally, bool) {
	if t.run == 0 || t.last != healthy {
		t = tally{last: healthy}
	}
	threshold := spec.FailureThreshold
	if healthy {
		threshold = spec.SuccessThreshold
	}
	// More than the threshold is the threshold, whatever number a container lives to see.
	t.run = min(t.run+1, max(threshold, 1))
	return t, t.run >= threshold
}

// conclusion is the status after a probe has decided. failed: the container is to be
// killed. done: the probe has no more to say on this run of the container.
func conclusion(s Status, kind Kind, healthy, readiness bool) (next Status, failed, done bool) {
	switch {
	case kind == Readiness:
		s.Ready = healthy
		return s, false, false
	case !healthy:
		return s, true, true
	case kind == Startup:
		return Status{Started: true, Ready: !readiness}, false, true
	}
	return s, false, false
}

// firstDue is when a container is probed first.
func firstDue(begun time.Time, spec *corev1.Probe) time.Time {
	return begun.Add(time.Duration(spec.InitialDelaySeconds) * time.Second)
}

// The API server sets these where a Pod does not.
const (
	defaultPeriod  = 10
	defaultTimeout = 1
)

func period(spec *corev1.Probe) time.Duration { return seconds(spec.PeriodSeconds, defaultPeriod) }

func timeout(spec *corev1.Probe) time.Duration { return seconds(spec.TimeoutSeconds, defaultTimeout) }

func seconds(n, otherwise int32) time.Duration {
	if n <= 0 {
		n = otherwise
	}
	return time.Duration(n) * time.Second
}
