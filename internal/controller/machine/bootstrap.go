package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/fleetkey"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/rollout"
	"github.com/macfleet/macfleet/internal/workload"
)

// stagingPoll is how often a Secret is looked at that the host controller has
// yet to fill: Secrets are not watched.
const stagingPoll = 5 * time.Second

// bootstrap brings the claimed Mac to its desired state. The work is a job; this
// looks at its progress, and records what came of it.
func (r *Reconciler) bootstrap(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.host == nil {
		v.bootstrapped = unknown(infrav1.ReasonWaitingForHost, "no host is claimed yet")
		if v.machine.Spec.ProviderID != "" {
			v.bootstrapped = unknown(infrav1.ReasonWaitingForHost, "the Mac was bootstrapped; its host is not this Machine's now")
		}
		return ctrl.Result{}, nil
	}
	if v.untouchable {
		if v.bootstrapped.reason == "" && v.machine.Spec.ProviderID == "" {
			v.bootstrapped = no(infrav1.ReasonWaitingForHost, "host %s is being reinstalled", v.host.Name)
		}
		return ctrl.Result{}, nil
	}
	var err error
	if v.staged, err = r.readStaged(ctx, client.ObjectKeyFromObject(v.machine)); err != nil {
		return ctrl.Result{}, err
	}
	if waiting := unstaged(v); waiting.reason != "" {
		v.bootstrapped = waiting
		return ctrl.Result{RequeueAfter: stagingPoll}, nil
	}
	profile, err := r.profile(ctx, v.machine)
	if missing, ok := errors.AsType[*unknownProfileError](err); ok {
		v.bootstrapped = no(infrav1.ReasonUnknownProfile, "%s", missing)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := rollout.Check(profile); err != nil {
		v.invalid(profile.Name, err)
		return ctrl.Result{}, nil
	}
	want := r.desired(v, profile)
	v.revision = document.Revision(want)
	return r.converge(ctx, v, want)
}

// invalid says that the profile asks for what cannot be. A Mac that runs goes on
// as it is.
func (v *visit) invalid(profile string, err error) {
	complaint := no(infrav1.ReasonInvalidProfile, "MacNodeProfile %s: %s", profile, err)
	if v.machine.Spec.ProviderID == "" {
		v.bootstrapped = complaint
		return
	}
	v.upToDate = complaint
}

// unstaged says what the host controller has yet to do before the Mac may be
// touched, or nothing.
func unstaged(v *visit) finding {
	switch {
	case !v.host.Status.Server.Delivered:
		// What was ordered is dialled in vain until then, and would climb the ladder.
		return no(infrav1.ReasonWaitingForHost, "the vendor has not delivered host %s yet", v.host.Name)
	case !apimeta.IsStatusConditionTrue(v.host.Status.Conditions, infrav1.NameInSyncCondition):
		return no(infrav1.ReasonWaitingForHost, "host %s does not show this Machine's name yet%s", v.host.Name, whyNot(v.host))
	case !v.staged.found, v.staged.claimToken != v.token(), v.staged.epoch != v.host.Spec.Record.InstallEpoch:
		return no(infrav1.ReasonWaitingForHost, "the credentials of host %s are not staged for this claim yet", v.host.Name)
	case v.staged.user == "", v.staged.address == "":
		return no(infrav1.ReasonWaitingForHost, "the vendor shows no address or user of host %s yet", v.host.Name)
	}
	return finding{}
}

// whyNot is what the host itself says about its name.
func whyNot(h *host.Host) string {
	if c := apimeta.FindStatusCondition(h.Status.Conditions, infrav1.NameInSyncCondition); c != nil && c.Message != "" {
		return ": " + c.Message
	}
	return ""
}

// converge decides whether the Mac needs a push, and follows the one there is.
func (r *Reconciler) converge(ctx context.Context, v *visit, want document.Desired) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(v.machine)
	need, err := r.need(ctx, v, want)
	if err != nil {
		return ctrl.Result{}, err
	}
	id := pushID(v, want)
	current, running := r.pushes.look(key)
	updating := running && strings.HasPrefix(current.id, updatePrefix)
	switch {
	case updating && !current.done: // also where its turn was taken back meanwhile
		v.bootstrapped, v.upToDate = yes(infrav1.BootstrappedCondition), progress(current.step)
		v.upToDate.reason = infrav1.ReasonUpdating
		return ctrl.Result{}, nil
	case updating && current.id == updateID(v, want) && current.result != nil:
		r.updateFailed(ctx, v, want, current.result)
		return ctrl.Result{}, nil
	case updating && current.id == updateID(v, want) && (!v.shows(want) || v.drifted()):
		return ctrl.Result{}, r.succeed(ctx, v, want, current.found)
	case need.update:
		return r.update(ctx, v, want)
	case !need.push:
		r.pushes.forget(key)
		v.bootstrapped = yes(infrav1.BootstrappedCondition)
		return r.watchDrift(ctx, v, want)
	case running && !current.done:
		v.bootstrapped = progress(current.step)
		return ctrl.Result{}, nil
	case running && current.id == id && current.result == nil && !v.shows(want):
		return ctrl.Result{}, r.succeed(ctx, v, want, current.found)
	case running && current.id == id && current.result != nil && !current.answered:
		return r.fail(ctx, v, current)
	}
	if result, hold := r.awaitReboot(v); hold {
		return result, nil
	}
	if running && current.id == id && current.result != nil && r.Clock.Now().Before(current.notBefore) {
		if !current.shown { // once: another manager may have got further since
			v.failed(asFailure(stepConverge, current.result))
		}
		return after(r.Clock.Now(), current.notBefore), nil
	}
	v.bootstrapped = progress(stepQueued)
	if v.forgetApplied(want) {
		return soon(), nil
	}
	return ctrl.Result{}, r.begin(ctx, v, want, id, need.join)
}

