package machine

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/remote"
)

// failingWorld has mac-1 on a host whose Mac does not answer, another host that is
// free, and the thresholds of the requirement.
func failingWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.r.RebootAfter, w.r.MaxAttempts = 3, 8
	w.r.wire()
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	w.create(poolHost(otherID))
	w.mac.set(func(m *fakeMac) { m.dialErr = &remote.Unreachable{Phase: remote.PhaseDial, Err: errPlain} })
	return w
}

// failTimes lets the push fail so often, each time after its back-off.
func (w *world) failTimes(n int) {
	w.t.Helper()
	for range n {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.report.At = w.clock.Now()
		w.settle("mac-1")
	}
}

// takeReboot does what the host controller does with a request: the vendor takes
// it, and the claim's one reboot is spent.
func (w *world) takeReboot() {
	w.t.Helper()
	h := w.host(hostName)
	if h.Spec.Reboot == nil {
		w.t.Fatal("no reboot is asked for")
	}
	id, why := h.Spec.Reboot.ID, h.Spec.Reboot.Reason
	host.ClearReboot(h, id)
	w.update(h)
	h.Status.LastReboot = infrav1.RebootStatus{ID: id, At: metav1.NewMicroTime(w.clock.Now())}
	meta.SetStatusCondition(&h.Status.Conditions, metav1.Condition{Type: host.RebootedCondition, Status: metav1.ConditionTrue, Reason: host.ReasonRebootTaken, Message: why})
	w.updateStatus(h)
}

// refuseReboot does what the host controller does while the vendor does not take it.
func (w *world) refuseReboot(why string) {
	w.t.Helper()
	h := w.host(hostName)
	meta.SetStatusCondition(&h.Status.Conditions, metav1.Condition{
		Type: host.RebootedCondition, Status: metav1.ConditionFalse, Reason: host.ReasonRebootWaiting, Message: why, LastTransitionTime: metav1.Now(),
	})
	w.updateStatus(h)
	w.settle("mac-1")
}

func (w *world) bootstrapRecord() infrav1.BootstrapRecord {
	w.t.Helper()
	return w.host(hostName).Spec.Record.Bootstrap
}

func (w *world) message(name, condition string) string {
	w.t.Helper()
	for _, c := range w.machine(name).Status.Conditions {
		if c.Type == condition {
			return c.Message
		}
	}
	return ""
}

func TestRequirement003_HandleBootstrapFailure_RebootsAtThresholdOnce(t *testing.T) {
	w := failingWorld(t)
	w.failTimes(3)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	request := w.host(hostName).Spec.Reboot
	if request == nil || request.ID != host.BootstrapRebootID(token) || !request.Force || request.Reason == "" {
		t.Fatalf("reboot = %+v, want one for this claim", request)
	}
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonRebootingForRecovery {
		t.Errorf("Bootstrapped = %s", got)
	}
	dials := len(w.mac.dials)
	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(3 * time.Minute))
		w.settle("mac-1")
	}
	if len(w.mac.dials) != dials {
		t.Error("the Mac was pushed to while its reboot was pending")
	}
	w.takeReboot()
	if result := w.settle("mac-1"); len(w.mac.dials) != dials || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("dialled %d times more, comes back after %s; want it to wait for the reboot to show", len(w.mac.dials)-dials, result.RequeueAfter)
	}
	w.failTimes(4)
	if h := w.host(hostName); h.Spec.Reboot != nil || h.Spec.Release != nil || w.bootstrapRecord().Attempts != 7 {
		t.Errorf("reboot = %+v, release = %+v, record = %+v; want no second reboot", h.Spec.Reboot, h.Spec.Release, w.bootstrapRecord())
	}
	if m := w.machine("mac-1"); !m.Status.Bootstrap.RebootIssued {
		t.Errorf("status = %+v, want the record mirrored", m.Status.Bootstrap)
	}
	if heard := strings.Join(w.heard(), "\n"); strings.Count(heard, infrav1.ReasonRebootingForRecovery) != 1 {
		t.Errorf("events = %s, want one reboot", heard)
	}
}

