package machine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/rollout"
)

// stagingPoll is how often a Secret is looked at that the host controller has
// yet to fill: Secrets are not watched.
const stagingPoll = 5 * time.Second

// bootstrapPhase brings the claimed Mac to its desired state.
type bootstrapPhase struct {
	clock    clock.PassiveClock
	drift    *driftPhase
	hosts    hostclaim.Hosts
	machines *machines
	metrics  *metrics
	nodes    *nodes
	pushes   *job.Pool
	recovery *recovery
	secrets  bootstrapsecret.Secrets
	starter  *pushStarter
	updates  *updatePhase
}

// run brings the claimed Mac to its desired state. The work is a job; this
// looks at its progress, and records what came of it.
func (p *bootstrapPhase) run(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.Host == nil {
		v.bootstrapped = machine.Unknown(infrav1.ReasonWaitingForHost, "no host is claimed yet")
		if v.Machine.Spec.ProviderID != "" {
			v.bootstrapped = machine.Unknown(infrav1.ReasonWaitingForHost, "the Mac was bootstrapped; its host is not this Machine's now")
		}
		return ctrl.Result{}, nil
	}
	if v.untouchable {
		if v.bootstrapped.Reason == "" && v.Machine.Spec.ProviderID == "" {
			v.bootstrapped = machine.False(infrav1.ReasonWaitingForHost, "host %s is being reinstalled", v.Host.Name)
		}
		return ctrl.Result{}, nil
	}
	first, err := p.readSecret(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	if elsewhere, err := p.machines.elsewhere(ctx, v, p.machines.client); err != nil || elsewhere.Reason != "" {
		v.bootstrapped = elsewhere
		return ctrl.Result{RequeueAfter: elsewherePoll}, err
	}
	if first != nil {
		v.bootstrapped = progress(first.Step) // its end brings us back
		return ctrl.Result{}, nil
	}
	if made, is := p.firstProof(v); is {
		return ctrl.Result{}, p.succeed(ctx, v, made)
	}
	staged := v.secret.Found && v.secret.ClaimToken == v.Token() && v.secret.Epoch == v.Host.Spec.Record.InstallEpoch
	if waiting := machine.Touchable(v.Snapshot, staged, v.secret.User != "" && v.secret.Address != ""); waiting.Reason != "" {
		v.bootstrapped = waiting
		return ctrl.Result{RequeueAfter: stagingPoll}, nil
	}
	profile, err := p.machines.profile(ctx, v.Machine)
	if missing, ok := errors.AsType[*unknownProfileError](err); ok {
		v.bootstrapped = machine.False(infrav1.ReasonUnknownProfile, "%s", missing)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := rollout.Check(profile); err != nil {
		v.invalid(profile.Name, err)
		return ctrl.Result{}, nil
	}
	want, err := p.starter.desired(ctx, v, profile)
	if err != nil {
		return ctrl.Result{}, err
	}
	v.revision = document.Revision(want)
	return p.converge(ctx, v, want)
}

// firstProof is what the first push of this claim and install epoch has made of the Mac,
// as long as that is not on record. It is recorded whatever is wanted by now, or cannot be
// read: without spec.providerID a Node with guests passes for a Mac that is none yet,
// which is pushed to out of its turn, rebooted and wiped. A later wish has its turn.
func (p *bootstrapPhase) firstProof(v *visit) (proof, bool) {
	current, _ := p.pushes.Look(client.ObjectKeyFromObject(v.Machine))
	recorded := v.Machine.Spec.ProviderID != "" && v.Machine.Status.Applied.Agent != ""
	made, proved := v.provedBy(current)
	return made, proved && !recorded && !isUpdate(current)
}

// readSecret reads <machine>-bootstrap where it is worth a reading: not before the claim is
// shown, nor while the first push runs, which needs nothing and is returned.
func (p *bootstrapPhase) readSecret(ctx context.Context, v *visit) (first *job.Run, err error) {
	key := client.ObjectKeyFromObject(v.Machine)
	if v.Machine.Spec.ProviderID == "" {
		if !machine.MayBeStaged(v.Snapshot) {
			return nil, nil
		}
		if current, running := p.pushes.Look(key); running && !current.Done {
			return &current, nil
		}
	}
	v.secret, err = p.secrets.Read(ctx, key)
	return nil, err
}

// invalid says that the profile asks for what cannot be. A Mac that runs goes on as it is.
func (v *visit) invalid(profile string, err error) {
	complaint := machine.False(infrav1.ReasonInvalidProfile, "MacNodeProfile %s: %s", profile, err)
	if v.Machine.Spec.ProviderID == "" {
		v.bootstrapped = complaint
		return
	}
	v.upToDate = complaint
	if v.Machine.Status.Applied.Agent != "" { // whatever an earlier visit waited for
		v.bootstrapped = machine.True(infrav1.BootstrappedCondition)
	}
}

// converge decides whether the Mac needs a push, and follows the one there is.
func (p *bootstrapPhase) converge(ctx context.Context, v *visit, want document.Desired) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(v.Machine)
	current, running := p.pushes.Look(key)
	if isUpdate(current) && current.Result != nil && machine.UpdateCounted(v.Machine.Status.Update, v.revision, current.Began) {
		p.pushes.Forget(key)
		current, running = job.Run{}, false
	}
	if err := p.nodes.findNode(ctx, v, running && !current.Done); err != nil {
		return ctrl.Result{}, err
	}
	need := machine.NextPush(v.Snapshot, v.revision, v.secret.Joinable(p.clock.Now()), p.clock.Now())
	id := pushID(v, want)
	updating := running && isUpdate(current)
	made, proved := v.provedBy(current)
	switch {
	case updating && !current.Done: // also where its update permit was taken back meanwhile
		v.bootstrapped, v.upToDate = machine.True(infrav1.BootstrappedCondition), progress(current.Step)
		v.upToDate.Reason = infrav1.ReasonUpdating
		return ctrl.Result{}, nil
	case updating && current.ID == updateID(v, want) && current.Result != nil:
		p.updates.updateFailed(ctx, v, want, current.Result)
		return ctrl.Result{}, nil
	case updating && current.ID == updateID(v, want) && proved && (!v.ShowsApplied(want) || v.Drifted()):
		return ctrl.Result{}, p.succeed(ctx, v, made)
	case need.Update:
		return p.updates.update(ctx, v, want, need.Join)
	case !need.Needed:
		p.pushes.Forget(key)
		v.bootstrapped = machine.True(infrav1.BootstrappedCondition)
		return p.drift.checkDrift(ctx, v, want)
	case running && !current.Done:
		v.bootstrapped = progress(current.Step)
		return ctrl.Result{}, nil
	case current.ID == id && proved && !v.ShowsApplied(want):
		return ctrl.Result{}, p.succeed(ctx, v, made)
	case running && current.ID == id && current.Result != nil && !current.Answered:
		return p.fail(ctx, v, current)
	}
	if result, hold := p.starter.awaitReboot(v); hold {
		return result, nil
	}
	if running && current.ID == id && current.Result != nil && p.clock.Now().Before(current.NotBefore) {
		if !current.Shown { // once: another manager may have got further since
			v.failed(push.AsFailure(push.StepConverge, current.Result))
		}
		return after(p.clock.Now(), current.NotBefore), nil
	}
	v.bootstrapped = progress(job.Queued)
	result, err := p.starter.beginPush(ctx, v, want, id, need.Join)
	if failure, is := errors.AsType[*push.Failure](err); is {
		v.bootstrapped = machine.False(failure.Reason, "%s", failure.Line())
	}
	return result, err
}

// succeed records what the Mac runs. providerID comes first, under lock: once it
// is there the host is this Machine's for good, and the status that follows can
// be derived again.
func (p *bootstrapPhase) succeed(ctx context.Context, v *visit, made proof) error {
	if v.Machine.Spec.ProviderID == "" {
		if err := p.recovery.withdrawReboot(ctx, v); err != nil {
			return err
		}
		id := machine.ProviderID(v.Host)
		err := p.machines.patch(ctx, v, "providerID", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.ProviderID = id })
		if err != nil {
			return err
		}
	}
	if v.TakingOver() {
		p.machines.event(v.Machine, corev1.EventTypeNormal, infrav1.ReasonLegacyMachine, "the Mac of host "+v.Host.Name+" is taken over: it runs this system's agent now")
	}
	v.applied = &made.applied
	now := metav1.NewTime(p.clock.Now())
	proved := metav1.NewTime(rollout.TriedAt(v.Machine, now.Time))
	v.update = &infrav1.UpdateStatus{Revision: made.applied.Revision, ProvedAt: &proved}
	v.drift = &infrav1.DriftStatus{CheckedAt: &now}
	v.bootstrapped = machine.True(infrav1.BootstrappedCondition)
	return nil
}

