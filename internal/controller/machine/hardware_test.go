package machine

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/push"
)

// known is a Mac that a Machine had before: it was wiped since, and in the new install
// epoch its host key is pinned by whoever answers first.
func known(t *testing.T) *world {
	t.Helper()
	h := poolHost(serverID)
	h.Spec.Record.Hardware = &infrav1.HostHardware{Serial: "C02FIRST", PlatformUUID: "6BA7B810"}
	w := newWorld(t, append(pair("mac-1"), h)...)
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	return w
}

// Somebody on the network who answers at first contact gets no password of a Mac that
// was known before.
func TestAnotherMacAtFirstContactGetsNoPassword(t *testing.T) {
	for name, c := range map[string]struct {
		facts push.Facts
		says  string
	}{
		"another serial number": {push.Facts{Serial: "C02OTHER", PlatformUUID: "6BA7B810"}, `"C02OTHER"`},
		"another board":         {push.Facts{Serial: "C02FIRST", PlatformUUID: "F00D"}, `"F00D"`},
		"it shows nothing":      {push.Facts{}, "not shown"},
	} {
		t.Run(name, func(t *testing.T) {
			w := known(t)
			w.mac.facts = c.facts
			w.settle("mac-1")
			got := w.condition(infrav1.BootstrappedCondition)
			if got.Reason != infrav1.ReasonWrongHardware || !strings.Contains(got.Message, c.says) || !strings.Contains(got.Message, "spec.acceptSerial") {
				t.Errorf("Bootstrapped = %+v, want %s with %s and what to do", got, infrav1.ReasonWrongHardware, c.says)
			}
			if len(w.mac.passwords) != 0 || w.mac.received != 0 || len(w.mac.desired) != 0 {
				t.Errorf("%d passwords, %d builds and %d documents were sent", len(w.mac.passwords), w.mac.received, len(w.mac.desired))
			}
			if got := *w.host(hostName).Spec.Record.Hardware; got.Serial != "C02FIRST" {
				t.Errorf("the record became %+v", got)
			}
		})
	}
}

// The vendor may exchange a Mac behind a server: a person names the new one, and is
// not kept waiting for it.
func TestAnExchangedMacIsAccepted(t *testing.T) {
	w := known(t)
	w.mac.facts = push.Facts{Serial: "C02OTHER", PlatformUUID: "F00D"}
	w.settle("mac-1")
	if len(w.mac.passwords) != 0 {
		t.Fatal("the password was sent before anybody accepted the Mac")
	}
	h := w.host(hostName)
	h.Spec.AcceptSerial = "C02OTHER"
	w.update(h)
	w.settle("mac-1")
	h = w.host(hostName)
	if h.Spec.Record.Hardware == nil || *h.Spec.Record.Hardware != (infrav1.HostHardware{Serial: "C02OTHER", PlatformUUID: "F00D"}) || h.Spec.AcceptSerial != "" {
		t.Errorf("hardware = %+v, acceptSerial = %q", h.Spec.Record.Hardware, h.Spec.AcceptSerial)
	}
	if w.machine("mac-1").Spec.ProviderID == "" || len(w.mac.passwords) != 1 {
		t.Errorf("%d passwords sent, conditions %+v", len(w.mac.passwords), w.machine("mac-1").Status.Conditions)
	}
}

func TestTheHardwareIsLearnedOnce(t *testing.T) {
	w := claimed(t)
	w.mac.facts = push.Facts{Serial: "C02FIRST", PlatformUUID: "6BA7B810"}
	w.settle("mac-1")
	want := infrav1.HostHardware{Serial: "C02FIRST", PlatformUUID: "6BA7B810"}
	if got := w.host(hostName).Spec.Record.Hardware; got == nil || *got != want {
		t.Fatalf("hardware = %+v", got)
	}
	if got := w.secret("mac-1-bootstrap")[host.KeyHardware]; got != "C02FIRST 6BA7B810" {
		t.Errorf("mirror = %q", got)
	}
	var record infrav1.HostRecord
	secret, err := w.r.secrets.Read(t.Context(), client.ObjectKey{Namespace: namespace, Name: "mac-1"})
	if err != nil {
		t.Fatal(err)
	}
	secret.Restore(&record, secret.ClaimToken)
	if record.Hardware == nil || *record.Hardware != want {
		t.Errorf("a Host that was lost gets %+v back", record.Hardware)
	}
	w.join("mac-1")
	w.settle("mac-1")
	pushes := len(w.mac.desired)
	w.mac.set(func(f *fakeMac) { f.facts.Serial = "C02OTHER" })
	w.askRestart("mac-1", "now")
	w.settle("mac-1")
	if c := w.condition(infrav1.BootstrappedCondition); c.Reason != infrav1.ReasonWrongHardware || len(w.mac.desired) != pushes {
		t.Errorf("Bootstrapped = %+v after %d pushes more", c, len(w.mac.desired)-pushes)
	}
}