// need is what the Mac lacks: a push, join material with it, or to be changed in
// its turn.
type need struct{ push, join, update bool }

// silentLimit is how long a Node may be not Ready before its Mac is given a fresh
// token: its certificate may have expired while it, or we, were away.
const silentLimit = 10 * time.Minute

// need compares what was done with what is there. A Mac whose Node is not there,
// or not Ready for long, and that holds no token, is converged again with a fresh
// one: that is how a Node that was deleted comes back, or one whose certificate
// has expired, and the only way. A Mac that runs is changed in its turn only, also
// when nobody remembers any more what it runs.
func (r *Reconciler) need(ctx context.Context, v *visit, want document.Desired) (need, error) {
	if err := r.findNode(ctx, v); err != nil {
		return need{}, err
	}
	lacking := v.node == nil || r.silent(v)
	switch {
	case v.machine.Spec.ProviderID == "", v.machine.Status.Applied.Agent == "" && lacking:
		return need{push: true, join: lacking}, nil
	case lacking && !v.leaving() && !v.staged.joinable(r.Clock.Now()):
		return need{push: true, join: true}, nil
	case v.wishedRestart() != "":
		// A restart is mostly asked for because the Node is not well; its certificate may be why.
		// Without a Node the permit that the Mac holds may be used up.
		_, unready := unreadySince(v)
		return need{push: true, join: v.node == nil || unready && !v.staged.joinable(r.Clock.Now())}, nil
	case v.myTurn(document.Revision(want)):
		return need{update: true}, nil
	}
	return need{}, nil
}

// silent reports whether the Node of this Mac has not been Ready for too long.
func (r *Reconciler) silent(v *visit) bool {
	since, unready := unreadySince(v)
	return unready && r.Clock.Since(since) >= silentLimit
}

// unreadySince says since when the Node of this Mac is not Ready. A Node that
// says it is another Mac is not ours to mend.
func unreadySince(v *visit) (time.Time, bool) {
	node := v.node
	if node == nil || workload.NodeReady(node) {
		return time.Time{}, false
	}
	if id := node.Spec.ProviderID; id != "" && id != hostProviderID(v.host) {
		return time.Time{}, false
	}
	return workload.ReadinessChanged(node), true
}

// shows reports whether the Machine already says what a push achieved. Then a
// need that remains has come up since.
func (v *visit) shows(want document.Desired) bool {
	applied := v.proved(document.Revision(want), want.Agent.SHA256, want.Restart)
	return v.machine.Spec.ProviderID != "" && v.machine.Status.Applied == applied
}

