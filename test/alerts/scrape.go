package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
)

// patience bounds a scrape: a manager that is being started answers late.
const patience = 5 * time.Second

func newClient() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the manager makes its certificate itself
	}}
}

// scrape stores what the endpoint shows at this time. What it does not show any more ends, and all does where
// it does not answer: so that absent() sees what is absent.
func (w *watch) scrape(ctx context.Context, now time.Time) error {
	text, kind, failed := w.get(ctx)
	samples, err := w.parse(text, kind)
	if failed != nil {
		samples, err = nil, failed
	}
	return errors.Join(err, w.store(ctx, now, samples))
}

func (w *watch) get(ctx context.Context) (text []byte, kind string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return nil, "", fmt.Errorf("scraping: %w", err)
	}
	token, err := w.token()
	if err != nil {
		return nil, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, "", fmt.Errorf("scraping: %w", err)
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("scraping: %w", err)
	case response.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("scraping: %s says %s", w.url, response.Status)
	}
	return text, response.Header.Get("Content-Type"), nil
}

type sample struct {
	labels labels.Labels
	value  float64
}

// parse reads what was scraped, by the key of each series.
func (w *watch) parse(text []byte, kind string) (map[string]sample, error) {
	if len(text) == 0 {
		return nil, nil
	}
	parser, err := textparse.New(text, kind, labels.NewSymbolTable(), textparse.ParserOptions{FallbackContentType: "text/plain"})
	if parser == nil {
		return nil, fmt.Errorf("reading what was scraped: %w", err)
	}
	found := map[string]sample{}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading what was scraped: %w", err)
		}
		if entry == textparse.EntrySeries {
			w.add(found, parser)
		}
	}
}

func (w *watch) add(found map[string]sample, parser textparse.Parser) {
	var scraped labels.Labels
	parser.Labels(&scraped)
	series := labels.NewBuilder(scraped).Set("job", "macfleet").Set("instance", w.url).Labels()
	_, _, v := parser.Series()
	if series.Get(model.MetricNameLabel) == w.stretch {
		v *= w.step.Seconds() / w.every.Seconds()
	}
	found[series.String()] = sample{series, v}
}

// store appends samples, and a stale marker to each series that the last scrape had and this one has not.
func (w *watch) store(ctx context.Context, now time.Time, samples map[string]sample) error {
	appender := w.db.AppenderV2(ctx)
	put := func(l labels.Labels, v float64) error {
		_, err := appender.Append(0, l, 0, now.UnixMilli(), v, nil, nil, storage.AOptions{})
		return err
	}
	var errs []error
	for key, l := range w.known {
		if _, still := samples[key]; !still {
			errs = append(errs, put(l, math.Float64frombits(value.StaleNaN)))
		}
	}
	clear(w.known)
	for key, s := range samples {
		w.known[key] = s.labels
		errs = append(errs, put(s.labels, s.value))
	}
	if err := errors.Join(append(errs, appender.Commit())...); err != nil {
		return fmt.Errorf("storing what was scraped: %w", err)
	}
	return nil
}
