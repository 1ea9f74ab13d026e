package tart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A machine that cannot be looked at, as one that belongs to root, hides no other, and one
// whose configuration is broken is counted as a Mac. A link to itself can be read by
// nobody, root included.
func TestAMachineThatCannotBeLookedAtHidesNoOther(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"somebody-else", "tk-a-0", "tk-b-0"} {
		if err := os.MkdirAll(filepath.Join(home, "vms", name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("config.json", filepath.Join(home, "vms", "somebody-else", "config.json")); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]string{"tk-a-0": `{"os":"darwin"}`, "tk-b-0": `{"os":"linux","cpuCountMin":"two"}`} {
		if err := os.WriteFile(filepath.Join(home, "vms", name, "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := New(Options{Path: "/bin/false", Home: home})
	got, err := d.Machines(t.Context())
	if err != nil || len(got) != 3 {
		t.Fatalf("machines %+v, err %v", got, err)
	}
	if m := got[0]; m.Unseen == nil || !m.Running || !m.MacOS {
		t.Errorf("a machine that cannot be looked at: %+v", m)
	}
	for i, name := range []string{"tk-a-0", "tk-b-0"} {
		if want := (vm.Machine{Name: name, MacOS: true}); got[i+1] != want {
			t.Errorf("got %+v, want %+v", got[i+1], want)
		}
	}
	if _, err := d.Machine(t.Context(), "somebody-else"); err == nil {
		t.Error("asked for it alone, it can be looked at")
	}
}
