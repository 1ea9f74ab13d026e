package machine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/fleetkey"
	"github.com/macfleet/macfleet/internal/fleetsecret"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/rollout"
)

func TestFleetKey(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID), poolHost(otherID))...)
	w.settle("mac-1")
	w.settle("mac-2")
	secret := w.secret("builders-ssh")
	if len(w.keys.calls) != 1 || !strings.HasSuffix(w.keys.calls[0], strings.TrimSpace(secret[fleetkey.KeyPublic])) {
		t.Errorf("registered = %q, want the public half of the Secret, once", w.keys.calls)
	}
	w.restart()
	w.visit("mac-1")
	if got := w.secret("builders-ssh"); got[fleetkey.KeyPrivate] != secret[fleetkey.KeyPrivate] {
		t.Error("the fleet's key was replaced")
	}
}

// A key that the vendor does not have any more is registered before the next claim.
func TestAForgottenKeyIsRegisteredBeforeTheNextClaim(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID), poolHost(otherID))...)
	w.settle("mac-1")
	known := w.r.KnownKeys()
	if len(known) != 1 || !strings.HasPrefix(w.keys.calls[0], known[0]+" ") {
		t.Fatalf("known = %q, registered %q", known, w.keys.calls)
	}
	w.r.ForgetKey(known[0])
	w.settle("mac-2")
	if len(w.keys.calls) != 2 || w.machine("mac-2").Spec.HostRef == nil {
		t.Errorf("registered = %q, want the key twice", w.keys.calls)
	}
}

func TestNoClaimWithoutARegisteredKey(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.keys.err = errPlain
	w.visit("mac-1")
	w.visit("mac-1")
	if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}); err == nil {
		t.Error("the vendor's error is not reported, so nothing would try again")
	}
	if m := w.machine("mac-1"); m.Spec.HostRef != nil || w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonFleetKeyUnavailable {
		t.Errorf("hostRef = %+v, reason = %s", m.Spec.HostRef, w.reason("mac-1", infrav1.HostClaimedCondition))
	}
}

// forgetfulVendor puts a new manager in place, which knows of no registered key, and has
// the vendor register none.
func (w *world) forgetfulVendor() {
	w.t.Helper()
	w.restart()
	w.keys.mu.Lock()
	defer w.keys.mu.Unlock()
	w.keys.err = errPlain
}

// Registering matters to a Mac that is yet to be installed. One that runs is updated and
// checked all the same: else a vendor's bad hour would halt a fleet, Mac by Mac.
func TestARunningMacDoesNotWaitForTheVendorToTakeAKey(t *testing.T) {
	w, wanted := profiled(t)
	w.checks = 6 * time.Hour
	w.forgetfulVendor()
	w.mac.set(func(f *fakeMac) {
		f.onConverge = func() {
			if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.BootstrappedCondition {
				t.Errorf("Bootstrapped = %s in the turn", got)
			}
		}
	})
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	if got := w.machine("mac-1").Status.Applied.Revision; got != wanted || len(w.mac.desired) != 2 {
		t.Errorf("%d pushes, applied %.12s, want %.12s", len(w.mac.desired), got, wanted)
	}
	w.clock.SetTime(w.clock.Now().Add(6 * time.Hour))
	w.rest()
	if w.mac.plans != 1 {
		t.Errorf("checked %d times", w.mac.plans)
	}
}

// A first bootstrap waits: whether its Mac knows the key is not known, and a Mac that
// refuses it would be charged for that.
func TestAFirstBootstrapWaitsForTheVendorToTakeTheKey(t *testing.T) {
	w := claimed(t)
	w.forgetfulVendor()
	if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}); err == nil {
		t.Error("the vendor's error is not reported, so nothing would try again")
	}
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonFleetKeyUnavailable || len(w.mac.dials) != 0 {
		t.Errorf("Bootstrapped = %s, dialled %d times", got, len(w.mac.dials))
	}
}

