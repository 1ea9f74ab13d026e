package e2e

import (
	"fmt"
	"net/http"
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestRefusedRenameIsRepeated: while a host is being reinstalled the vendor refuses
// its new name. The host stays Wiping and the rename is repeated until it reads
// back.
func TestRefusedRenameIsRepeated(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 1})
	f.awaitPool(1)
	f.scale(1)
	f.awaitRunning(1)
	id := f.hosts()[0].Spec.ServerID
	renamesBefore := len(f.calls("UpdateServer"))
	// Refused more often than a reinstall lasts: also on the ready host.
	_, err := f.world.Vendor().Arm(scaleway.Fault{
		Call: "UpdateServer", Server: id, Count: 6, Error: "transient_state",
	})
	if err != nil {
		t.Fatal(err)
	}

	f.scale(0)
	f.await("refused renames", func() (string, bool) {
		// Looked at before the calls: an accepted rename that is not among them came later.
		available := f.inPhase(infrav1.HostAvailable) != 0
		refused, accepted := 0, 0
		for _, call := range f.calls("UpdateServer")[renamesBefore:] {
			switch call.Status {
			case http.StatusConflict:
				refused++
			case http.StatusOK:
				accepted++
			}
		}
		if available && accepted == 0 {
			t.Fatal("the host is Available before its rename was accepted")
		}
		return fmt.Sprint(refused, " refused"), refused == 6
	})
	f.awaitPool(1)
	if server := f.server(id); server.Name != world.PoolPrefix+id || server.Installs != 2 {
		t.Errorf("server is %q after %d installs, want its pool name after 2", server.Name, server.Installs)
	}
}
