package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// playedAs is a run in which a Mac does each thing so many times as well or as badly as a kubelet.
func playedAs(times float64) *measured {
	long := func(ms float64) []time.Duration {
		return []time.Duration{time.Duration(ms * float64(time.Millisecond))}
	}
	both := pair[[]time.Duration]{Kubelet: long(100), Mac: long(100 * times)}
	rate := pair[float64]{Kubelet: 100, Mac: 100 / times}
	return &measured{
		CreateToRunning: both, EndToGone: both, FirstByte: both, Line: both, Down: rate, Up: rate,
		Lost: pair[float64]{Mac: times - 1}, Burst: pair[float64]{Kubelet: 1, Mac: times},
		Memory: pair[float64]{Kubelet: 80, Mac: 40 * times}, CPU: pair[float64]{Kubelet: 1, Mac: 0.1 * times},
		Requests: pair[float64]{Kubelet: 1, Mac: 0.112 * times}, AgentBytes: int64(45e6 * times),
	}
}

// asked are the figures that have a goal.
func asked() []string {
	return []string{
		"exec: first byte, median", "logs -f: line printed to seen, median", "Pod created to Running seen, median",
		"process ended, or VM's lock dropped, to Pod gone, median", "port-forward from the Pod", "port-forward to the Pod",
		"commands at once: lost", "at rest: memory", "at rest: processor", "at rest: requests", "size of the agent",
	}
}

// Each figure that is asked for is in the table, met where the Mac is at its limit, and missed beyond.
func TestEachGoalIsMetOrMissed(t *testing.T) {
	for _, c := range []struct {
		name    string
		times   float64
		verdict string
	}{{"as good", 1, "met"}, {"worse", 1.3, "missed"}} {
		t.Run(c.name, func(t *testing.T) {
			verdicts := map[string]string{}
			for _, f := range playedAs(c.times).figures() {
				verdicts[f.Name] = f.verdict()
			}
			for _, name := range asked() {
				if got, found := verdicts[name]; !found || got != c.verdict {
					t.Errorf("%s: %q (in the table: %t), want %s", name, got, found, c.verdict)
				}
			}
		})
	}
}

// A Mac may take 1.2 times as long for a stream, and have 0.8 times the rate, but no longer for a Pod.
func TestGoalsAreRatios(t *testing.T) {
	for _, f := range playedAs(1.19).figures() {
		if missed := strings.HasPrefix(f.Name, "exec") || strings.HasPrefix(f.Name, "logs") || strings.HasPrefix(f.Name, "port-forward"); missed == (f.verdict() == "missed") && f.Goal != "" {
			t.Errorf("%s: %s", f.Name, f.verdict())
		}
	}
}

// What a person feels counts apart from what a kubelet takes.
func TestBarsDoNotCountFromTheKubelet(t *testing.T) {
	ms := func(n int) []time.Duration { return []time.Duration{time.Duration(n) * time.Millisecond} }
	of := func(exec, line, run int, rate float64) map[string]figure {
		m := &measured{
			FirstByte: pair[[]time.Duration]{ms(1), ms(exec)}, Line: pair[[]time.Duration]{ms(1), ms(line)},
			CreateToRunning: pair[[]time.Duration]{ms(1), ms(run)}, Down: pair[float64]{1000, rate}, Up: pair[float64]{1000, rate},
		}
		rows := map[string]figure{}
		for _, f := range m.figures() {
			if f.Bar != "" {
				rows[f.Name] = f
			}
		}
		return rows
	}
	kept, broken := of(50, 5, 250, 25), of(51, 6, 251, 24)
	if len(kept) != 5 {
		t.Errorf("%d rows have a bar", len(kept))
	}
	for name := range kept {
		if kept[name].keeps() != "kept" || broken[name].keeps() != "broken" || kept[name].verdict() != "missed" {
			t.Errorf("%s: %s at its bar, %s beyond it, its goal %s", name, kept[name].keeps(), broken[name].keeps(), kept[name].verdict())
		}
	}
}

// The table and the file say the same.
func TestReport(t *testing.T) {
	r := newReport(playedAs(1))
	var table bytes.Buffer
	r.print(&table)
	path := filepath.Join(t.TempDir(), "new", "figures.json")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var read report
	if err := json.Unmarshal(text, &read); err != nil || len(read.Figures) != len(r.Figures) || len(read.Sides) == 0 {
		t.Fatalf("read %d figures of %d: %v", len(read.Figures), len(r.Figures), err)
	}
	for _, f := range read.Figures {
		if !strings.Contains(table.String(), f.Name) {
			t.Errorf("the table has no %s", f.Name)
		}
	}
	for _, side := range read.Sides {
		if !strings.Contains(table.String(), side) {
			t.Errorf("the table does not say: %s", side)
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