// Without a key that can be read nothing is pushed. The Mac is as it was: bootstrapped,
// at its revision, and tried again in its time.
func TestAnUpdateWithoutTheFleetsKeysIsPutOff(t *testing.T) {
	for _, name := range []string{"builders-ssh", "builders-agent-signing"} {
		t.Run(name, func(t *testing.T) {
			w, wanted := profiled(t)
			before := w.machine("mac-1").Status.Applied
			secret := &corev1.Secret{}
			w.get(client.ObjectKey{Namespace: namespace, Name: name}, secret)
			good := secret.Data
			secret.Data = map[string][]byte{"note": []byte("nonsense")}
			w.update(secret)
			w.turn("mac-1", wanted)
			w.settle("mac-1")
			c := w.condition(infrav1.UpToDateCondition)
			if c.Reason != infrav1.ReasonHeld || !strings.Contains(c.Message, name) {
				t.Errorf("UpToDate = %s: %s", c.Reason, c.Message)
			}
			m := w.machine("mac-1")
			if m.Status.Phase != machine.PhaseRunning || m.Status.Applied != before || m.Status.Update.Failures != 0 {
				t.Errorf("phase %s, applied %+v, update %+v", m.Status.Phase, m.Status.Applied, m.Status.Update)
			}
			w.get(client.ObjectKeyFromObject(secret), secret)
			secret.Data = good
			w.update(secret)
			w.clock.SetTime(w.clock.Now().Add(rollout.HeldBackoff))
			w.settle("mac-1")
			if got := w.machine("mac-1").Status.Applied.Revision; got != wanted {
				t.Errorf("applied %.12s once the key is there, want %.12s", got, wanted)
			}
		})
	}
}

// A check that cannot be made holds up nothing else: that the Node is Ready again is seen.
func TestACheckWithoutTheFleetsKeyIsAFailedCheck(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.checks = 6 * time.Hour
	w.restart()
	w.running("mac-1")
	ready := func(status corev1.ConditionStatus) {
		t.Helper()
		node := &corev1.Node{}
		w.get(client.ObjectKey{Name: "mac-1"}, node)
		node.Status.Conditions[0].Status = status
		w.update(node)
	}
	ready(corev1.ConditionFalse)
	w.settle("mac-1")
	secret := &corev1.Secret{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "builders-ssh"}, secret)
	w.delete(secret)
	w.clock.SetTime(w.clock.Now().Add(6 * time.Hour))
	ready(corev1.ConditionTrue)
	w.rest()
	if got := w.machine("mac-1").Status.Phase; got != machine.PhaseRunning || w.mac.plans != 0 {
		t.Errorf("phase %s, checked %d times", got, w.mac.plans)
	}
	secret.ResourceVersion = ""
	w.create(secret)
	w.rest()
	if w.mac.plans != 0 {
		t.Error("checked again before its time")
	}
	w.clock.SetTime(w.clock.Now().Add(machine.RetryAfter(w.checks)))
	w.rest()
	if w.mac.plans != 1 {
		t.Errorf("checked %d times once the key is there", w.mac.plans)
	}
}

// A fleet's Secret that was deleted is made anew, and its Macs know another key:
// that is told.
func TestANewKeyOfAFleetThatHasMacsIsTold(t *testing.T) {
	for _, c := range []struct {
		name string
		told bool
	}{{"builders", true}, {"others", false}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(otherID))...)
			veteran := w.machine("mac-2")
			veteran.Labels = map[string]string{infrav1.FleetLabel: c.name}
			veteran.Spec.ProviderID = host.ProviderID(zone, serverID)
			w.update(veteran)
			w.settle("mac-1")
			told := slices.ContainsFunc(w.heard(), func(event string) bool { return strings.Contains(event, "FleetKeyReplaced") })
			if told != c.told {
				t.Errorf("told = %t, want %t", told, c.told)
			}
		})
	}
}

