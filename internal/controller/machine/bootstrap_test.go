package machine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/fleetkey"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/remote"
)

// claimed is a world whose mac-1 holds a host, with its credentials staged.
func claimed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	return w
}

func TestBootstrap(t *testing.T) {
	w := claimed(t)
	w.settle("mac-1")
	m := w.machine("mac-1")
	if m.Spec.ProviderID != host.ProviderID(zone, serverID) || !ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Fatalf("providerID = %q, status = %+v: want it provisioned", m.Spec.ProviderID, m.Status)
	}
	desired := w.mac.desired[0]
	if desired.Join == nil || desired.Join.Server != "https://api.example:6443" || string(desired.Join.CA) != "ca" {
		t.Fatalf("join = %+v, want cluster-info's server", desired.Join)
	}
	want := infrav1.AppliedStatus{Revision: document.Revision(desired), Agent: w.r.Agent.SHA256, SSHKey: fleetkey.Fingerprint(desired.SSHKeys[0])}
	if m.Status.Applied != want || m.Status.FailureDomain != zone || len(m.Status.Addresses) != 2 {
		t.Errorf("status = %+v, want applied %+v, zone and addresses", m.Status, want)
	}
	if got := w.reason("mac-1", infrav1.NodeReadyCondition); got != infrav1.ReasonWaitingForNode {
		t.Errorf("NodeReady = %s, want %s", got, infrav1.ReasonWaitingForNode)
	}
	if desired.Host.User != "m1" || desired.Host.Epoch != 1 || desired.Host.Fleet != "builders" || desired.Node.MaxVMs != 2 || len(desired.Node.Taints) != 1 {
		t.Errorf("desired = %+v", desired)
	}
}

// The agent makes its Node with what the document says: its Machine's.
func TestContract_TheMacIsToldItsMachinesProviderID(t *testing.T) {
	w := claimed(t)
	w.settle("mac-1")
	want := w.machine("mac-1").Spec.ProviderID
	if want == "" || len(w.mac.desired) != 1 {
		t.Fatalf("providerID = %q after %d pushes", want, len(w.mac.desired))
	}
	if got := w.mac.desired[0].Host.ProviderID; got != want {
		t.Errorf("the Mac is told %q, its Machine has %q", got, want)
	}
}

func TestTheTokenEndsWithTheNodeReady(t *testing.T) {
	w := claimed(t)
	w.settle("mac-1")
	ids := w.tokens()
	if secret := w.secret("mac-1-bootstrap"); len(ids) != 1 || secret[host.KeyTokenID] != ids[0] {
		t.Fatalf("tokens = %q, remembered %q", ids, w.secret("mac-1-bootstrap")[host.KeyTokenID])
	}
	if token := w.mac.desired[0].Join; !strings.HasPrefix(token.Token, ids[0]+".") || token.Permit.ID == "" || !token.Permit.NotAfter.Equal(start().Add(time.Hour)) {
		t.Errorf("permit = %+v, want one hour", token.Permit)
	}
	w.join("mac-1")
	w.settle("mac-1")
	if ids := w.tokens(); len(ids) != 0 {
		t.Errorf("tokens = %q, want none once the Node is Ready", ids)
	}
	if _, remembered := w.secret("mac-1-bootstrap")[host.KeyTokenID]; remembered {
		t.Error("the token's id is still remembered")
	}
	if m := w.machine("mac-1"); m.Status.Phase != machine.PhaseRunning {
		t.Errorf("phase = %s", m.Status.Phase)
	}
}

func TestNothingSecretBeforeTheRecord(t *testing.T) {
	w := claimed(t)
	checked := false
	w.mac.onGrant = func() {
		checked = true
		record := w.host(hostName).Spec.Record
		if record.HostKey == nil || record.HostKey.SHA256 != hostKeyShown().SHA256 || record.HostKey.Epoch != 1 {
			t.Errorf("pin = %+v when the password is sent", record.HostKey)
		}
		if len(record.PasswordAttempts) != 1 || strings.Contains(record.PasswordAttempts[0].Digest, "secret") {
			t.Errorf("attempts = %+v when the password is sent, want its digest", record.PasswordAttempts)
		}
		if mirror := w.secret("mac-1-bootstrap"); mirror[host.KeyHostKey] != "ssh-ed25519 SHA256:first" || mirror[host.KeyPasswordAttempts] == "" {
			t.Errorf("mirror = %q, %q when the password is sent", mirror[host.KeyHostKey], mirror[host.KeyPasswordAttempts])
		}
	}
	w.settle("mac-1")
	if !checked {
		t.Error("no password was sent")
	}
}

