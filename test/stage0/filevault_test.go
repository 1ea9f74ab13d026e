package stage0

import (
	"testing"

	"github.com/macfleet/macfleet/internal/remote"
)

// fdesetup calls a FileVault off that the next login turns on, and tells of it in another line:
// nothing may be converged that logs somebody in.
func TestADeferredFileVaultCountsAsOn(t *testing.T) {
	b := newBench(t)
	f := b.Facts()
	f.FileVaultDeferredFor = "m1"
	if err := b.SetFacts(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if got := b.probe(b.session()).FileVault; got != remote.On {
		t.Errorf("FileVault is %q, want it to count as on", got)
	}
}