// The vendor's error leaves the request where it is: the host controller asks
// again, and nothing here counts the reboot as made. But a vendor that never takes it
// does not keep the Machine from another Mac.
func TestRequirement003_HandleBootstrapFailure_RebootAPIErrorDoesNotConsumeOneShot(t *testing.T) {
	w := failingWorld(t)
	w.failTimes(3)
	first := *w.host(hostName).Spec.Reboot
	w.restart()
	w.r.RebootAfter, w.r.MaxAttempts = 3, 8
	w.r.wire()
	w.refuseReboot("the vendor refuses: 503 Service Unavailable")
	if got := w.message("mac-1", infrav1.BootstrappedCondition); !strings.Contains(got, "503 Service Unavailable") {
		t.Errorf("Bootstrapped says %q", got)
	}
	w.failTimes(4)
	h := w.host(hostName)
	if h.Spec.Reboot == nil || *h.Spec.Reboot != first || w.bootstrapRecord().RebootIssued || w.bootstrapRecord().Attempts != 7 {
		t.Errorf("reboot = %+v, record = %+v; want the same request, not spent", h.Spec.Reboot, w.bootstrapRecord())
	}
	w.failTimes(1)
	if h := w.host(hostName); !host.WipeAllowed(h) || h.Spec.Reboot != nil {
		t.Errorf("release = %+v, reboot = %+v; want the host returned, and the request gone", h.Spec.Release, h.Spec.Reboot)
	}
	if ref := w.machine("mac-1").Spec.HostRef; ref == nil || ref.Name == hostName {
		t.Errorf("hostRef = %+v, want another host", ref)
	}
}

// A reboot that the vendor takes at last must not cut the power of a Mac that came up
// without it.
func TestAMacThatComesUpBeforeItsRebootIsNotRebooted(t *testing.T) {
	w := failingWorld(t)
	w.failTimes(3)
	w.mac.set(func(m *fakeMac) { m.dialErr = nil })
	withdrawn := false
	w.fail = func(_ string, o client.Object) error {
		if m, is := o.(*infrav1.ScalewayAppleSiliconMachine); is && m.Spec.ProviderID != "" {
			withdrawn = w.host(hostName).Spec.Reboot == nil
		}
		return nil
	}
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle("mac-1")
	if w.machine("mac-1").Spec.ProviderID == "" || !withdrawn {
		t.Errorf("providerID = %q, the reboot was withdrawn before: %t", w.machine("mac-1").Spec.ProviderID, withdrawn)
	}
}

// A manager died after the Mac had joined and before it recorded that, and pushes fail
// since: there are guests on it. Once its Node is not Ready recovery goes on.
func TestAReadyNodeIsLeftWhateverPushesComeTo(t *testing.T) {
	w := failingWorld(t)
	w.join("mac-1")
	w.failTimes(2)
	early := w.reason("mac-1", infrav1.BootstrappedCondition) // no tier of recovery is due yet
	w.failTimes(7)
	h := w.host(hostName)
	if h.Spec.Reboot != nil || h.Spec.Release != nil || w.bootstrapRecord().Attempts != 9 || w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Fatalf("reboot = %+v, release = %+v, record = %+v; want the Mac left, and its Node", h.Spec.Reboot, h.Spec.Release, w.bootstrapRecord())
	}
	if got := w.message("mac-1", infrav1.BootstrappedCondition); w.reason("mac-1", infrav1.BootstrappedCondition) != infrav1.ReasonBootstrapExhausted || early == infrav1.ReasonBootstrapExhausted || !strings.Contains(got, "Node is Ready") || !strings.Contains(got, errPlain.Error()) {
		t.Errorf("Bootstrapped is %s early and says %q later, want why it is left, once a tier is due, and what fails", early, got)
	}
	w.nodeStatus("mac-1", corev1.ConditionUnknown)
	w.failTimes(1)
	w.takeReboot()
	w.failTimes(5)
	if h := w.host(hostName); !host.WipeAllowed(h) {
		t.Errorf("release = %+v, want the host returned once its Node is not Ready", h.Spec.Release)
	}
}

