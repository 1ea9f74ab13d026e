package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

type options struct {
	rules, url, tokenFile, stretch string
	dashboards, pictures           string
	every, step                    time.Duration
}

// watch scrapes and evaluates in turns. Its time goes by steps alone: on a busy machine it goes slower, and no
// series is ever called stale for that.
type watch struct {
	options
	client *http.Client
	db     *tsdb.DB
	engine *promql.Engine
	groups []*rules.Group
	known  map[string]labels.Labels // the series of the last scrape

	mu     sync.Mutex
	now    time.Time
	began  time.Time
	failed string // why the last turn found nothing out
}

func newWatch(dir string, o options) (*watch, error) {
	storage := tsdb.DefaultOptions()
	// No block is ever cut: a day passes in minutes.
	storage.MinBlockDuration = (365 * 24 * time.Hour).Milliseconds()
	storage.MaxBlockDuration = storage.MinBlockDuration
	storage.RetentionDuration, storage.WALSegmentSize = 0, -1 // nothing is kept
	db, err := tsdb.Open(dir, promslog.NewNopLogger(), nil, storage, tsdb.NewDBStats())
	if err != nil {
		return nil, fmt.Errorf("opening the series: %w", err)
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return o.step.Milliseconds() },
	})
	groups, err := load(o.rules, o.step, &rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, db), AppendableV2: db, Queryable: db, Context: context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(),
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	began := time.Now().Truncate(time.Second)
	return &watch{options: o, client: newClient(), db: db, engine: engine, groups: groups, known: map[string]labels.Labels{}, now: began, began: began}, nil
}

// load has Prometheus read the rules of a file.
func load(file string, interval time.Duration, o *rules.ManagerOptions) ([]*rules.Group, error) {
	loaded, errs := rules.NewManager(o).LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		return nil, fmt.Errorf("reading the rules: %w", errors.Join(errs...))
	}
	var groups []*rules.Group
	for _, g := range loaded {
		for _, r := range alerting(g) {
			r.SetRestored(true) // there was none before us
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func alerting(g *rules.Group) []*rules.AlertingRule {
	var found []*rules.AlertingRule
	for _, r := range g.Rules() {
		if a, is := r.(*rules.AlertingRule); is {
			found = append(found, a)
		}
	}
	return found
}

// run takes turns until ctx has ended.
func (w *watch) run(ctx context.Context) {
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	for {
		w.turn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// turn is one scrape and one evaluation, a step later than the last.
func (w *watch) turn(ctx context.Context) {
	now := w.later()
	err := w.scrape(ctx, now)
	for _, g := range w.groups {
		g.Eval(ctx, now)
		for _, r := range g.Rules() {
			if r.LastError() != nil {
				err = errors.Join(err, fmt.Errorf("evaluating %s: %w", r.Name(), r.LastError()))
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = ""
	if err != nil {
		w.failed = err.Error()
	}
}

func (w *watch) later() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(w.step)
	return w.now
}

// passed is for how long it has watched, in its own time.
func (w *watch) passed() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.Sub(w.began)
}

// state is what the API tells.
type state struct {
	Alerts []alert `json:"alerts"`
	// Passed is for how long it has watched, in its own time.
	Passed string `json:"passed"`
	// Failed is why the last scrape or evaluation failed, if it did.
	Failed string `json:"failed,omitempty"`
}

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"`
	ActiveAt    time.Time         `json:"activeAt"`
	Value       float64           `json:"value"`
}

func (w *watch) state() state {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := state{Alerts: []alert{}, Passed: w.now.Sub(w.began).String(), Failed: w.failed}
	for _, g := range w.groups {
		for _, r := range alerting(g) {
			s.Alerts = append(s.Alerts, active(r)...)
		}
	}
	slices.SortFunc(s.Alerts, func(a, b alert) int { return a.ActiveAt.Compare(b.ActiveAt) })
	return s
}

// active are the alerts of a rule that wait or fire.
func active(r *rules.AlertingRule) []alert {
	var found []alert
	for _, a := range r.ActiveAlerts() {
		found = append(found, alert{a.Labels.Map(), a.Annotations.Map(), a.State.String(), a.ActiveAt, a.Value})
	}
	return found
}

// close removes nothing: the folder is the caller's.
func (w *watch) close() error {
	w.client.CloseIdleConnections()
	if err := w.db.Close(); err != nil {
		return fmt.Errorf("closing the series: %w", err)
	}
	return nil
}

// token is read each time, as it may be renewed.
func (w *watch) token() (string, error) {
	if w.tokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(w.tokenFile)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	return string(text), nil
}
