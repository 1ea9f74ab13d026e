package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// visitRounds is how often each Machine is visited; the first round fills memories and does not count.
const visitRounds = 3

// visited are so few that the manager's own limit of requests holds up none: its burst is enough for all.
const visited = 40

// visits are passes over Machines that run, and need nothing.
type visits struct {
	times []time.Duration
	// asked is what the API server was asked meanwhile, but for watches and events.
	asked requestCounts
}

// measureVisits has the Machines' controller look at each Machine once more, with the cache that it has.
func (w *world) measureVisits(ctx context.Context) (*visits, error) {
	all, err := w.machines(ctx)
	if err != nil {
		return nil, err
	}
	all = all[:min(len(all), visited)]
	out := &visits{}
	before := w.requests.since(nil)
	for round := range visitRounds + 1 {
		for i := range all {
			began := time.Now()
			if _, err := w.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all[i])}); err != nil {
				return nil, fmt.Errorf("visiting %s: %w", all[i].Name, err)
			}
			if round > 0 {
				out.times = append(out.times, time.Since(began))
			}
		}
	}
	out.asked = foreground(w.requests.since(before))
	if len(out.times) == 0 {
		return nil, errors.New("there are no Machines to visit")
	}
	return out, nil
}

// foreground are the requests that somebody waits for.
func foreground(counts requestCounts) requestCounts {
	left := requestCounts{}
	for name, n := range counts {
		if !strings.HasSuffix(name, " by watches") && !strings.HasSuffix(name, " by events") {
			left[name] = n
		}
	}
	return left
}

// writes are how many requests change something.
func writes(counts requestCounts) (total int) {
	for name, n := range counts {
		switch verb, _, _ := strings.Cut(name, " "); verb {
		case "get", "list", "watch":
		default:
			total += n
		}
	}
	return total
}

func (m *measured) visitFigures() []figure.Figure {
	if m.visits == nil {
		return nil
	}
	what := fmt.Sprintf("a visit to one of %d Machines that run, with the manager's cache", m.settings.machines)
	return []figure.Figure{
		figure.New(what, "ms", figure.Milliseconds(m.visits.times), figure.AtMost(1).On(figure.P99)),
		figure.New("requests to the API server in each such visit", "", figure.Of(float64(m.visits.asked.sum())/float64(len(m.visits.times))*visitRounds/(visitRounds+1))),
		figure.New("writes in all such visits", "", figure.Of(writes(m.visits.asked)), figure.AtMost(0)),
	}
}