// Failures that end at once and their pauses make seven in the least time. The wipe must not
// follow the reboot after one more: the attempts between the thresholds follow it.
func TestAttemptsFollowTheRebootAlsoUnderTheLeastTime(t *testing.T) {
	w := failingWorld(t)
	w.r.RecoverAfter = 5 * time.Minute
	w.r.wire()
	began := w.clock.Now()
	for w.host(hostName).Spec.Reboot == nil && w.bootstrapRecord().Attempts < 20 {
		w.failNext()
	}
	atReboot, took := w.bootstrapRecord().Attempts, w.clock.Now().Sub(began)
	if atReboot <= 3 || took < 5*time.Minute {
		t.Fatalf("a reboot after %d attempts and %s, want the least time to put it off", atReboot, took)
	}
	w.takeReboot()
	rebootedAt, failed := w.clock.Now(), atReboot
	for w.host(hostName).Spec.Release == nil && failed < 20 {
		failed = w.bootstrapRecord().Attempts
		w.failNext()
	}
	if got := failed + 1 - atReboot; got != 5 {
		t.Errorf("%d attempts after the reboot, want the five between 3 and 8", got)
	}
	if took := w.clock.Now().Sub(rebootedAt); took > 15*time.Minute {
		t.Errorf("the wipe came %s after the reboot; want the pauses begun anew", took)
	}
}

// A record that is made anew knows of the reboot, and not how many attempts were before it.
func TestARecordMadeAnewCountsFromTheReboot(t *testing.T) {
	w := failingWorld(t)
	w.failTimes(3)
	w.takeReboot()
	w.failTimes(2)
	lost := w.host(hostName)
	w.delete(w.host(hostName))
	again := poolHost(serverID)
	again.Status = lost.Status
	w.create(again)
	w.updateStatus(again)
	w.settle("mac-1")
	if got := w.bootstrapRecord(); !got.RebootIssued || got.Attempts != 5 || got.AttemptsAtReboot != got.Attempts {
		t.Errorf("record = %+v, want all five before the attempts that count", got)
	}
}

// failNext lets the next push fail, as soon as it is due.
func (w *world) failNext() {
	w.t.Helper()
	due := w.settle("mac-1").RequeueAfter
	if due <= 0 {
		w.t.Fatal("nothing is due")
	}
	w.clock.SetTime(w.clock.Now().Add(due))
	w.report.At = w.clock.Now()
	w.settle("mac-1")
}

// A Node of the Machine's name that is another Mac's protects nothing.
func TestTheReadyNodeOfAnotherMacHoldsNothingUp(t *testing.T) {
	w := failingWorld(t)
	node := w.join("mac-1")
	node.Spec.ProviderID = host.ProviderID(zone, otherID)
	w.update(node)
	w.failTimes(3)
	if h := w.host(hostName); h.Spec.Reboot == nil {
		t.Error("want the reboot asked for")
	}
}