func TestAPasswordHasOneAttempt(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) { m.grantErr = &remote.GrantRefused{Outcome: remote.PasswordRejected} })
	for range 3 {
		w.settle("mac-1")
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
	}
	w.restart()
	w.settle("mac-1")
	if len(w.mac.passwords) != 1 {
		t.Fatalf("sent %d times, want once", len(w.mac.passwords))
	}
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonMissingSudoPassword {
		t.Errorf("Bootstrapped = %s", got)
	}
	w.mac.set(func(m *fakeMac) { m.grantErr = nil })
	w.stage("mac-1", "secret-2")
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle("mac-1")
	if !slices.Equal(w.mac.passwords, []string{"secret-1", "secret-2"}) || w.machine("mac-1").Spec.ProviderID == "" {
		t.Errorf("sent %q, providerID = %q; want another password to get its attempt", w.mac.passwords, w.machine("mac-1").Spec.ProviderID)
	}
}

func TestFailuresAreCountedOnceAndBackOff(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) {
		m.dialErr = &remote.Unreachable{Phase: remote.PhaseDial, Err: errPlain}
	})
	result := w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonSSHUnreachable {
		t.Errorf("Bootstrapped = %s", got)
	}
	if m := w.machine("mac-1"); m.Status.Bootstrap.Attempts != 1 || m.Status.Bootstrap.LastError == nil || m.Status.Bootstrap.LastError.Step != push.StepDial {
		t.Errorf("bootstrap = %+v, want one attempt", m.Status.Bootstrap)
	}
	if result.RequeueAfter < 5*time.Second || result.RequeueAfter > 10*time.Second {
		t.Errorf("tries again after %s", result.RequeueAfter)
	}
	w.settle("mac-1")
	if len(w.mac.dials) != 1 {
		t.Errorf("dialled %d times before the back-off ended", len(w.mac.dials))
	}
	w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
	w.settle("mac-1")
	if attempts := w.host(hostName).Spec.Record.Bootstrap.Attempts; attempts != 2 || len(w.mac.dials) != 2 {
		t.Errorf("attempts = %d, dials = %d; want 2", attempts, len(w.mac.dials))
	}
	w.mac.set(func(m *fakeMac) { m.dialErr = nil })
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.ProviderID == "" || m.Status.Bootstrap.LastError != nil {
		t.Errorf("after a success: %+v", m.Status.Bootstrap)
	}
}

func TestAnotherHostKeyInTheEpochIsRefused(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) { m.convErr = &remote.Failed{Class: document.Retry} })
	w.settle("mac-1")
	w.mac.set(func(m *fakeMac) { m.answer.SHA256 = "SHA256:other"; m.convErr = nil; m.sudo = false })
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonHostKeyMismatch {
		t.Errorf("Bootstrapped = %s", got)
	}
	if len(w.mac.passwords) != 1 || w.host(hostName).Spec.Record.HostKey.SHA256 != "SHA256:first" {
		t.Errorf("passwords sent %d times, pin = %+v; want nothing more, and the old pin", len(w.mac.passwords), w.host(hostName).Spec.Record.HostKey)
	}
}

// The key of an OS that is no more is nobody's to present.
func TestAHostKeyOfAnEarlierEpochIsNoPin(t *testing.T) {
	w := claimed(t)
	h := w.host(hostName)
	h.Spec.Record.HostKey = &infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:old", Epoch: h.Spec.Record.InstallEpoch - 1}
	w.update(h)
	w.settle("mac-1")
	if pin := w.host(hostName).Spec.Record.HostKey; pin.SHA256 != hostKeyShown().SHA256 || w.machine("mac-1").Spec.ProviderID == "" {
		t.Errorf("pin = %+v, Bootstrapped = %s; want the key of today's OS", pin, w.reason("mac-1", infrav1.BootstrappedCondition))
	}
}

