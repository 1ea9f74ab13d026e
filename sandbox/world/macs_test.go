package world

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

func TestAMacHasTheMemoryThatAppleSells(t *testing.T) {
	for _, kind := range scaleway.DefaultCatalogue().Types {
		if kind.Name != ServerType {
			continue
		}
		got := factsOf(scaleway.Install{ServerID: "0123456789", Type: kind})
		// hw.memsize of a Mac with 16 GB
		want := mac.Facts{Model: "Mac14,12", Serial: "SIM01234567", CPUs: 10, MemoryBytes: 17179869184, DiskBytes: 512_000_000_000}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
		return
	}
	t.Fatalf("the vendor has no %s", ServerType)
}
