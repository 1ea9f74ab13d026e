package docs

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metricName is a metric of ours, where the code makes it and where a page names it.
var metricName = regexp.MustCompile("[\"`{( ]((?:macfleet|scaleway)_[a-z_]+)")

// madeMetrics are the names of our metrics, and where the code makes them.
func madeMetrics(t *testing.T) map[string]string {
	t.Helper()
	made := map[string]string{}
	for _, dir := range []string{"cmd", "internal"} {
		walk(t, filepath.Join(root, dir), func(path, text string) {
			if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/vm/guest/") { // whose shells have variables of such names
				return
			}
			for _, match := range metricName.FindAllStringSubmatch(text, -1) {
				made[match[1]] = path
			}
		}, ".go")
	}
	if len(made) < 10 {
		t.Fatalf("only %d metrics found: the search is broken", len(made))
	}
	return made
}

func TestEachMetricIsOnItsPage(t *testing.T) {
	made := madeMetrics(t)
	explained := map[string]bool{}
	page := read(t, book, "operate", "metrics.md")
	for _, r := range rows(page) {
		explained[strings.Trim(r.cells[0], "`")] = true
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if !explained[name] {
			t.Errorf("%s: docs/operate/metrics.md has no row for %s", made[name], name)
		}
	}
	for _, match := range metricName.FindAllStringSubmatch(page, -1) {
		if made[match[1]] == "" {
			t.Errorf("docs/operate/metrics.md: the code makes no %s", match[1])
		}
	}
}