// pushID names a push by its inputs: a result belongs to the same inputs only.
func pushID(v *visit, want document.Desired) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s|%s|%d|%s|%s|%t|%s|%s", v.machine.UID, v.token(), want.Host.Epoch, document.Revision(want), v.staged.address, v.staged.password.Present(), want.Restart, v.host.Spec.AcceptSerial)
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

func (r *Reconciler) begin(ctx context.Context, v *visit, want document.Desired, id string, join bool) error {
	name := client.ObjectKeyFromObject(v.machine)
	if check, running := r.checks.look(name); running && !check.done {
		r.checks.cancel(name) // its end brings us back
		return nil
	}
	key, err := r.ensureFleetKey(ctx, v)
	if err != nil {
		v.bootstrapped = no(infrav1.ReasonFleetKeyUnavailable, "%s", err)
		return err
	}
	signing, err := r.ensureSigningKey(ctx, v)
	if err != nil {
		v.bootstrapped = no(infrav1.ReasonFleetKeyUnavailable, "%s", err)
		return err
	}
	want.UpgradeKey, want.SSHKeys = signing.public(), key.publics()
	epoch := v.host.Spec.Record.InstallEpoch
	book := ledger{r: r, machine: name, host: v.host.Name, claim: host.ClaimOf(v.machine), epoch: epoch, seeds: key.seeds()}
	target := r.target(v, key)
	target.FirstUse = book.pin
	p := push{
		r: r, machine: name, agent: r.Agent, desired: want, join: join, signer: signing.signer(want.Host, r.Clock.Now), password: v.staged.password, missing: missingPassword(v.host),
		target: target, ledger: book,
	}
	r.pushes.begin(name, id, func(ctx context.Context, say func(string)) error {
		err := p.run(ctx, say)
		if err == nil {
			r.pushes.setFound(name, []string{fleetkey.Fingerprint(key.public)})
		}
		return err
	})
	ctrl.LoggerFrom(ctx).Info("Pushing to the Mac", "host", v.host.Name, "job", id, "join", join)
	return nil
}

// missingPassword says why there may be no password: the vendor seals it, as far as
// the host controller has seen, or it is just not there.
func missingPassword(h *host.Host) string {
	c := apimeta.FindStatusCondition(h.Status.Conditions, host.CredentialsStagedCondition)
	if c != nil && c.Reason == infrav1.ReasonCredentialsSealed {
		return infrav1.ReasonCredentialsSealed
	}
	return infrav1.ReasonMissingSudoPassword
}

// target is the claimed Mac, with the pin of its present epoch.
func (r *Reconciler) target(v *visit, key fleetKey) Target {
	t := Target{Address: v.staged.address, Port: r.SSHPort, User: v.staged.user, Key: key.signer, OtherKeys: key.others()}
	if ip := v.host.Status.Server.IP; ip != "" && ip != t.Address {
		t.Addresses = []string{ip} // the vendor moved it since its credentials were staged
	}
	if pin := v.host.Spec.Record.HostKey; pin != nil && pin.Epoch == v.host.Spec.Record.InstallEpoch {
		t.Pin = pin
	}
	return t
}

// succeed records what the Mac runs. providerID comes first, under lock: once it
// is there the host is this Machine's for good, and the status that follows can
// be derived again.
// The job brought back which of the fleet's keys the Mac was given.
func (r *Reconciler) succeed(ctx context.Context, v *visit, want document.Desired, given []string) error {
	if v.machine.Spec.ProviderID == "" {
		id := hostProviderID(v.host)
		err := r.patch(ctx, v, "providerID", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.ProviderID = id })
		if err != nil {
			return err
		}
	}
	if v.takingOver() {
		r.tellLegacy(v, "the Mac of host "+v.host.Name+" is taken over: it runs this system's agent now")
	}
	v.applied = ptr.To(v.proved(document.Revision(want), want.Agent.SHA256, want.Restart))
	if len(given) > 0 {
		v.applied.SSHKey = given[0]
	}
	now := metav1.NewTime(r.Clock.Now())
	v.update = &infrav1.UpdateStatus{Revision: document.Revision(want), ProvedAt: &now}
	v.drift = &infrav1.DriftStatus{CheckedAt: &now}
	v.bootstrapped = yes(infrav1.BootstrappedCondition)
	return nil
}