// fail answers a failure once: it is counted on the host's record where it may be
// the Mac's own, and recovery says what else is done about it.
func (p *bootstrapPhase) fail(ctx context.Context, v *visit, current job.Run) (ctrl.Result, error) {
	failure := push.AsFailure(push.StepConverge, current.Result)
	key := client.ObjectKeyFromObject(v.Machine)
	if !current.Recorded {
		if err := p.countFailure(ctx, v, current, failure); err != nil {
			return ctrl.Result{}, err
		}
		current.NotBefore = p.clock.Now().Add(machine.Backoff(failure.Class, host.SinceReboot(v.Host.Spec.Record.Bootstrap), key))
		p.pushes.Note(key, func(run *job.Run) { run.Recorded, run.NotBefore = true, current.NotBefore })
	}
	v.failed(failure)
	if err := p.recovery.recoverFrom(ctx, v, failure); err != nil {
		return ctrl.Result{}, err
	}
	p.pushes.Note(key, func(run *job.Run) { run.Answered = true })
	return after(p.clock.Now(), current.NotBefore), nil
}

// countFailure adds a failure to the host's record, and to its mirror. A mirror that cannot
// be written is no error: this failure would be counted again with each look. The next one
// writes the whole count. Where a write came through and its answer was lost, the record
// has the number that the job was to get, and keeps it.
func (p *bootstrapPhase) countFailure(ctx context.Context, v *visit, current job.Run, failure *push.Failure) error {
	key := client.ObjectKeyFromObject(v.Machine)
	counts := host.FailureClass(failure.Class).Counts()
	h, err := p.hosts.Amend(ctx, v.claimOnHost(), func(h *host.Host) bool {
		record := &h.Spec.Record.Bootstrap
		record.ClaimToken = v.Token()
		if !counts || current.Attempt > 0 && record.Attempts >= current.Attempt {
			return false
		}
		host.CountFailure(h, p.clock.Now())
		current.Attempt = record.Attempts
		p.pushes.Note(key, func(run *job.Run) { run.Attempt = current.Attempt })
		return true
	})
	if err != nil {
		return err
	}
	v.Host = h
	attempts := h.Spec.Record.Bootstrap.Attempts
	p.metrics.failure(failure)
	ctrl.LoggerFrom(ctx).Info("Bootstrap failed", "host", h.Name, "step", failure.Step, "class", failure.Class, "attempts", attempts, "error", failure.Error())
	if !counts {
		return nil
	}
	mirror := map[string]*string{bootstrapsecret.KeyFailures: ptr.To(strconv.Itoa(int(attempts)))}
	if err := p.secrets.Patch(ctx, key, mirror); err != nil {
		ctrl.LoggerFrom(ctx).Info("The number of failed attempts is on the host alone; the next failure mirrors it again", "host", h.Name, "error", err.Error())
	}
	return nil
}

func progress(step string) machine.Finding {
	steps := push.Steps()
	if n := slices.Index(steps, step); n >= 0 {
		return machine.False(infrav1.ReasonRunning, "%s (step %d of %d)", step, n+1, len(steps))
	}
	return machine.False(infrav1.ReasonRunning, "%s", step)
}

func (v *visit) failed(failure *push.Failure) {
	reason := cmp.Or(failure.Reason, infrav1.ReasonBootstrapFailed)
	v.failure = failure
	v.bootstrapped = machine.False(reason, "step %s failed (%s): %s", failure.Step, failure.Class, failure.Line())
}
