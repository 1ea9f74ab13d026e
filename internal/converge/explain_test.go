package converge

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/macfleet/macfleet/internal/converge/document"
)

var update = flag.Bool("update", false, "write the page of the steps")

const pageOfSteps = "../../docs/operate/steps.md"

func TestThePageOfStepsIsTheList(t *testing.T) {
	want := explanation()
	if *update {
		if err := os.WriteFile(pageOfSteps, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pageOfSteps)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("hack/generate.sh renews the page: %s", diff)
	}
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
