package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

const (
	dashboardFiles = "../../charts/macfleet/files/dashboards/*.json"
	metricsPage    = "../../docs/operate/metrics.md"
)

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	found, err := readDashboards(dashboardFiles)
	if err != nil || len(found) < 2 {
		t.Fatalf("dashboards are %v: %v", found, err)
	}
	return found
}

// Each panel asks for something, of the data source that is chosen, by the variables that there are, and lies on no
// other one.
func TestDashboardsAreWhole(t *testing.T) {
	uids := map[string]string{}
	for file, d := range dashboards(t) {
		if other := uids[d.UID]; d.UID == "" || d.Title == "" || d.SchemaVersion == 0 || other != "" {
			t.Errorf("%s: uid %q (%s has it), title %q, schema %d", file, d.UID, other, d.Title, d.SchemaVersion)
		}
		uids[d.UID] = file
		for i, p := range d.Panels {
			d.check(t, p)
			for _, q := range d.Panels[:i] {
				if p.ID == q.ID || p.overlaps(q) {
					t.Errorf("%s: %q and %q have one place or one id", file, p.Title, q.Title)
				}
			}
		}
	}
}

var variable = regexp.MustCompile(`\$\{?([a-z]+)`)

func (d dashboard) check(t *testing.T, p panel) {
	t.Helper()
	if p.Type == "row" {
		return
	}
	if p.Title == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
		t.Errorf("%s: panel %d, %q, is not whole: %+v", d.Title, p.ID, p.Title, p)
	}
	for _, target := range p.Targets {
		for _, used := range variable.FindAllStringSubmatch(target.Expr, -1) {
			if !slices.ContainsFunc(d.Templating.List, func(v choice) bool { return v.Name == used[1] }) {
				t.Errorf("%s: %q uses $%s, which is no variable", d.Title, p.Title, used[1])
			}
		}
	}
}

// Queues, memory and leaders are metrics of every controller that a Prometheus scrapes: "All" jobs are macfleet's.
func TestAllJobsAreThoseOfTheManagers(t *testing.T) {
	jobs := 0
	for file, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if v.Name != "job" {
				continue
			}
			jobs++
			if v.AllValue != "" || !strings.Contains(v.Definition, "macfleet_") {
				t.Errorf("%s: all of $job is %q, of %s", file, v.AllValue, v.Definition)
			}
		}
	}
	if jobs == 0 {
		t.Error("no dashboard asks for jobs")
	}
}

func (p panel) overlaps(q panel) bool {
	a, b := p.GridPos, q.GridPos
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}

// What dashboards and alerts ask for is what the managers show: metrics that the page of metrics has, by labels that
// it says they have. That the page says what the code makes is test/docs'.
func TestQueriesAreOfWhatIsShown(t *testing.T) {
	shown := shownMetrics(t)
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				shown.check(t, file+": "+p.Title, query(target.Expr), target.LegendFormat)
			}
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				of := labelValues.FindStringSubmatch(v.Definition)
				if of == nil {
					t.Fatalf("%s: $%s is %q", file, v.Name, v.Definition)
				}
				shown.check(t, file+": $"+v.Name, "max by ("+of[2]+") ("+of[1]+")", "")
			}
		}
	}
	groups, err := load(readTests(t).chartRules(), time.Minute, &rules.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range alerting(g) {
			shown.check(t, r.Name(), r.Query().String(), "")
		}
	}
}

var labelValues = regexp.MustCompile(`^label_values\(([a-z_]+), ([a-z]+)\)$`)

// metrics are names and the labels that each has.
type metrics map[string][]string

// everywhere are labels that a scrape adds.
var everywhere = []string{"job", "instance", "pod", "namespace"}

// shownMetrics are those of the page, and a few that all controllers show.
func shownMetrics(t *testing.T) metrics {
	t.Helper()
	text, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	shown := metrics{
		"controller_runtime_reconcile_total": {"controller", "result"}, "controller_runtime_reconcile_time_seconds": {"controller"},
		"workqueue_depth": {"name", "controller"}, "rest_client_requests_total": {"code", "method", "host"}, "leader_election_master_status": {"name"},
		"process_resident_memory_bytes": nil, "go_goroutines": nil,
	}
	others := len(shown)
	for _, row := range metricsRow.FindAllStringSubmatch(string(text), -1) {
		shown[row[1]] = strings.FieldsFunc(row[2], func(r rune) bool { return strings.ContainsRune("`, ", r) })
	}
	if len(shown) < others+10 {
		t.Fatalf("only %d metrics found on their page", len(shown)-others)
	}
	return shown
}

var metricsRow = regexp.MustCompile("(?m)^\\| `((?:macfleet|scaleway)_[a-z_]+)` \\|([^|]*)\\|")

// check parses an expression as Prometheus does.
func (m metrics) check(t *testing.T, where, expr, legendFormat string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %q: %v", where, expr, err)
		return
	}
	known := slices.Clone(everywhere)
	var grouped []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			known = append(known, m.selected(t, where, n)...)
		case *parser.AggregateExpr:
			grouped = append(grouped, n.Grouping...)
		}
		return nil
	})
	for _, used := range legendLabel.FindAllStringSubmatch(legendFormat, -1) {
		if !slices.Contains(grouped, used[1]) && !slices.Contains(everywhere, used[1]) {
			t.Errorf("%s: its legend names %s, which nothing keeps", where, used[1])
		}
	}
	for _, label := range grouped {
		if !slices.Contains(known, label) {
			t.Errorf("%s: nothing in %q has the label %s", where, expr, label)
		}
	}
}

// selected are the labels of a metric, which must be shown, and have those that it is selected by.
func (m metrics) selected(t *testing.T, where string, selector *parser.VectorSelector) []string {
	t.Helper()
	name, histogram := strings.CutSuffix(selector.Name, "_bucket")
	has, is := m[name]
	if !is {
		t.Errorf("%s: no manager shows %s", where, selector.Name)
	}
	if histogram {
		has = append(slices.Clone(has), labels.BucketLabel)
	}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name != model.MetricNameLabel && !slices.Contains(has, matcher.Name) && !slices.Contains(everywhere, matcher.Name) {
			t.Errorf("%s: %s has no label %s", where, name, matcher.Name)
		}
	}
	return has
}
