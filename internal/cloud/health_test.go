package cloud_test

import (
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/cloud"
)

func failed(kind cloud.Kind) error {
	if kind == "" {
		return nil
	}
	return &cloud.Error{Kind: kind, Doing: "test"}
}

func TestHealthJudgesTheLastMinutes(t *testing.T) {
	type calls struct {
		kind cloud.Kind
		n    int
		then time.Duration
	}
	for name, row := range map[string]struct {
		calls []calls
		want  bool
	}{
		"nothing known":                    {nil, false},
		"few calls":                        {[]calls{{cloud.KindUnavailable, 9, 0}}, false},
		"all unavailable":                  {[]calls{{cloud.KindUnavailable, 10, 0}}, true},
		"all throttled":                    {[]calls{{cloud.KindThrottled, 10, 0}}, true},
		"all unauthorized":                 {[]calls{{cloud.KindUnauthorized, 10, 0}}, true},
		"half of them":                     {[]calls{{cloud.KindUnavailable, 10, 0}, {"", 10, 0}}, false},
		"more than half":                   {[]calls{{cloud.KindUnavailable, 11, 0}, {"", 10, 0}}, true},
		"answers that refuse":              {[]calls{{cloud.KindForbidden, 20, 0}, {cloud.KindTransient, 20, 0}}, false},
		"over minutes":                     {[]calls{{cloud.KindUnavailable, 5, 2 * time.Minute}, {cloud.KindThrottled, 5, 2 * time.Minute}}, true},
		"long ago":                         {[]calls{{cloud.KindUnavailable, 20, 6 * time.Minute}}, false},
		"long ago, and too few since then": {[]calls{{cloud.KindUnavailable, 20, 6 * time.Minute}, {cloud.KindUnavailable, 9, 0}}, false},
		"over, and answers since then":     {[]calls{{cloud.KindUnavailable, 20, 6 * time.Minute}, {"", 20, 0}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
			health := cloud.Health{Clock: clock}
			for _, c := range row.calls {
				for range c.n {
					health.Observe("GetServer", time.Second, failed(c.kind))
				}
				clock.Step(c.then)
			}
			if got := health.Failing(clock.Now()); got != row.want {
				t.Errorf("failing %v, want %v", got, row.want)
			}
		})
	}
}

func TestHealthIsSharedByWorkers(t *testing.T) {
	var health cloud.Health
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 10 {
				health.Observe("ListServers", 0, failed(cloud.KindUnavailable))
				health.Failing(time.Now())
			}
		})
	}
	workers.Wait()
	if !health.Failing(time.Now()) {
		t.Error("80 failed calls are no failure")
	}
}
