package tart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A machine that cannot be looked at, as one that belongs to root, hides no other. A
// link to itself can be read by nobody, root included.
func TestAMachineThatCannotBeLookedAtHidesNoOther(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"somebody-else", "tk-a-0"} {
		if err := os.MkdirAll(filepath.Join(home, "vms", name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("config.json", filepath.Join(home, "vms", "somebody-else", "config.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "vms", "tk-a-0", "config.json"), []byte(`{"os":"darwin"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := New(Options{Path: "/bin/false", Home: home})
	got, err := d.Machines(t.Context())
	if err != nil || len(got) != 2 {
		t.Fatalf("machines %+v, err %v", got, err)
	}
	if m := got[0]; m.Unseen == nil || !m.Running || !m.MacOS {
		t.Errorf("a machine that cannot be looked at: %+v", m)
	}
	if want := (vm.Machine{Name: "tk-a-0", MacOS: true}); got[1] != want {
		t.Errorf("got %+v, want %+v", got[1], want)
	}
	if _, err := d.Machine(t.Context(), "somebody-else"); err == nil {
		t.Error("asked for it alone, it can be looked at")
	}
}
