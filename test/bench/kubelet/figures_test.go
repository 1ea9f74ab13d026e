package main

import (
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// playedAs is a run in which a Mac does each thing so many times as well or as badly as is asked of it at most.
func playedAs(times float64) *measured {
	long := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	both := func(kubelet, limit float64) pair[[]time.Duration] {
		return pair[[]time.Duration]{Kubelet: []time.Duration{long(kubelet)}, Mac: []time.Duration{long(kubelet * limit * times)}}
	}
	rate := pair[[]float64]{Kubelet: []float64{100}, Mac: []float64{80 / times}}
	return &measured{
		Turns: pair[[]turn]{
			Kubelet: []turn{{start: long(20), ready: long(100), create: long(100), end: long(1000)}},
			Mac:     []turn{{start: long(10 * times), ready: long(50 * times), create: long(100 * times), end: long(500 * times)}},
		},
		FirstByte: both(20, 1.2), Line: both(2, 1.2), Down: rate, Up: rate,
		Lost: pair[float64]{Mac: times - 1}, Burst: pair[float64]{Kubelet: 1, Mac: times},
		Memory: pair[float64]{Kubelet: 80, Mac: 30 * times}, CPU: pair[float64]{Kubelet: 1, Mac: 0.1 * times},
		Requests: pair[float64]{Kubelet: 1, Mac: 0.112 * times}, AgentBytes: int64(45e6 * times),
	}
}

// asked are the figures that have a goal.
func asked() []string {
	return []string{
		"exec: first byte", "logs -f: line printed to seen", "Pod seen to process or VM's clone spawned", "process or VM spawned to Ready seen",
		"Pod created to Running seen", "process ended, or VM's lock dropped, to Pod gone", "port-forward from the Pod", "port-forward to the Pod",
		"commands at once: lost", "at rest: memory", "at rest: processor", "at rest: requests", "size of the agent",
	}
}

// Each figure that is asked for is in the table, met where the Mac is at its limit, and missed beyond.
func TestEachGoalIsMetOrMissed(t *testing.T) {
	for _, c := range []struct {
		name   string
		times  float64
		missed bool
	}{{"as good", 1, false}, {"worse", 1.01, true}} {
		t.Run(c.name, func(t *testing.T) {
			missed := map[string]bool{}
			for _, f := range playedAs(c.times).figures() {
				missed[f.Name] = f.Missed()
			}
			for _, name := range asked() {
				if got, found := missed[name]; !found || got != c.missed {
					t.Errorf("%s: missed %t (in the table: %t), want %t", name, got, found, c.missed)
				}
			}
		})
	}
}

// A Mac that is slower than a kubelet by more than is asked, and still is not felt, keeps its bars.
func TestBars(t *testing.T) {
	for _, c := range []struct {
		name  string
		times float64
		kept  bool
	}{{"not felt", 2, true}, {"felt", 5, false}} {
		t.Run(c.name, func(t *testing.T) {
			bars := 0
			for _, f := range playedAs(c.times).figures() {
				for _, g := range f.Goals {
					if g.Bar {
						bars++
						if g.Met != c.kept {
							t.Errorf("%s: kept %t, want %t", f.Name, g.Met, c.kept)
						}
					}
				}
			}
			if bars != 5 {
				t.Errorf("%d bars, want 5", bars)
			}
		})
	}
}

// What each side does is told with the figures.
func TestTold(t *testing.T) {
	r := &figure.Report{}
	playedAs(1).tell(r)
	for _, side := range []string{"Both", "Kubelet", "Mac", "Not in it"} {
		if !strings.Contains(strings.Join(r.Notes, "\n"), side+":") {
			t.Errorf("nothing is said of %s", side)
		}
	}
}

// A lost byte is one, and so is one too many; what follows a wrong one counts as lost.
func TestMissingBytes(t *testing.T) {
	for _, c := range []struct {
		got  string
		lost int
	}{{"abcd", 0}, {"abc", 1}, {"abcde", 1}, {"", 4}, {"abxd", 2}} {
		if lost := missing("abcd", c.got); lost != c.lost {
			t.Errorf("%q: %d bytes lost, want %d", c.got, lost, c.lost)
		}
	}
}
