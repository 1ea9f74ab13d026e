package pod

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// Holder is a Pod that holds something of the host.
type Holder struct {
	// Pod with the status that the agent last rendered.
	Pod *corev1.Pod
	// VMDir has the files of its VM; empty: that is not made yet. CloneBytes is what they
	// took when they were cloned; 0: not known.
	VMDir      string
	CloneBytes int64
	// LogDir has what its commands print, and what the shim of its VM writes down.
	LogDir string
	// Runs: its VM was seen running. Ended: that has ended, and the Pod waits for its next
	// one: its volumes and its logs are all that it has.
	Runs, Ended bool
}

// Holders are the Pods that have a VM, or are about to, and whose end has not begun, the
// oldest first.
func (s *Supervisor) Holders() []Holder {
	return s.holders(func(j *job) bool { return j.worker.life.Err() == nil })
}

// Guests are the Pods whose VM runs, also while they end, the oldest first.
func (s *Supervisor) Guests() []Holder {
	return slices.DeleteFunc(s.holders(func(j *job) bool { return !j.isFreed() }), func(h Holder) bool { return !h.Runs })
}

func (s *Supervisor) holders(counts func(*job) bool) []Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Holder
	for _, j := range s.workers {
		if !counts(j) {
			continue
		}
		if h := j.worker.locator.holds(); h != nil {
			list = append(list, *h)
		}
	}
	slices.SortFunc(list, func(a, b Holder) int { return a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time) })
	return list
}

// holds returns nil for a Pod that holds nothing.
func (l *locator) holds() *Holder {
	r := l.progress.published.Load()
	if r == nil || r.Step == "" {
		return nil
	}
	h := &Holder{Pod: l.rendered(), Runs: r.Step == state.StepRunning, Ended: r.Step == state.StepEnded}
	if r.Step != state.StepCreating {
		h.LogDir = l.checkpoints.AttemptDir(r.UID, r.Attempt)
	}
	if r.MayRun() {
		h.VMDir, h.CloneBytes = l.runtime.Dir(r.VMName()), r.CloneBytes
	}
	return h
}

// FreeLogs removes the logs of Pods that have ended and hold nothing else of the host, the
// oldest Pod first, until it is enough. A kubelet removes dead containers with theirs.
func (s *Supervisor) FreeLogs(enough func() bool) error {
	var errs []error
	for _, w := range s.ended() {
		if enough() {
			break
		}
		errs = append(errs, s.checkpoints.DropAttempts(w.pod.uid, nil))
	}
	return errors.Join(errs...)
}

// ended are the workers of Pods of which nothing is left but the object, the oldest first.
func (s *Supervisor) ended() []*worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*worker
	for _, j := range s.workers {
		if j.isFreed() && state.HasEnded(j.worker.pod.current()) {
			list = append(list, j.worker)
		}
	}
	slices.SortFunc(list, func(a, b *worker) int {
		return a.pod.current().CreationTimestamp.Compare(b.pod.current().CreationTimestamp.Time)
	})
	return list
}

// Evict ends a Pod because its host is short of something, and returns what is closed once
// nothing of it is left; nil: it is gone, or ends already.
func (s *Supervisor) Evict(uid types.UID, message string) <-chan struct{} {
	s.mu.Lock()
	j := s.workers[uid]
	s.mu.Unlock()
	if j == nil || j.worker.life.Err() != nil {
		return nil
	}
	j.worker.evict(message)
	return j.worker.freed
}

// evict ends the life of a Pod whose volumes have outgrown their limits, or which has to
// go because its host is short of something.
func (w *worker) evict(why string) {
	w.log.Warn("Pod evicted", "why", why)
	w.report.event(corev1.EventTypeWarning, state.ReasonEvicted, why)
	w.endLife(&podFailedError{Failure: state.Failure{Reason: state.ReasonEvicted, Message: why}, grace: state.OrphanGrace, disrupted: true})
}