// fail answers a failure once: it is counted on the host's record where it may be
// the Mac's own, and the ladder says what else is done about it.
func (r *Reconciler) fail(ctx context.Context, v *visit, current snapshot) (ctrl.Result, error) {
	failure := asFailure(stepConverge, current.result)
	key := client.ObjectKeyFromObject(v.machine)
	if !current.recorded {
		if err := r.count(ctx, v, failure); err != nil {
			return ctrl.Result{}, err
		}
		current.notBefore = r.Clock.Now().Add(backoff(failure.Class, v.host.Spec.Record.Bootstrap.Attempts, key))
		r.pushes.setRecorded(key, current.notBefore)
	}
	v.failed(failure)
	if err := r.climb(ctx, v, failure); err != nil {
		return ctrl.Result{}, err
	}
	r.pushes.setAnswered(key)
	return after(r.Clock.Now(), current.notBefore), nil
}

// count adds a failure to the host's record, and to its mirror.
func (r *Reconciler) count(ctx context.Context, v *visit, failure *Failure) error {
	counts := host.FailureClass(failure.Class).Counts()
	h, err := r.amendHost(ctx, v.host.Name, host.ClaimOf(v.machine), func(h *host.Host) bool {
		h.Spec.Record.Bootstrap.ClaimToken = v.token()
		if counts {
			host.CountFailure(h, r.Clock.Now())
		}
		return counts
	})
	if err != nil {
		return err
	}
	v.host = h
	attempts := h.Spec.Record.Bootstrap.Attempts
	r.metrics.failure(failure)
	ctrl.LoggerFrom(ctx).Info("Bootstrap failed", "host", h.Name, "step", failure.Step, "class", failure.Class, "attempts", attempts, "error", failure.Error())
	if !counts {
		return nil
	}
	mirror := map[string]*string{keyFailures: ptr.To(strconv.Itoa(int(attempts)))}
	return r.patchStaged(ctx, client.ObjectKeyFromObject(v.machine), mirror)
}

// awaitReboot holds pushes back while the host is about to reboot or does so.
func (r *Reconciler) awaitReboot(v *visit) (ctrl.Result, bool) {
	now := r.Clock.Now()
	is, until := host.Rebooting(v.host, v.machine.Spec.ProviderID != "", now)
	if !is {
		return ctrl.Result{}, false
	}
	v.bootstrapped = no(infrav1.ReasonRebootingForRecovery, "host %s reboots", v.host.Name)
	if until.IsZero() {
		return ctrl.Result{}, true
	}
	return after(now, until), true
}

func progress(step string) finding {
	steps := pushSteps()
	if n := slices.Index(steps, step); n >= 0 {
		return no(infrav1.ReasonRunning, "%s (step %d of %d)", step, n+1, len(steps))
	}
	return no(infrav1.ReasonRunning, "%s", step)
}

func (v *visit) failed(failure *Failure) {
	reason := failure.Reason
	if reason == "" {
		reason = infrav1.ReasonBootstrapFailed
	}
	message := strings.ReplaceAll(failure.Err.Error(), "\n", " ")
	v.failure = failure
	v.bootstrapped = no(reason, "step %s failed (%s): %s", failure.Step, failure.Class, message)
}

// The back-off of pushes: doubled with each failure of the claim, up to a limit.
const (
	backoffBase  = 5 * time.Second
	backoffLimit = 5 * time.Minute
	// backoffWait: what is waited for may come at any time, and asking costs little.
	backoffWait = 30 * time.Second
	// backoffHuman: only a person can mend it; now and then we look whether one has.
	backoffHuman = 30 * time.Minute
)

// backoff is how long to wait after the given number of failures. A jitter of up
// to a quarter, fixed for the Machine and attempt, keeps a fleet apart.
func backoff(class document.Class, attempts int32, key types.NamespacedName) time.Duration {
	wait := backoffLimit
	if shift := attempts - 1; shift >= 0 && shift < 6 {
		wait = backoffBase << shift
	}
	switch class {
	case document.Wait:
		wait = backoffWait
	case document.Human:
		wait = backoffHuman
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s/%d", key, attempts)
	return wait + time.Duration(hash.Sum32()%256)*wait/1024
}