func TestRequirement003_HandleBootstrapFailure_ReleasesToPoolAtMax(t *testing.T) {
	w := failingWorld(t)
	w.failTimes(3)
	w.takeReboot()
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.failTimes(4)
	w.mac.set(func(m *fakeMac) { m.dialErr = nil; m.convErr = &remote.Failed{Class: document.Retry} })
	w.failTimes(1)
	h := w.host(hostName)
	if !host.WipeAllowed(h) || h.Spec.Release.Policy != infrav1.Recycle || h.Spec.Release.Origin != infrav1.OriginRecovery || h.Spec.Release.PoolPrefix != poolName {
		t.Fatalf("release = %+v, want it recorded for %s", h.Spec.Release, token)
	}
	if h.Spec.Record.DisturbedAt == nil || h.Spec.Failures.Count != 1 || !slices.Contains(h.Finalizers, infrav1.HostFinalizer) {
		t.Errorf("record = %+v, failures = %+v, finalizers = %q", h.Spec.Record, h.Spec.Failures, h.Finalizers)
	}
	m := w.machine("mac-1")
	if m.Spec.HostRef == nil || m.Spec.HostRef.Name != host.ObjectName(zone, otherID) || m.Spec.HostRef.ClaimToken == token {
		t.Fatalf("hostRef = %+v, want another host with another token", m.Spec.HostRef)
	}
	if m.Status.ServerID != otherID || m.Status.Bootstrap.Attempts != 0 || m.Status.Bootstrap.RebootIssued {
		t.Errorf("status = %+v, want that of the new host", m.Status)
	}
	if s := w.secret("mac-1-bootstrap"); s[host.KeyHostKey] != "" || s[bootstrapsecret.KeyFailures] != "" || s[host.KeyPasswordAttempts] != "" || len(w.tokens()) != 0 {
		t.Errorf("the Secret still holds %v, tokens = %q", s, w.tokens())
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Warning "+infrav1.ReasonReturnedToPool) {
		t.Errorf("events = %s", heard)
	}
}

// An error on the release keeps the claim: no other host is adopted while the
// wedged one is still ours.
func TestRequirement003_HandleBootstrapFailure_ReleaseAPIErrorKeepsState(t *testing.T) {
	w := failingWorld(t)
	w.r.RebootAfter = 0
	w.r.wire()
	w.failTimes(7)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.fail = func(_ string, o client.Object) error {
		if h, is := o.(*host.Host); is && h.Spec.Release != nil {
			return errPlain
		}
		return nil
	}
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	key := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}
	failed := false
	for range 6 {
		_, err := w.r.Reconcile(t.Context(), key)
		failed = failed || err != nil
		w.awaitJobs(key.NamespacedName)
	}
	m := w.machine("mac-1")
	if !failed || m.Spec.HostRef == nil || !bears(w.host(hostName), token) || m.Status.ServerID != serverID || w.bootstrapRecord().Attempts != 8 {
		t.Fatalf("failed = %t, hostRef = %+v, status = %+v, record = %+v; want all of it kept", failed, m.Spec.HostRef, m.Status, w.bootstrapRecord())
	}
	w.fail = noFault
	w.settle("mac-1")
	if m := w.machine("mac-1"); !host.WipeAllowed(w.host(hostName)) || m.Spec.HostRef == nil || m.Spec.HostRef.ClaimToken == token {
		t.Errorf("release = %+v, hostRef = %+v; want it done once the API answers", w.host(hostName).Spec.Release, m.Spec.HostRef)
	}
}

func TestRequirement003_HandleBootstrapFailure_LegacyCRWithoutPoolPrefixNeverReleases(t *testing.T) {
	w := failingWorld(t)
	w.r.DefaultPoolPrefix = ""
	w.r.wire()
	w.failTimes(3)
	w.takeReboot()
	w.failTimes(8)
	if h := w.host(hostName); h.Spec.Release != nil || w.machine("mac-1").Spec.HostRef == nil {
		t.Errorf("release = %+v; want none", h.Spec.Release)
	}
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonBootstrapExhausted {
		t.Errorf("Bootstrapped = %s", got)
	}
	w.mac.set(func(m *fakeMac) { m.dialErr = nil })
	w.failTimes(1)
	if w.machine("mac-1").Spec.ProviderID == "" {
		t.Error("an exhausted Mac that works again is not used")
	}
}

func TestRequirement003_HandleBootstrapFailure_DisabledThresholdsSkipBothTiers(t *testing.T) {
	w := failingWorld(t)
	w.r.RebootAfter, w.r.MaxAttempts = 0, 0
	w.r.wire()
	w.failTimes(12)
	if h := w.host(hostName); h.Spec.Reboot != nil || h.Spec.Release != nil || w.bootstrapRecord().Attempts != 12 {
		t.Errorf("reboot = %+v, release = %+v, record = %+v; want retries only", h.Spec.Reboot, h.Spec.Release, w.bootstrapRecord())
	}
}

