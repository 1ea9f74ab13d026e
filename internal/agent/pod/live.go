package pod

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// live is a Pod from admission to the end of its last machine, which it returns;
// nil when its life ends before, or it needs nothing.
func (w *worker) live(ctx context.Context) *view {
	p := w.current()
	if ctx.Err() != nil || hasEnded(p) {
		return nil
	}
	m, why, err := w.find(ctx, p)
	if err != nil {
		return nil
	}
	// What was taken once stays taken, whatever a later agent or profile allows.
	if m == moveBegin && w.rec.Step == "" && !w.ran {
		if no := w.admit(ctx, p); no != nil {
			return w.refuse(ctx, *no)
		}
	}
	w.inputs.Hold(p)
	w.beside.Go(func() { w.keepDeadline(ctx) })
	w.beside.Go(func() { w.refuseEphemeral(ctx) })
	return w.cycle(ctx, m, why)
}

// admit says why this node does not take a Pod that has not begun; nil: it does.
func (w *worker) admit(ctx context.Context, p *corev1.Pod) *refusal {
	if fields := Unsupported(p); len(fields) > 0 {
		return &refusal{reasonUnsupported, "This node runs a Pod as one macOS VM and cannot honour: " + strings.Join(fields, ", ")}
	}
	return w.host.Refuse(ctx, p)
}

// refuse fails the Pod for good; there is nothing to stop. One that is made anew at
// once, without end, waits with the same words before: no Mac is better for it.
func (w *worker) refuse(ctx context.Context, r refusal) *view {
	w.log.Info("Pod refused", "reason", r.Reason, "message", r.Message)
	w.event(corev1.EventTypeWarning, r.Reason, r.Message)
	if r.Reason == reasonUnsupported && madeAnew(w.current()) {
		w.waiting(r.Reason, r.Message)
		if !wait(ctx, w.clock, refusedPause) {
			return nil
		}
	}
	return &view{Refused: &r}
}

// refusedPause is how long a Pod that is made anew holds its place on a Mac after it
// was refused, so that its controller makes two a Mac in this time and not hundreds.
const refusedPause = 30 * time.Second

// madeAnew reports that the Pod's controller counts no failures, as a Job's does.
func madeAnew(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind != "Job"
}

// cycle runs machine after machine until the restart policy says stop.
func (w *worker) cycle(ctx context.Context, m move, why string) *view {
	for {
		e, err := w.take(ctx, m, why)
		if err != nil {
			return nil // deleted, over, or the agent stops
		}
		if m != moveEnded {
			w.remember(e)
		}
		if e.Reason == reasonLimited && m != moveEnded && m != moveRead {
			w.noteLimit(ctx)
		}
		if !e.Unstarted && !e.Replaced && !restarts(w.current().Spec.RestartPolicy, e) {
			v := viewOf(w.current(), w.rec, w.began, corev1.ContainerStateWaiting{Reason: w.patient()})
			v.Final = &e
			return &v
		}
		if !w.prepareRestart(ctx, e) {
			return nil
		}
		m = moveBegin
	}
}

// take makes one move, which ends an attempt.
func (w *worker) take(ctx context.Context, m move, why string) (end, error) {
	switch m {
	case moveAdopt:
		return w.neverBegan(w.adopt(ctx))
	case moveRead, moveLost:
		e := w.readEnd(why)
		// Without a journal, nobody knows whether this is the attempt that ran.
		e.Unstarted = e.Unstarted && (!w.traced || !w.ran)
		return e, nil
	case moveEnded:
		return w.rec.outcome(), nil
	}
	return w.neverBegan(w.attempt(ctx))
}

// neverBegan is e, but for the end of a shim that went before it wrote that it would
// begin: then nothing has run.
func (w *worker) neverBegan(e end, err error) (end, error) {
	if err != nil || e.Reason != reasonUnknown || w.rec.Step != stepStarting {
		return e, err
	}
	if started, err := w.runs.Started(w.dir()); err != nil || started {
		return e, nil
	}
	e.Unstarted, e.Reason = true, reasonRunError
	e.Message = "the process that is to run the VM ended before it began; see whether the Mac's disk is full"
	return e, nil
}

func restarts(policy corev1.RestartPolicy, e end) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return e.Code != 0
	}
	// Always means the main container: an init container that succeeded is no end.
	return true
}

// remember writes an end down before anything is done about it.
func (w *worker) remember(e end) {
	w.log.Info("attempt ended", "machine", e.Machine, "code", e.Code, "reason", e.Reason, "message", e.Message)
	w.rec.Crashes++
	if !e.Started.IsZero() && e.Finished.Sub(e.Started) >= backOffReset {
		w.rec.Crashes = 1
	}
	if e.Replaced {
		w.rec.Crashes = 0
	}
	w.rec = w.rec.ended(e)
	w.ran = w.ran || !e.Unstarted
	w.began = w.began || !e.Unstarted && e.Init == ""
	w.save()
	// An end that the policy does not restart could not be taken back once it is shown.
	if !e.Unstarted && !e.Replaced {
		w.showNow()
	}
	if e.Reason == reasonStart || e.Unstarted && (e.Reason == reasonRunError || e.Reason == reasonSession) {
		w.event(corev1.EventTypeWarning, "Failed", "Error: "+e.Message)
	}
}

// noteLimit has the start that the licence refused judged, while what runs is known.
func (w *worker) noteLimit(ctx context.Context) {
	machines, err := w.driver.Machines(ctx)
	if err != nil {
		w.log.Warn("what runs besides is not known, so that lost VM slots are not seen", "err", err)
		return
	}
	w.slots.Limited(machines)
}

// prepareRestart deletes the machine that ended and waits as long as the back-off
// asks; false when the Pod's life ends meanwhile.
func (w *worker) prepareRestart(ctx context.Context, e end) bool {
	delay, reason := restartDelay(w.rec.Crashes), reasonBackOff
	if e.Unstarted && !e.Replaced {
		delay, reason = pullDelay(w.rec.Crashes), e.Reason
	}
	if e.Reason == reasonLimited {
		e.Message = w.limited()
	}
	if delay > 0 {
		w.showBackOff(e, corev1.ContainerStateWaiting{
			Reason: reason, Message: firstOf(e.Message, e.Reason) + ": back-off " + delay.String() + " restarting the VM",
		})
		w.event(corev1.EventTypeWarning, "BackOff", "Back-off restarting the VM: "+firstOf(e.Message, e.Reason))
	}
	if err := w.remove(ctx, w.rec.machine(), w.rec.Attempt); err != nil {
		return false
	}
	if e.Reason == reasonLimited {
		// Who was refused asks again, after those who wait already.
		w.slots.Release(string(w.uid))
	}
	// The clock may have been set back since.
	if left := min(delay, delay-w.clock.Since(e.Finished)); left > 0 && !wait(ctx, w.clock, left) {
		return false
	}
	w.rec = w.rec.next()
	// The logs of the one before may still be asked for.
	if err := w.journal.dropAttempts(w.uid, w.rec.Attempt-1); err != nil {
		w.log.Warn("old attempts were left behind", "err", err)
	}
	return ctx.Err() == nil
}

func (w *worker) showBackOff(e end, waiting corev1.ContainerStateWaiting) {
	v := viewOf(w.current(), w.rec, w.began, waiting)
	v.backingOff(e, waiting)
	w.show(&v)
}
