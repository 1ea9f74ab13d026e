package slot

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func mac(name string) vm.Machine { return vm.Machine{Name: name, Running: true, MacOS: true} }

func TestLostPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		machines []vm.Machine
		want     int
	}{
		"nothing runs":           {nil, 2},
		"one of ours":            {[]vm.Machine{mac("tk-a-1")}, 1},
		"two of ours":            {[]vm.Machine{mac("tk-a-1"), mac("tk-b-1")}, 0},
		"ours and a foreign one": {[]vm.Machine{mac("tk-a-1"), mac("mine")}, 0},
		"a Linux guest":          {[]vm.Machine{{Name: "linux", Running: true}}, 2},
		"stopped ones":           {[]vm.Machine{{Name: "tk-a-1", MacOS: true}, mac("mine")}, 1},
		"more than the licence":  {[]vm.Machine{mac("a"), mac("b"), mac("c")}, 0},
	} {
		if got := lost(c.machines); got != c.want {
			t.Errorf("%s: %d lost, want %d", name, got, c.want)
		}
	}
}

func opened(t *testing.T, file, boot string) *Gate {
	t.Helper()
	return Open(Options{Limit: 2, File: file, BootSession: boot, Log: slog.New(slog.DiscardHandler)})
}

// told reports whether a channel of Changed has spoken.
func told(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	default:
		return false
	}
}

func TestALeakLowersTheLimitUntilTheNextBoot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slots.json")
	g := opened(t, file, "boot-1")
	g.Adopt("a")
	changed := g.Changed()
	if got := g.Limited([]vm.Machine{mac("tk-a-1")}); got != 1 || g.limit() != 1 || g.Free() != 0 {
		t.Fatalf("%d lost, limit %d, %d free; want 1, 1, 0", got, g.limit(), g.Free())
	}
	if !told(changed) {
		t.Error("nobody was told")
	}
	if d := cmp.Diff(State{Allocatable: 1, Leaked: 1}, g.State()); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
	again := opened(t, file, "boot-1")
	if again.Leaked() != 1 || again.limit() != 1 {
		t.Errorf("another process knows of %d lost places, limit %d", again.Leaked(), again.limit())
	}
	if g := opened(t, file, "boot-2"); g.Leaked() != 0 || g.limit() != 2 {
		t.Errorf("after a reboot %d are lost, limit %d", g.Leaked(), g.limit())
	}
}

// A refusal that two running guests explain is no leak, and a leak does not heal by
// a later refusal.
func TestOnlyMoreIsLost(t *testing.T) {
	g := opened(t, "", "boot-1")
	changed := g.Changed()
	if got := g.Limited([]vm.Machine{mac("a"), mac("b")}); got != 0 || told(changed) {
		t.Errorf("%d lost while two run", got)
	}
	g.Adopt("a")
	g.Limited(nil)
	if got := g.Limited([]vm.Machine{mac("a")}); got != 2 {
		t.Errorf("%d lost, want still 2", got)
	}
}

// One place is left. It serves who runs on it and who waits meanwhile, but once the
// host is empty nothing starts any more: the reboot may come at any moment.
func TestAnEmptyLeakingHostIsSealed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slots.json")
	g := opened(t, file, "boot-1")
	ctx := context.Background()
	for _, name := range []string{"a", "b"} {
		if err := g.Acquire(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	g.Limited([]vm.Machine{mac("tk-a-1")})
	g.Release("b")
	got := make(chan error, 1)
	go func() { got <- g.Acquire(ctx, "c") }()
	queued(t, g, 1)
	changed := g.Changed()
	g.Release("a")
	if g.limit() != 0 || g.State().Allocatable != 0 || !told(changed) {
		t.Errorf("limit %d, state %+v, told %v; want none", g.limit(), g.State(), told(changed))
	}
	select {
	case err := <-got:
		t.Errorf("a guest got a slot of a host that waits for its reboot: %v", err)
	default:
	}
	if g := opened(t, file, "boot-1"); g.limit() != 0 {
		t.Errorf("another process starts %d guests before the reboot", g.limit())
	}
}

func TestForeignGuestsLowerWhatIsAllocatable(t *testing.T) {
	g := opened(t, "", "boot-1")
	changed := g.Changed()
	g.Foreign([]string{"mine"})
	if d := cmp.Diff(State{Allocatable: 1, Foreign: []string{"mine"}}, g.State()); d != "" || !told(changed) {
		t.Errorf("told %v, state (-want +got):\n%s", told(changed), d)
	}
	changed = g.Changed()
	g.Adopt("ours")
	if told(changed) {
		t.Error("a guest of ours is no news")
	}
	g.Foreign(nil)
	if got := g.State().Allocatable; got != 2 || !told(changed) {
		t.Errorf("%d allocatable after the foreign guest ended", got)
	}
	if g.Free() != 1 {
		t.Errorf("%d free, want 1 beside ours", g.Free())
	}
}

// TestATakenGuestIsCountedOnce, also by who looked what runs before it was taken.
func TestATakenGuestIsCountedOnce(t *testing.T) {
	g := opened(t, "", "boot-1")
	seen := []string{"theirs"}
	g.Foreign(seen)
	g.TakeForeign("theirs", "ours")
	g.Foreign(seen)
	if got := g.State(); g.Free() != 1 || len(got.Foreign) != 0 {
		t.Errorf("%d free of two, state %+v; want the guest counted once", g.Free(), got)
	}
	g.GuestDeleted("theirs")
	g.Foreign(seen)
	if got := g.State(); g.Free() != 0 || !slices.Equal(got.Foreign, seen) {
		t.Errorf("%d free, state %+v; want another guest of that name counted", g.Free(), got)
	}
	g.TakeForeign("theirs", "ours")
	g.Release("ours") // as where the guest could not be deleted
	g.Foreign(seen)
	if got := g.State(); g.Free() != 1 || !slices.Equal(got.Foreign, seen) {
		t.Errorf("%d free, state %+v; want the guest counted that was left", g.Free(), got)
	}
}

func TestGarbageIsNoLeak(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slots.json")
	for _, content := range []string{"", "{torn", `{"bootSession":"b","leaked":-3}`, `{"bootSession":"b","leaked":99}`, "null"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if g := opened(t, file, "b"); g.limit() != 2 {
			t.Errorf("%q: limit %d", content, g.limit())
		}
	}
}