// The literal marker of a sealed password, or nothing, in a Secret that was stored
// before: no password, and it heals as soon as another one is staged.
func TestRequirement003_ASealedPasswordInAStoredSecretHeals(t *testing.T) {
	for name, c := range map[string]struct{ stored, shown, reason string }{
		"sealed":                {"<sealed>", infrav1.ReasonCredentialsSealed, infrav1.ReasonCredentialsSealed},
		"sealed, not looked at": {"<sealed>", "", infrav1.ReasonMissingSudoPassword},
		"around a password":     {" <sealed>\n", "", infrav1.ReasonMissingSudoPassword},
		"empty":                 {"", "", infrav1.ReasonMissingSudoPassword},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
			w.r.RebootAfter, w.r.MaxAttempts = 1, 1
			w.r.wire()
			w.settle("mac-1")
			w.stage("mac-1", c.stored)
			if c.shown != "" {
				h := w.host(hostName)
				h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: host.CredentialsStagedCondition, Status: metav1.ConditionFalse, Reason: c.shown, LastTransitionTime: metav1.Now()})
				w.updateStatus(h)
			}
			w.settle("mac-1")
			w.failTimes(3)
			if h := w.host(hostName); len(w.mac.passwords) != 0 || w.bootstrapRecord().Attempts != 0 || h.Spec.Reboot != nil || h.Spec.Release != nil {
				t.Errorf("sent %q, record = %+v, release = %+v; want it to wait", w.mac.passwords, w.bootstrapRecord(), h.Spec.Release)
			}
			if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != c.reason {
				t.Errorf("Bootstrapped = %s, want %s", got, c.reason)
			}
			w.stage("mac-1", "secret-1") // the back-off is of the push without a password
			w.settle("mac-1")
			if !slices.Equal(w.mac.passwords, []string{"secret-1"}) || w.machine("mac-1").Spec.ProviderID == "" {
				t.Errorf("sent %q: a password that came later is not tried at once", w.mac.passwords)
			}
		})
	}
}

// A dirty disk at first contact: wiped again before anybody uses it, and out of the
// pool until a person has looked.
func TestADirtyDiskIsWipedAgainAndQuarantined(t *testing.T) {
	w := failingWorld(t)
	w.failOnce(failsAt("journal", document.Reinstall, document.NotWiped+"the disk belongs to epoch 0"))
	h := w.host(hostName)
	if !host.WipeAllowed(h) || h.Spec.Quarantine == nil || h.Spec.Quarantine.Reason != infrav1.ReasonNotWiped || h.Spec.Quarantine.Until != nil {
		t.Errorf("release = %+v, quarantine = %+v", h.Spec.Release, h.Spec.Quarantine)
	}
	if ref := w.machine("mac-1").Spec.HostRef; ref == nil || ref.Name == hostName {
		t.Errorf("hostRef = %+v, want another host", ref)
	}
}

// A disk that is full is wiped likewise. Nothing on it was another owner's: the Mac comes
// back to the pool.
func TestAFullDiskIsWipedAndNotQuarantined(t *testing.T) {
	w := failingWorld(t)
	w.failOnce(failsAt("tart", document.Reinstall, "unpacking tart: no space left on device"))
	h := w.host(hostName)
	if f := h.Spec.Failures.Recent; !host.WipeAllowed(h) || h.Spec.Quarantine != nil || len(f) != 1 || f[0].Reason != "BootstrapFailed at tart" {
		t.Errorf("release = %+v, quarantine = %+v, failures = %+v", h.Spec.Release, h.Spec.Quarantine, f)
	}
}

