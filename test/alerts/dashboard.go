package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// dashboard is what Grafana reads of a file, as far as a picture of it needs it.
type dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []choice
	}
	Panels []panel
}

// choice is a variable of a dashboard. AllValue is what "All" stands for; empty: the values that there are.
type choice struct{ Name, Type, Definition, AllValue string }

type panel struct {
	ID          int `json:"id"`
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Datasource  struct{ UID string }
	FieldConfig struct {
		Defaults struct {
			Unit       string
			Thresholds struct {
				Steps []struct {
					Color string
					Value *float64
				}
			}
			Custom struct{ Stacking struct{ Mode string } }
		}
	}
	Targets []struct{ RefID, Expr, LegendFormat string }
}

// readDashboards reads the files of a pattern, by their names.
func readDashboards(pattern string) (map[string]dashboard, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("looking for dashboards: %w", err)
	}
	found := map[string]dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a dashboard: %w", err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("reading the dashboard %s: %w", file, err)
		}
		found[filepath.Base(file)] = d
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no dashboard at %s", pattern)
	}
	return found, nil
}

// rateInterval is what Grafana would put for $__rate_interval over a day.
const rateInterval = "5m"

var dashboardVariable = regexp.MustCompile(`\$\{?[a-z]+\}?`)

// query is what Prometheus is asked: with all of each variable chosen.
func query(expr string) string {
	return dashboardVariable.ReplaceAllString(strings.ReplaceAll(expr, "$__rate_interval", rateInterval), ".*")
}

// line is one series of a panel. A value that there was none of is NaN.
type line struct {
	name   string
	values []float64
}

// looks are how many values a line has.
const looks = 240

// lines asks for a panel over the time that the watch has seen, from its first look on.
func (w *watch) lines(ctx context.Context, p panel) ([]line, error) {
	w.mu.Lock()
	began, now := w.began, w.now
	w.mu.Unlock()
	step := max(w.step, now.Sub(began)/(looks-1)).Truncate(time.Millisecond) // as Prometheus does
	var found []line
	for _, t := range p.Targets {
		q, err := w.engine.NewRangeQuery(ctx, w.db, nil, query(t.Expr), began, now, step)
		if err != nil {
			return nil, fmt.Errorf("asking for %q: %w", p.Title, err)
		}
		matrix, err := q.Exec(ctx).Matrix()
		if err != nil {
			return nil, fmt.Errorf("asking for %q: %w", p.Title, err)
		}
		for _, series := range matrix {
			found = append(found, line{legendOf(t.LegendFormat, series.Metric), spread(series.Floats, began, step, now)})
		}
		q.Close()
	}
	return found, nil
}

// spread puts points to the looks that they were found at.
func spread(points []promql.FPoint, began time.Time, step time.Duration, end time.Time) []float64 {
	values := make([]float64, int(end.Sub(began)/step)+1)
	for i := range values {
		values[i] = math.NaN()
	}
	for _, at := range points {
		values[(at.T-began.UnixMilli())/step.Milliseconds()] = at.F
	}
	return values
}

var legendLabel = regexp.MustCompile(`\{\{([a-z]+)\}\}`)

// legendOf is how Grafana names a series: by the format, or by all labels where there is none.
func legendOf(format string, series labels.Labels) string {
	if format == "" {
		return series.DropReserved(func(name string) bool { return name == model.MetricNameLabel }).String()
	}
	return legendLabel.ReplaceAllStringFunc(format, func(of string) string {
		return series.Get(legendLabel.FindStringSubmatch(of)[1])
	})
}

// draw writes a picture of each dashboard into a folder.
func (w *watch) draw(ctx context.Context, boards map[string]dashboard, dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("drawing dashboards: %w", err)
	}
	for file, d := range boards {
		p := picture{hours: w.passed().Hours()}
		for _, of := range d.Panels {
			found, err := w.lines(ctx, of)
			if err != nil {
				return err
			}
			p.panel(of, found)
		}
		name := filepath.Join(dir, strings.TrimSuffix(file, ".json")+".svg")
		if err := os.WriteFile(name, p.svg(d.Title), 0o600); err != nil {
			return fmt.Errorf("drawing dashboards: %w", err)
		}
	}
	return nil
}
