package main

import (
	"maps"
	"slices"
	"testing"
)

// TestContract_NamespaceBoundsWhatIsWatched: several instances share a cluster, each with a
// namespace of its own.
func TestContract_NamespaceBoundsWhatIsWatched(t *testing.T) {
	if got := cacheOf("").DefaultNamespaces; len(got) != 0 {
		t.Errorf("without a namespace only %v is watched", got)
	}
	if got := slices.Collect(maps.Keys(cacheOf("fleet").DefaultNamespaces)); !slices.Equal(got, []string{"fleet"}) {
		t.Errorf("watched: %q, want fleet alone", got)
	}
}
