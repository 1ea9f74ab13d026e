package profile

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// labelled is the profile with a label, which makes a revision.
func labelled(value string) *infrav1.MacNodeProfile {
	p := builders()
	p.Spec.Node.Labels = map[string]infrav1.LabelValue{"n": infrav1.LabelValue(value)}
	p.Spec.Rollout.Paused = true
	p.Status.Revision = "revision-" + value
	return p
}

func values(t *testing.T, p *infrav1.MacNodeProfile) []string {
	t.Helper()
	var got []string
	for _, r := range p.Status.History {
		var spec infrav1.MacNodeProfileSpec
		if err := json.Unmarshal(r.Spec.Raw, &spec); err != nil {
			t.Fatal(err)
		}
		if spec.Rollout.Paused {
			t.Error("how a change is rolled out is remembered")
		}
		if r.Revision != "revision-"+string(spec.Node.Labels["n"]) {
			t.Errorf("revision %s has the spec of %v", r.Revision, spec.Node.Labels)
		}
		got = append(got, string(spec.Node.Labels["n"]))
	}
	return got
}

func TestTheHistoryOfAProfile(t *testing.T) {
	now := metav1.NewTime(start())
	p := builders()
	for _, c := range []struct {
		rolledOut string
		want      string
	}{
		{"1", "[1]"},
		{"1", "[1]"},
		{"2", "[2 1]"},
		{"1", "[1 2]"}, // an undo
		{"3", "[3 1 2]"},
		{"4", "[4 3 1 2]"},
		{"5", "[5 4 3 1]"},
	} {
		next := labelled(c.rolledOut)
		next.Status.History = p.Status.History
		if err := remember(next, now); err != nil {
			t.Fatal(err)
		}
		p = next
		if got := fmt.Sprint(values(t, p)); got != c.want {
			t.Errorf("after %s: %s, want %s", c.rolledOut, got, c.want)
		}
	}
	// What no revision names is remembered, too.
	same := p.DeepCopy()
	same.Spec.MaxOrdered = new(int32)
	if err := remember(same, now); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(values(t, same)); got != "[5 4 3 1]" || string(same.Status.History[0].Spec.Raw) == string(p.Status.History[0].Spec.Raw) {
		t.Errorf("with another maxOrdered: %s, %s", got, same.Status.History[0].Spec.Raw)
	}
}

// Only what all Macs have is remembered, and it is written once.
func TestWhatIsRememberedWasOnAllMacs(t *testing.T) {
	for name, c := range map[string]struct {
		machines []client.Object
		want     int
	}{
		"all have it":   {three(revision()), 1},
		"one has not":   {join(three(revision()), running("d", "builders", "old")), 0},
		"there is none": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(c.machines, builders())...)
			w.visit("builders")
			p := &infrav1.MacNodeProfile{}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(builders()), p); err != nil {
				t.Fatal(err)
			}
			if len(p.Status.History) != c.want {
				t.Errorf("%d revisions are remembered, want %d", len(p.Status.History), c.want)
			}
			w.writes = nil
			w.visit("builders")
			if len(w.writes) > 0 && c.want > 0 {
				t.Errorf("writes %q again", w.writes)
			}
		})
	}
}