func TestAFailedConvergeTakesTheTokenBack(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) {
		m.convErr = &remote.Failed{Class: document.Human, Report: document.Report{Steps: []document.StepReport{{Name: "launchd", Outcome: document.Failed, Class: document.Human}}}}
	})
	result := w.settle("mac-1")
	if ids := w.tokens(); len(ids) != 0 {
		t.Errorf("tokens = %q, want none", ids)
	}
	m := w.machine("mac-1")
	if last := m.Status.Bootstrap.LastError; last == nil || last.Step != "launchd" || last.Class != string(document.Human) {
		t.Errorf("last error = %+v, want the step on the Mac", last)
	}
	if m.Spec.ProviderID != "" || result.RequeueAfter < 30*time.Minute {
		t.Errorf("providerID = %q, tries again after %s", m.Spec.ProviderID, result.RequeueAfter)
	}
}

func TestEndpointUnknown(t *testing.T) {
	w := claimed(t)
	w.delete(clusterInfo())
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonEndpointUnknown || len(w.mac.desired) != 0 {
		t.Errorf("Bootstrapped = %s, converged %d times", got, len(w.mac.desired))
	}
}

func TestTheMacIsNotTouchedBeforeItsNameStays(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"no credentials": func(w *world) {
			w.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mac-1-bootstrap"}})
		},
		"not delivered":    func(w *world) { h := w.host(hostName); h.Status.Server.Delivered = false; w.updateStatus(h) },
		"name not in sync": func(w *world) { h := w.host(hostName); h.Status.Conditions = nil; w.updateStatus(h) },
		"other claim":      func(w *world) { w.poke(host.KeyClaimToken, "older") },
		"other epoch":      func(w *world) { w.poke(host.KeyInstallEpoch, "7") },
		"no address":       func(w *world) { w.poke(host.KeyAddress, "") },
	} {
		t.Run(name, func(t *testing.T) {
			w := claimed(t)
			spoil(w)
			w.settle("mac-1")
			if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonWaitingForHost || len(w.mac.dials) != 0 {
				t.Errorf("Bootstrapped = %s, dialled %d times", got, len(w.mac.dials))
			}
		})
	}
}

// poke changes one key of mac-1's Secret.
func (w *world) poke(key, value string) {
	w.t.Helper()
	if err := w.r.secrets.Patch(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "mac-1"}, map[string]*string{key: &value}); err != nil {
		w.t.Fatal(err)
	}
}

// providerID is for good: it is written only while the Machine still means the
// host whose Mac was converged.
func TestNoProviderIDFromAnOldCopy(t *testing.T) {
	w := claimed(t)
	w.once(func(verb string, o client.Object) bool {
		m, is := o.(*infrav1.ScalewayAppleSiliconMachine)
		return is && verb == "patch" && m.Spec.ProviderID != ""
	}, func() {
		m := w.machine("mac-1")
		m.Spec.HostRef = nil
		w.update(m)
	})
	w.visit("mac-1")
	w.awaitJobs(types.NamespacedName{Namespace: namespace, Name: "mac-1"})
	w.visit("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef != nil || m.Spec.ProviderID != "" {
		t.Errorf("hostRef = %+v, providerID = %q; want neither", m.Spec.HostRef, m.Spec.ProviderID)
	}
}

func TestALeavingMachineGetsNoPermit(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	core := &clusterv1.Machine{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "mac-1"}, core)
	core.Finalizers = []string{clusterv1.MachineFinalizer}
	w.update(core)
	w.delete(core)
	w.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}})
	w.settle("mac-1")
	if len(w.mac.desired) != 1 {
		t.Error("a Mac was told to join again while its Machine is being deleted")
	}
}

// What a Mac runs is forgotten when its Machine is moved, or its status is lost.
// Nothing is pushed to a Mac that runs before it is its turn: a fleet that was moved
// would be changed all at once.
func TestALostStatusIsFoundAgain(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	before := w.machine("mac-1")
	lost := before.DeepCopy()
	lost.Status = infrav1.ScalewayAppleSiliconMachineStatus{}
	w.updateStatus(lost)
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.UpToDateCondition); len(w.mac.desired) != 1 || got != infrav1.ReasonDrifted {
		t.Errorf("%d pushes, UpToDate = %s; want one, and Drifted before the turn", len(w.mac.desired), got)
	}
	w.turn("mac-1", before.Status.Applied.Revision)
	w.settle("mac-1")
	after := w.machine("mac-1")
	if after.Spec.HostRef.ClaimToken != before.Spec.HostRef.ClaimToken || after.Status.Applied != before.Status.Applied || after.Status.Phase != machine.PhaseRunning {
		t.Errorf("after = %+v %+v", after.Spec, after.Status)
	}
	if last := w.mac.desired[len(w.mac.desired)-1]; last.Join != nil || len(w.tokens()) != 0 {
		t.Error("a Node that is there needs no token")
	}
}

