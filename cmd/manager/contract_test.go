package main

import (
	"maps"
	"slices"
	"testing"
)

// TestContract_NamespaceBoundsWhatIsWatched: several instances share a cluster, each with a
// namespace of its own.
func TestContract_NamespaceBoundsWhatIsWatched(t *testing.T) {
	for namespace, want := range map[string][]string{"": nil, "fleet": {"fleet"}} {
		env := environment()
		s, err := parse([]string{"--namespace=" + namespace}, func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		watched := s.options(nil, "macfleet-system").Cache.DefaultNamespaces
		if got := slices.Collect(maps.Keys(watched)); !slices.Equal(got, want) {
			t.Errorf("--namespace=%s watches %q, want %q", namespace, got, want)
		}
	}
}
