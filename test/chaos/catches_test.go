package chaos

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/macfleet/macfleet/test/agent/stage"
	"github.com/macfleet/macfleet/test/parttest"
)

// bug is one that was there once, or could be, and what it breaks: one of these.
type bug struct {
	name   string
	breaks []string
	edits  []stage.Edit
}

func bugs() []bug {
	const pods, shims = "internal/agent/pod/", "internal/agent/shim/"
	return []bug{
		{"rerun", []string{"a main command was run again", "a container ran beside itself"}, []stage.Edit{
			// The next agent does not ask what its shim has run already.
			{File: pods + "guestcommands.go", Old: "\tcase begun:\n\t\treturn ended, nil\n\tcase c.shownBegun(p, id):", New: "\tcase begun && false:\n\t\treturn ended, nil\n\tcase false:"},
			{File: shims + "commands.go", Old: "case known != nil && !known.neverRan():", New: "case false:"},
		}},
		{"early", []string{"was deleted while"}, []stage.Edit{
			// The Pod's object goes before its VM.
			{File: pods + "terminate.go", Old: "\tif w.progress.Step != \"\" {\n\t\tif err := w.removeVM(", New: "\tif false {\n\t\tif err := w.removeVM("},
			{File: pods + "terminate.go", Old: "w.removeOtherVMs(ctx, \"\", grace); err != nil", New: "error(nil); err != nil"},
		}},
		{"backwards", []string{"phase went from Running to Pending"}, []stage.Edit{
			// A Pod that waits to be restarted is shown as one that never ran.
			{File: pods + "state/render.go", Old: "\tcase v.MainRan:", New: "\tcase v.MainRan && v.Main.Waiting == nil:"},
			{File: pods + "state/neverback.go", Old: "\tif rank(next.Phase) < rank(shown.Phase) {", New: "\tif false {"},
		}},
	}
}

// mostTries is how many histories may pass before a bug strikes.
const mostTries = 96

// roundsToCatch make short histories: the end of each is where some bugs show.
const roundsToCatch = 4

// TestBugsFitTheSources: not only those of this part.
func TestBugsFitTheSources(t *testing.T) {
	for _, b := range bugs() {
		if _, err := stage.Edited("../..", b.edits...); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

// TestCatches puts known bugs back, one at a time: a harness that cannot fail proves
// nothing.
func TestCatches(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real control plane")
	}
	w := newWorld(t, stage.Options{})
	for _, b := range parttest.Of(t, bugs()) {
		t.Run(b.name, func(t *testing.T) {
			if err := w.plane.BuildWith(t.Context(), b.name, b.edits...); err != nil {
				t.Fatal(err)
			}
			var caught atomic.Bool
			each(1, mostTries, *macsFlag, func(seed uint64) bool {
				h := w.play(t, b.name, seed, roundsToCatch)
				for _, found := range h.breaches() {
					t.Logf("seed %d, round %d: %s", seed, h.round, found)
					if slices.ContainsFunc(b.breaks, func(says string) bool { return strings.Contains(found, says) }) {
						caught.Store(true)
					}
				}
				return !caught.Load()
			})
			if caught.Load() {
				return
			}
			t.Errorf("%d histories did not show that %s", mostTries, strings.Join(b.breaks, ", or that "))
		})
	}
}