func TestAQuietMachineWritesNothing(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	before := w.countWrites()
	for range 3 {
		w.visit("mac-1")
	}
	if w.countWrites() != before {
		t.Errorf("wrote %q", w.writes[before:])
	}
}

// A manager that dies in the middle of a push loses the job; the next one begins
// again, and leaves one token behind at most.
func TestACrashInThePushIsMadeUpFor(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) { m.hold = true })
	w.visit("mac-1")
	w.awaitPush(func(run job.Run) bool { return run.Step == push.StepConverge })
	old := w.r
	w.restart()
	old.pushes.Wait()
	w.mac.set(func(m *fakeMac) { m.hold = false })
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.ProviderID == "" || len(w.tokens()) != 1 || len(w.mac.passwords) != 1 {
		t.Errorf("providerID = %q, tokens = %q, passwords sent %d times", m.Spec.ProviderID, w.tokens(), len(w.mac.passwords))
	}
}

// With leader election off, another manager may mint its own token while ours is
// on the way. Neither may then be taken for delivered, whichever write came last.
func TestAReplacedTokenIsNotTakenForDelivered(t *testing.T) {
	for name, replace := range map[string]func(w *world){
		"in the Secret": func(w *world) { w.poke(host.KeyTokenID, "theirs") },
		"on the host": func(w *world) {
			h := w.host(hostName)
			h.Spec.Record.Bootstrap.TokenID = "theirs"
			w.update(h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimed(t)
			replaced := false
			w.mac.onConverge = func() {
				if !replaced {
					replaced = true
					replace(w)
				}
			}
			w.settle("mac-1")
			if secret := w.secret("mac-1-bootstrap"); secret[bootstrapsecret.KeyTokenExpiry] != "" || w.machine("mac-1").Spec.ProviderID != "" {
				t.Fatalf("the token counts as delivered until %s", secret[bootstrapsecret.KeyTokenExpiry])
			}
			if n := w.host(hostName).Spec.Record.Bootstrap.Attempts; n != 0 {
				t.Errorf("%d failures are the Mac's", n)
			}
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.settle("mac-1")
			if w.machine("mac-1").Spec.ProviderID == "" || w.secret("mac-1-bootstrap")[bootstrapsecret.KeyTokenExpiry] == "" {
				t.Error("the next push does not make up for it")
			}
		})
	}
}

// What a Mac is told to register its Node with is on its Host before it is told: the
// profile may want it no more when the Node shows.
func TestWhatAMacIsToldOfItsNodeIsOnRecordBefore(t *testing.T) {
	profile := &infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builders"}}
	profile.Spec.Node.Labels = map[string]infrav1.LabelValue{"team": "ios"}
	objects := append(pair("mac-1"), poolHost(serverID), profile)
	objects[1].(*infrav1.ScalewayAppleSiliconMachine).Spec.ProfileRef = &infrav1.ProfileReference{Name: "builders"}
	w := newWorld(t, objects...)
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	var known []infrav1.RegistrationRecord
	w.mac.onConverge = func() {
		if record := w.host(hostName).Spec.Record.Registration; record != nil {
			known = append(known, *record)
		}
	}
	w.mac.set(func(m *fakeMac) { m.convErr = errPlain })
	w.settle("mac-1")
	w.get(client.ObjectKeyFromObject(profile), profile)
	profile.Spec.Node.Labels, profile.Spec.Node.Taints = nil, &[]infrav1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoExecute}}
	w.update(profile)
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle("mac-1")
	want := []infrav1.RegistrationRecord{
		{Labels: []string{"team"}, Taints: []string{"tuist.dev/macos:NoSchedule"}},
		{Labels: []string{"team"}, Taints: []string{"tuist.dev/macos:NoSchedule", "mine:NoExecute"}},
	}
	if diff := cmp.Diff(want, known); diff != "" {
		t.Errorf("on record while the Mac converged (-want +got)\n%s", diff)
	}
}
