package machine

import (
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
)

// claimedWithProfile is claimed, under a profile that can be changed.
func claimedWithProfile(t *testing.T) *world {
	t.Helper()
	objects := pair("mac-1")
	objects[1].(*infrav1.ScalewayAppleSiliconMachine).Spec.ProfileRef = &infrav1.ProfileReference{Name: "builders"}
	profile := &infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builders"}}
	w := newWorld(t, append(objects, poolHost(serverID), profile)...)
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	return w
}

func (w *world) editProfile(change func(*infrav1.MacNodeProfileSpec)) {
	w.t.Helper()
	profile := &infrav1.MacNodeProfile{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "builders"}, profile)
	change(&profile.Spec)
	w.update(profile)
}

func relabel(spec *infrav1.MacNodeProfileSpec) {
	spec.Node.Labels = map[string]infrav1.LabelValue{"team": "ios"}
}

// duringThePush does something once, while the Mac converges and after its Node has joined.
func (w *world) duringThePush(do func()) {
	var once sync.Once
	w.mac.set(func(m *fakeMac) { m.onConverge = func() { once.Do(func() { w.join("mac-1"); do() }) } })
}

// A Mac that has joined runs guests. That its first push is over counts whatever its inputs
// have become meanwhile: else it is pushed to out of its turn, rebooted and wiped.
func TestAFirstPushCountsWhateverIsWantedSince(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(w *world)
		upToDate string
	}{
		"the profile": {func(w *world) { w.editProfile(relabel) }, infrav1.ReasonDrifted},
		"the profile, to what cannot be": {func(w *world) {
			w.editProfile(func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels = map[string]infrav1.LabelValue{"a b": ""} })
		}, infrav1.ReasonInvalidProfile},
		"the profile, which is gone": {func(w *world) {
			w.delete(&infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builders"}})
		}, ""},
		"the address":       {func(w *world) { w.poke(host.KeyAddress, "10.0.0.9") }, infrav1.UpToDateCondition},
		"the address, lost": {func(w *world) { w.poke(host.KeyAddress, "") }, ""},
		"the password":      {func(w *world) { w.poke(host.KeySudoPassword, "") }, infrav1.UpToDateCondition},
		"the serial number": {func(w *world) {
			h := w.host(hostName)
			h.Spec.AcceptSerial = "C07"
			w.update(h)
		}, infrav1.UpToDateCondition},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimedWithProfile(t)
			w.duringThePush(func() { c.change(w) })
			w.settle("mac-1")
			m := w.machine("mac-1")
			if m.Spec.ProviderID != host.ProviderID(zone, serverID) || len(w.mac.desired) != 1 {
				t.Fatalf("providerID = %q after %d pushes; want it recorded after one", m.Spec.ProviderID, len(w.mac.desired))
			}
			if pushed := w.mac.desired[0]; m.Status.Applied.Revision != document.Revision(pushed) || m.Status.Applied.Agent != pushed.Agent.SHA256 || m.Status.Applied.SSHKey == "" {
				t.Errorf("applied = %+v, want what was pushed", m.Status.Applied)
			}
			if got := w.reason("mac-1", infrav1.UpToDateCondition); got != c.upToDate {
				t.Errorf("UpToDate = %s, want %s", got, c.upToDate)
			}
		})
	}
}

// spec.providerID is there, and the manager does not know it: what the Mac runs is recorded
// none the less, or a Mac whose Node is slow would be pushed to out of its turn.
func TestAFirstPushCountsAfterALostAnswer(t *testing.T) {
	w := claimedWithProfile(t)
	w.mac.set(func(m *fakeMac) { m.onConverge = func() { w.editProfile(relabel) } })
	w.loseOnce(errPlain, func(o client.Object) bool {
		m, is := o.(*infrav1.ScalewayAppleSiliconMachine)
		return is && m.Spec.ProviderID != ""
	})
	w.look(5)
	if m := w.machine("mac-1"); len(w.mac.desired) != 1 || m.Status.Applied.Revision != document.Revision(w.mac.desired[0]) {
		t.Errorf("applied %+v after %d pushes; want what was pushed, and one", m.Status.Applied, len(w.mac.desired))
	}
}

// What a push made of a Mac is nothing of the Mac after a wipe, or under another claim.
func TestAProofIsOfOneClaimAndInstallEpoch(t *testing.T) {
	for name, c := range map[string]struct {
		run  job.Run
		want bool
	}{
		"this one's":       {job.Run{Done: true, Found: proof{token: "t-1", epoch: 2}}, true},
		"it failed":        {job.Run{Done: true, Found: proof{token: "t-1", epoch: 2}, Result: errPlain}, false},
		"another claim's":  {job.Run{Done: true, Found: proof{token: "t-0", epoch: 2}}, false},
		"before the wipe":  {job.Run{Done: true, Found: proof{token: "t-1", epoch: 1}}, false},
		"it runs":          {job.Run{}, false},
		"it never began":   {job.Run{Done: true, Result: errPlain}, false},
		"an update's, too": {job.Run{ID: updatePrefix, Done: true, Found: proof{token: "t-1", epoch: 2}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &infrav1.ScalewayAppleSiliconMachine{}
			m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "t-1"}
			h := &host.Host{}
			h.Spec.Record.InstallEpoch = 2
			v := &visit{Snapshot: machine.Snapshot{Machine: m, Host: h}}
			if _, got := v.provedBy(c.run); got != c.want {
				t.Errorf("proved = %t, want %t", got, c.want)
			}
		})
	}
}

// The Mac was reinstalled while the push ended: its Node of before is none.
func TestAFirstPushBeforeAWipeDoesNotCount(t *testing.T) {
	w := claimedWithProfile(t)
	w.duringThePush(func() {
		h := w.host(hostName)
		h.Spec.Record.InstallEpoch++
		w.update(h)
	})
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.ProviderID != "" || !strings.Contains(w.message("mac-1", infrav1.BootstrappedCondition), "not staged") {
		t.Errorf("providerID = %q, Bootstrapped says %q; want it to wait for the credentials of the new OS", m.Spec.ProviderID, w.message("mac-1", infrav1.BootstrappedCondition))
	}
}