// A fleet that lost its signing key hears of it before the Macs refuse a build.
func TestANewSigningKeyOfAFleetThatHasMacsIsTold(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	told := func() bool {
		return slices.ContainsFunc(w.heard(), func(event string) bool {
			return strings.Contains(event, "SigningKeyReplaced") && strings.Contains(event, "Macs of fleet builders that know another key: 1")
		})
	}
	if told() {
		t.Error("the first key of a fleet is told as a loss")
	}
	m := w.machine("mac-1")
	m.Labels[infrav1.FleetLabel] = "builders"
	w.update(m)
	w.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builders-agent-signing"}})
	w.askRestart("mac-1", "first")
	w.settle("mac-1")
	if w.secret("builders-agent-signing")["private-key"] == "" || !told() {
		t.Error("another signing key was made, and nothing was said")
	}
	w.askRestart("mac-1", "second")
	w.settle("mac-1")
	if told() {
		t.Error("told twice")
	}
}

// Rotation: the Secret holds both keys while Macs may know the old one alone. Both
// are offered and both are left on the Macs, the new one is registered, and once the
// old one is taken out it is on no Mac any more.
func TestBothKeysOpenTheMacsWhileOneIsReplaced(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	first := w.secret("builders-ssh")
	w.r.DriftCheckInterval = time.Hour
	w.r.wire()
	next := newSSHSecret(t)
	rewrite := func(data map[string][]byte) {
		t.Helper()
		secret := &corev1.Secret{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "builders-ssh"}, secret); err != nil {
			t.Fatal(err)
		}
		secret.Data = data
		w.update(secret)
	}
	halves := func(d document.Desired) string { return strings.Join(d.SSHKeys, "\n") }
	old, new := strings.TrimSpace(first[fleetkey.KeyPublic]), strings.TrimSpace(string(next.Data[fleetkey.KeyPublic]))

	rewrite(map[string][]byte{fleetkey.KeyPrivate: next.Data[fleetkey.KeyPrivate], fleetkey.KeyPrevious: []byte(first[fleetkey.KeyPrivate])})
	w.askRestart("mac-1", "first")
	w.settle("mac-1")
	target, desired := w.mac.dials[len(w.mac.dials)-1], w.mac.desired[len(w.mac.desired)-1]
	if got := halves(desired); got != new+"\n"+old {
		t.Errorf("keys on the Mac = %q, want the new and the old", got)
	}
	if len(target.OtherKeys) != 1 || !strings.Contains(old, strings.Fields(string(ssh.MarshalAuthorizedKey(target.OtherKeys[0].PublicKey())))[1]) {
		t.Errorf("the old key is not offered: %v", target.OtherKeys)
	}
	if got := w.machine("mac-1").Status.Applied.SSHKey; got != fleetkey.Fingerprint(new) {
		t.Errorf("applied key = %s, want the new one", got)
	}
	if last := w.keys.calls[len(w.keys.calls)-1]; !strings.HasSuffix(last, new) {
		t.Errorf("registered last: %s", last)
	}

	rewrite(map[string][]byte{fleetkey.KeyPrivate: next.Data[fleetkey.KeyPrivate]})
	w.askRestart("mac-1", "second")
	w.settle("mac-1")
	target, desired = w.mac.dials[len(w.mac.dials)-1], w.mac.desired[len(w.mac.desired)-1]
	if len(target.OtherKeys) != 0 || halves(desired) != new {
		t.Errorf("%d other keys are offered, and the Mac has %q", len(target.OtherKeys), halves(desired))
	}

	rewrite(map[string][]byte{fleetkey.KeyPrivate: next.Data[fleetkey.KeyPrivate], fleetkey.KeyPrevious: []byte("nonsense")})
	if _, err := w.r.keys.ReadSSH(t.Context(), fleetsecret.Fleet{Namespace: namespace, Name: "builders"}); err == nil || !strings.Contains(err.Error(), fleetkey.KeyPrevious) {
		t.Errorf("a previous key that is none: %v", err)
	}
}
