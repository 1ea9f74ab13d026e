package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	_ "sigs.k8s.io/controller-runtime/pkg/controller" // registers the metrics of controllers
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	otherMetric  = regexp.MustCompile(`\b(?:controller_runtime|workqueue|rest_client|leader_election|process|go)_[a-z_]+`)
	describedAs  = regexp.MustCompile(`fqName: "([^"]+)"`)
	bucketSuffix = regexp.MustCompile(`_bucket$`)
)

// What dashboards ask for beside our own metrics, each of which is on its page, is what controller-runtime registers.
func TestDashboardsAskForWhatControllersShow(t *testing.T) {
	registry, describes := metrics.Registry.(prometheus.Collector)
	if !describes {
		t.Fatal("controller-runtime's registry does not say what is in it")
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	var registered []string
	for desc := range descs {
		registered = append(registered, describedAs.FindStringSubmatch(desc.String())[1])
	}
	seen := 0
	walk(t, filepath.Join(root, "charts", "macfleet", "files", "dashboards"), func(path, text string) {
		for _, name := range otherMetric.FindAllString(text, -1) {
			seen++
			if !slices.Contains(registered, bucketSuffix.ReplaceAllString(name, "")) {
				t.Errorf("%s: no controller shows %s", path, name)
			}
		}
	}, ".json")
	if seen < 5 {
		t.Errorf("only %d metrics found: the search is broken", seen)
	}
}
