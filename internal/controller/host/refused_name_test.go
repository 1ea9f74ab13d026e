package host

import (
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// A wiped Mac whose pool name is refused is in no pool.
func TestAPoolNameThatIsRefusedForEverIsCounted(t *testing.T) {
	w := inUse(t)
	over := w.refusing("RenameServer", cloud.KindTransient)
	w.release()
	w.untilReinstalling()
	if blockedHosts(w, "unnamed") != 0 {
		t.Error("counted before it is wiped")
	}
	w.cloud.Finish(serverID)
	w.until("wiped", func() bool { return w.host().Spec.Record.Wipe.ObservedAt != nil })
	if blockedHosts(w, "unnamed") != 0 {
		t.Error("counted at once")
	}
	w.goesOn(time.Hour)
	if w.phase() != infrav1.HostWiping || blockedHosts(w, "unnamed") != 1 {
		t.Errorf("phase %s, counted %v", w.phase(), blockedHosts(w, "unnamed"))
	}
	w.checkSays(infrav1.AvailableCondition, "the vendor refuses: ")
	*over = true
	w.untilPhase(infrav1.HostAvailable)
	if blockedHosts(w, "unnamed") != 0 {
		t.Error("counted though it is free")
	}
	w.checkFree()
}
