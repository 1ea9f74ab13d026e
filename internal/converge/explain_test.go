package converge

import (
	"path/filepath"
	"testing"

	"github.com/macfleet/macfleet/internal/booktest"
	"github.com/macfleet/macfleet/internal/converge/document"
)

func TestThePageOfStepsIsTheList(t *testing.T) {
	booktest.Hold(t, filepath.Join("..", ".."), "operate/steps.md", explanation())
}

func TestEveryStepSaysWhatItDoesAndHowToUndoIt(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	o.TakeOver = true
	for _, s := range o.steps(o.env(f.desired, &document.Report{})) {
		if s.About == "" || s.Undo == "" {
			t.Errorf("step %s keeps it to itself", s.Name)
		}
	}
}
