package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// figures are Stats.
type figures struct {
	usage Usage
	err   error
}

func (f *figures) Read(context.Context) (Usage, error) { return f.usage, f.err }

func (f *figures) Host(context.Context) []Gauge {
	return []Gauge{{Name: "tart_kubelet_host_disk_free_bytes", Help: "Free", Value: 5e12}}
}

func measured(t *testing.T) (*bench, *figures) {
	t.Helper()
	b := newBench(t, nil)
	b.api.may = append(b.api.may, "alice get metrics", "alice get stats")
	c := running("main")
	c.Pod.Name = `a"b`
	f := &figures{usage: Usage{
		At: time.Unix(1000, 0), Node: Used{CPU: 90 * time.Second, Cores: 1.5, MemoryBytes: 1 << 30}, Filesystem: Filesystem{Total: 100, Free: 40},
		Pods: []PodUsage{{Pod: c.Pod, Container: "main", Started: time.Unix(900, 0), Used: Used{CPU: time.Minute, Cores: -1, MemoryBytes: 1 << 20}}},
	}}
	b.server.o.Stats = f
	return b, f
}

// parsed fails for what Prometheus would not read.
func parsed(t *testing.T, text string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Errorf("%v of\n%s", err, text)
	}
}

func TestResourceMetrics(t *testing.T) {
	b, f := measured(t)
	code, text := b.get("/metrics/resource")
	parsed(t, text)
	for _, want := range []string{
		// What was measured bears the time of its measurement.
		"node_cpu_usage_seconds_total 90 1000000\n", "node_memory_working_set_bytes 1.073741824e+09 1000000\n", "\nresource_scrape_error 0\n",
		`container_cpu_usage_seconds_total{container="main",namespace="ci",pod="a\"b"} 60 1000000` + "\n",
		`container_memory_working_set_bytes{container="main",namespace="ci",pod="a\"b"} 1.048576e+06 1000000` + "\n",
		`container_start_time_seconds{container="main",namespace="ci",pod="a\"b"} 900` + "\n",
		`pod_cpu_usage_seconds_total{namespace="ci",pod="a\"b"} 60 1000000` + "\n",
		`pod_memory_working_set_bytes{namespace="ci",pod="a\"b"} 1.048576e+06 1000000` + "\n",
	} {
		if code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d: no %q in\n%s", code, want, text)
		}
	}
	f.err = errors.New("ps failed")
	if code, text := b.get("/metrics/resource"); code != http.StatusOK || !strings.Contains(text, "\nresource_scrape_error 1\n") || strings.Contains(text, "node_cpu") {
		t.Errorf("%d\n%s", code, text)
	}
}

// Dashboards and rules take the figures of containers from here, and only of those with an image.
func TestContainerMetrics(t *testing.T) {
	b, f := measured(t)
	f.usage.Pods[0].Pod.Spec.Containers[0].Image = "registry.test/macos:1"
	code, text := b.get("/metrics/cadvisor")
	parsed(t, text)
	for _, want := range []string{
		`container_cpu_usage_seconds_total{container="main",cpu="total",image="registry.test/macos:1",namespace="ci",pod="a\"b"} 60 1000000` + "\n",
		`container_memory_working_set_bytes{container="main",image="registry.test/macos:1",namespace="ci",pod="a\"b"} 1.048576e+06 1000000` + "\n",
		"\ncontainer_scrape_error 0\n",
	} {
		if code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d: no %q in\n%s", code, want, text)
		}
	}
	f.err = errors.New("ps failed")
	if code, text := b.get("/metrics/cadvisor"); code != http.StatusOK || !strings.Contains(text, "\ncontainer_scrape_error 1\n") || strings.Contains(text, "container_cpu") {
		t.Errorf("%d\n%s", code, text)
	}
}

func TestMetrics(t *testing.T) {
	b, _ := measured(t)
	code, text := b.get("/metrics")
	parsed(t, text)
	for _, want := range []string{`kubelet_node_name{node="mac-1"} 1`, "tart_kubelet_host_disk_free_bytes 5e+12"} {
		if code != http.StatusOK || !strings.Contains(text, want+"\n") {
			t.Errorf("%d: no %q in\n%s", code, want, text)
		}
	}
	if code, text := b.get("/metrics/probes"); code != http.StatusOK || text != "prober_probe_total 1\n" {
		t.Errorf("%d %q", code, text)
	}
}

func TestSummary(t *testing.T) {
	b, f := measured(t)
	code, text := b.get("/stats/summary")
	var s stats.Summary
	if err := json.Unmarshal([]byte(text), &s); err != nil || code != http.StatusOK {
		t.Fatal(code, err)
	}
	if s.Node.NodeName != "mac-1" || *s.Node.CPU.UsageNanoCores != 15e8 || *s.Node.Fs.UsedBytes != 60 {
		t.Errorf("%s", text)
	}
	pod := s.Pods[0]
	if pod.PodRef.UID != "uid-1" || *pod.Memory.WorkingSetBytes != 1<<20 || pod.Containers[0].Name != "main" || pod.CPU.UsageNanoCores != nil {
		t.Errorf("%s", text)
	}
	f.err = errors.New("ps failed")
	b.expect(b.client(), "/stats/summary", "good", http.StatusInternalServerError, "Internal Error: ps failed")
}