// failOnce has the Mac answer, and lets one converge fail.
func (w *world) failOnce(err error) {
	w.t.Helper()
	w.mac.set(func(m *fakeMac) { m.dialErr = nil; m.convErr = err })
	w.visit("mac-1")
	w.awaitJobs(client.ObjectKey{Namespace: namespace, Name: "mac-1"})
	w.mac.set(func(m *fakeMac) { m.convErr = nil })
	w.settle("mac-1")
}

// An ordered server is wiped for its Machine, which keeps it, and waits.
func TestAnOrderedServerIsReinstalledForItsMachine(t *testing.T) {
	w := failingWorld(t)
	h := w.host(hostName)
	h.Spec.Record.Ordered = true
	w.update(h)
	w.r.RebootAfter = 0
	w.r.wire()
	w.failTimes(8)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	h = w.host(hostName)
	if !host.WipeAllowed(h) || h.Spec.Release.Policy != infrav1.Reinstall || !bears(h, token) {
		t.Fatalf("spec = %+v, want it released to be reinstalled, and the claim kept", h.Spec)
	}
	dials := len(w.mac.dials)
	w.failTimes(2)
	if m := w.machine("mac-1"); len(w.mac.dials) != dials || m.Spec.HostRef == nil || w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonReleasing {
		t.Errorf("dialled %d times more, hostRef = %+v, HostClaimed = %s", len(w.mac.dials)-dials, m.Spec.HostRef, w.reason("mac-1", infrav1.HostClaimedCondition))
	}
	// The wipe was observed: the host controller takes the release off.
	h = w.host(hostName)
	h.Spec.Release = nil
	h.Spec.Record.InstallEpoch++
	w.update(h)
	w.stage("mac-1", "secret-2")
	w.poke(host.KeyInstallEpoch, "2")
	w.mac.set(func(m *fakeMac) { m.dialErr = nil })
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.ProviderID != host.ProviderID(zone, serverID) {
		t.Errorf("providerID = %q, conditions = %+v", m.Spec.ProviderID, m.Status.Conditions)
	}
}

// A crash between the release and the intent: the intent is dropped then.
func TestAReleasedHostIsDroppedByALivingMachine(t *testing.T) {
	w := failingWorld(t)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	h := w.host(hostName)
	host.ReleaseUnhealthy(h, infrav1.Release{Token: token, Policy: infrav1.Recycle, PoolPrefix: poolName}, "x", w.clock.Now())
	w.update(h)
	w.settle("mac-1")
	if ref := w.machine("mac-1").Spec.HostRef; ref == nil || ref.Name == hostName {
		t.Errorf("hostRef = %+v, want another host", ref)
	}
}

// One that was provisioned keeps its host for good, and says what is going on.
func TestAReleasedHostOfAProvisionedMachineIsShown(t *testing.T) {
	w := runningWorld(t)
	h := w.host(hostName)
	h.Spec.Release = &infrav1.Release{Token: w.machine("mac-1").Spec.HostRef.ClaimToken, Policy: infrav1.Recycle, PoolPrefix: poolName}
	w.update(h)
	dials := len(w.mac.dials)
	w.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}})
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef == nil || w.reason("mac-1", infrav1.ReadyCondition) != infrav1.ReasonReleasing || len(w.mac.dials) != dials {
		t.Errorf("hostRef = %+v, Ready = %s, dialled %d times more", m.Spec.HostRef, w.reason("mac-1", infrav1.ReadyCondition), len(w.mac.dials)-dials)
	}
}

func TestTheClassesAreTheReports(t *testing.T) {
	for ours, theirs := range map[host.FailureClass]document.Class{
		host.ClassRetry: document.Retry, host.ClassWait: document.Wait, host.ClassReboot: document.Reboot,
		host.ClassReinstall: document.Reinstall, host.ClassHuman: document.Human, host.ClassBug: document.Bug,
	} {
		if string(ours) != string(theirs) {
			t.Errorf("%s is %s to a Mac", ours, theirs)
		}
	}
}
