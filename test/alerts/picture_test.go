package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const drawn = `{"title": "all & one", "panels": [
	{"type": "stat", "title": "Macs", "gridPos": {"w": 4, "h": 4}, "targets": [{"expr": "sum(macs{zone=~\"$zone\"})"}],
	 "fieldConfig": {"defaults": {"thresholds": {"steps": [{"color": "green", "value": null}, {"color": "red", "value": 3}]}}}},
	{"type": "timeseries", "title": "By phase", "gridPos": {"y": 4, "w": 12, "h": 8}, "targets": [{"expr": "macs", "legendFormat": "of {{phase}}"}],
	 "fieldConfig": {"defaults": {"custom": {"stacking": {"mode": "normal"}}}}},
	{"type": "timeseries", "title": "Calls", "gridPos": {"x": 12, "y": 4, "w": 12, "h": 8}, "targets": [{"expr": "rate(calls_total[$__rate_interval])"}],
	 "fieldConfig": {"defaults": {"unit": "reqps"}}}]}`

// Each panel asks over all the time that was watched, and is drawn: a line that ends is broken off, and one that is
// stacked lies on the one before.
func TestPictures(t *testing.T) {
	var text atomic.Value
	endpoint := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, text.Load().(string))
	}))
	defer endpoint.Close()
	w := watchOf(t, endpoint.URL, "groups: []")
	for _, shown := range []string{
		"macs{phase=\"free\",zone=\"a\"} 1\nmacs{phase=\"used\",zone=\"a\"} 2\n",
		"macs{phase=\"free\",zone=\"a\"} 3\nmacs{phase=\"used\",zone=\"a\"} 1\n",
		"macs{phase=\"used\",zone=\"a\"} 4\n",
	} {
		text.Store(shown)
		w.turn(t.Context())
	}
	var d dashboard
	if err := json.Unmarshal([]byte(drawn), &d); err != nil {
		t.Fatal(err)
	}
	found, err := w.lines(t.Context(), d.Panels[1])
	if err != nil {
		t.Fatal(err)
	}
	none := math.NaN()
	want := []line{{"of free", []float64{none, 1, 3, none}}, {"of used", []float64{none, 2, 1, 4}}}
	if diff := cmp.Diff(want, found, cmp.AllowUnexported(line{}), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if got := stacked(found); !cmp.Equal(got, [][]float64{{0, 0, 0, 0}, {0, 1, 3, 0}}) {
		t.Errorf("below them lies %v", got)
	}
	var empty picture
	if empty.stat(d.Panels[0], nil, 160, 108); !strings.Contains(empty.body.String(), `fill:#7c7f87" x="80" y="72">no data<`) {
		t.Errorf("a value that is not there is drawn as %s", &empty.body)
	}
	svg := w.drawnOf(t, d)
	for _, part := range []string{`aria-label="all &amp; one"`, `fill:#d33c4f" x="80" y="72">4</text>`, ">of used</text>", `d="M189.3 136.8L328.7 82.4"/>`, ">By phase</text>", ">1/s</text>"} {
		if !strings.Contains(svg, part) {
			t.Errorf("the picture has no %q:\n%s", part, svg)
		}
	}
}

// The chart's dashboards can be drawn, also while there is nothing to see.
func TestTheChartsDashboardsAreDrawn(t *testing.T) {
	w := watchOf(t, "https://127.0.0.1:1", "groups: []")
	w.turn(t.Context())
	for _, d := range dashboards(t) {
		svg := w.drawnOf(t, d)
		for _, p := range d.Panels {
			if !strings.Contains(svg, ">"+p.Title+"</text>") {
				t.Errorf("%s: %q is not drawn", d.Title, p.Title)
			}
		}
	}
}

func (w *watch) drawnOf(t *testing.T, d dashboard) string {
	t.Helper()
	dir := t.TempDir()
	if err := w.draw(t.Context(), map[string]dashboard{"one.json": d}, dir); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "one.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return string(svg)
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		unit string
		v    float64
		want string
	}{
		{"short", 3, "3"},
		{"short", math.NaN(), "no data"},
		{"bytes", 42.1e6, "42.1 MB"},
		{"percentunit", .051, "5.1 %"},
		{"reqps", .25, "0.25/s"},
		{"dateTimeAsIso", 0, "1970-01-01 00:00"},
		{"s", 0, "0"},
		{"s", .02, "20 ms"},
		{"s", 90, "90 s"},
		{"s", 600, "10 min"},
		{"s", 9000, "2.5 h"},
	} {
		if got := format(c.unit, c.v); got != c.want {
			t.Errorf("%v in %s is %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}
