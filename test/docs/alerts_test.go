package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// alert is a rule of the chart's file.
type alert struct {
	Alert               string
	Expr                string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, "charts", "macfleet", "files", "alerts.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("only %d alerts found: the file is not read", len(all))
	}
	return all
}

// Who is woken by an alert finds a section of its name, and each section is of one.
func TestEachAlertHasItsRunbook(t *testing.T) {
	var names, sections []string
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
	}
	for line := range strings.SplitSeq(read(t, book, "operate", "alerts.md"), "\n") {
		if section, is := strings.CutPrefix(line, "## "); is {
			sections = append(sections, section)
		}
	}
	if diff := cmp.Diff(names, sections); diff != "" {
		t.Errorf("alerts and their sections, in order (-alerts +sections):\n%s", diff)
	}
}

var (
	usedMetric = regexp.MustCompile(`(?:macfleet|scaleway)_[a-z_]+`)
	usedLabel  = regexp.MustCompile(`\$labels\.([a-z]+)`)
	keptLabels = regexp.MustCompile(`by \(([a-z, ]+)\)`)
)

// An alert on a metric that nobody makes never fires, and a label that the expression
// drops is empty in the summary.
func TestAlertsAreOnWhatTheManagerShows(t *testing.T) {
	made := madeMetrics(t)
	for _, a := range alerts(t) {
		for _, name := range usedMetric.FindAllString(a.Expr, -1) {
			if made[name] == "" {
				t.Errorf("%s: the code makes no %s", a.Alert, name)
			}
		}
		if a.Labels["severity"] == "" || a.Annotations["summary"] == "" {
			t.Errorf("%s has no severity, or no summary", a.Alert)
		}
		var kept []string
		if by := keptLabels.FindStringSubmatch(a.Expr); by != nil {
			kept = strings.Split(by[1], ", ")
		}
		for _, used := range usedLabel.FindAllStringSubmatch(a.Annotations["summary"], -1) {
			if !slices.Contains(kept, used[1]) {
				t.Errorf("%s: its summary names the label %s, of which the expression keeps nothing", a.Alert, used[1])
			}
		}
	}
}
