package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

const testFile = "testdata/alerts.yaml"

// ruleTests is a file of promtool's, as far as ours uses it.
type ruleTests struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []ruleTest
}

type ruleTest struct {
	Name          string
	Interval      model.Duration
	InputSeries   []struct{ Series, Values string } `yaml:"input_series"`
	AlertRuleTest []expectation                     `yaml:"alert_rule_test"`
}

type expectation struct {
	EvalTime  model.Duration `yaml:"eval_time"`
	Alertname string
	ExpAlerts []firing `yaml:"exp_alerts"`
}

type firing struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

func readTests(t *testing.T) ruleTests {
	t.Helper()
	file, err := os.Open(testFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var tests ruleTests
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(&tests); err != nil {
		t.Fatal(err)
	}
	if len(tests.RuleFiles) != 1 || len(tests.Tests) < 10 {
		t.Fatalf("%d files of rules and %d tests: the file is not read", len(tests.RuleFiles), len(tests.Tests))
	}
	return tests
}

// chartRules is the chart's file of rules.
func (r ruleTests) chartRules() string { return filepath.Join(filepath.Dir(testFile), r.RuleFiles[0]) }

func TestAlertsOfWrittenSeries(t *testing.T) {
	tests := readTests(t)
	for _, test := range tests.Tests {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			test.play(t, tests.chartRules(), time.Duration(tests.EvaluationInterval))
		})
	}
}

// play evaluates the rules from the beginning, and compares all that fires at the times that the test names.
func (r ruleTest) play(t *testing.T, file string, interval time.Duration) {
	loader, err := promqltest.NewLazyLoader(r.load(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		t.Fatal(err)
	}
	defer loader.Close()
	loader.SubqueryInterval = interval
	groups, err := load(file, interval, &rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()), AppendableV2: loader.Storage(), Queryable: loader.Storage(),
		Context: context.Background(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	expected := r.expected()
	last := slices.Max(slices.Collect(maps.Keys(expected)))
	for at := time.Duration(0); at <= last; at += interval {
		now := time.Unix(0, 0).UTC().Add(at)
		loader.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			evaluate(t, groups, now)
		})
		if want, named := expected[at]; named {
			if diff := cmp.Diff(want, fires(groups)); diff != "" {
				t.Errorf("at %s fires (-expected +found):\n%s", at, diff)
			}
			delete(expected, at)
		}
	}
	for at := range expected {
		t.Errorf("nothing is looked at at %s: the rules are evaluated every %s", at, interval)
	}
}

// load is what promqltest reads.
func (r ruleTest) load() string {
	text := &strings.Builder{}
	fmt.Fprintf(text, "load %s\n", r.Interval)
	for _, s := range r.InputSeries {
		fmt.Fprintf(text, "  %s %s\n", s.Series, s.Values)
	}
	return text.String()
}

func evaluate(t *testing.T, groups []*rules.Group, now time.Time) {
	t.Helper()
	for _, g := range groups {
		g.Eval(t.Context(), now)
		for _, r := range g.Rules() {
			if r.LastError() != nil {
				t.Fatalf("%s: %v", r.Name(), r.LastError())
			}
		}
	}
}

// expected is what fires at each time that is named, by alert.
func (r ruleTest) expected() map[time.Duration]map[string][]firing {
	all := map[time.Duration]map[string][]firing{}
	for _, e := range r.AlertRuleTest {
		at := time.Duration(e.EvalTime)
		if all[at] == nil {
			all[at] = map[string][]firing{}
		}
		if len(e.ExpAlerts) > 0 {
			all[at][e.Alertname] = e.ExpAlerts
		}
	}
	return all
}

func fires(groups []*rules.Group) map[string][]firing {
	found := map[string][]firing{}
	for _, g := range groups {
		for _, r := range alerting(g) {
			for _, a := range active(r) {
				if a.State == rules.StateFiring.String() {
					delete(a.Labels, "alertname")
					found[r.Name()] = append(found[r.Name()], firing{a.Labels, a.Annotations})
				}
			}
		}
	}
	return found
}

// Each alert is seen quiet, then firing, then quiet again.
func TestEachAlertIsTested(t *testing.T) {
	tests := readTests(t)
	groups, err := load(tests.chartRules(), time.Minute, &rules.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, rule := range alerting(g) {
			if !tests.shows(rule.Name()) {
				t.Errorf("%s: no test sees %s quiet, then firing, then quiet", testFile, rule.Name())
			}
		}
	}
}

// shows reports that some test sees the alert quiet, then firing, then quiet.
func (r ruleTests) shows(alert string) bool {
	return slices.ContainsFunc(r.Tests, func(test ruleTest) bool {
		story := ""
		for _, e := range test.AlertRuleTest {
			switch {
			case e.Alertname == alert && len(e.ExpAlerts) > 0:
				story += "fires "
			case e.Alertname == alert:
				story += "quiet "
			}
		}
		return story == "quiet fires quiet "
	})
}
