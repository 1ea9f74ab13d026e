package main

import (
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// someWorks take so many seconds each, of which converge waits for half.
func someWorks(seconds float64, waits bool) works {
	w := work{took: time.Duration(seconds * float64(time.Second)), traffic: traffic{executions: int(seconds), up: int64(seconds * 1e6)}}
	if waits {
		w.waited = w.took / 2
	}
	return works{fresh: []work{w, w}, looks: []work{w}}
}

func told(ours, peers works) map[string]figure.Figure {
	r := &figure.Report{}
	tell(r, settings{}, ours, peers)
	byName := map[string]figure.Figure{}
	for _, f := range r.Figures {
		byName[f.Name] = f
	}
	return byName
}

func TestWhatIsToldBesideAnsible(t *testing.T) {
	const time = "fresh Mac: time without the steps that wait for macOS"
	all := told(someWorks(4, true), someWorks(100, false))
	if got := all[time]; got.Measured.Median != 2 || got.Peer == nil || got.Peer.Median != 100 || got.Ratio.Median != 0.02 || got.Missed() {
		t.Errorf("%+v, want 2 s beside 100 s", got)
	}
	if got := all["fresh Mac: bytes on the wire"]; got.Missed() || got.Ratio.Median != 0.04 {
		t.Errorf("%+v, want 4 MB beside 100 MB", got)
	}
	if got := told(someWorks(4, true), someWorks(4, false))[time]; !got.Missed() {
		t.Errorf("%+v is no tenth of Ansible's time", got)
	}
}

func TestWhatIsToldWithoutAnsible(t *testing.T) {
	for name, f := range told(someWorks(4, true), works{}) {
		if f.Peer != nil || f.Ratio != nil {
			t.Errorf("%s is compared with nothing", name)
		}
		for _, g := range f.Goals {
			if g.Times {
				t.Errorf("%s has a goal that is a ratio to nothing", name)
			}
		}
	}
}

// What is taken from a Mac that converge made is what the playbook copies, and nothing else.
func TestPlaybookCopiesWhatWasLearned(t *testing.T) {
	text, err := playbook.ReadFile("ansible/play.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, loop, _ := strings.Cut(string(text), "- name: files\n")
	loop, _, _ = strings.Cut(loop, "\n\n")
	for _, path := range copied() {
		if !strings.Contains(loop, "{path: "+path+",") && !strings.Contains(string(text), `src: "{{ files }}`+path+`"`) {
			t.Errorf("the playbook does not copy %s", path)
		}
	}
	if got := strings.Count(loop, "{path: ") + strings.Count(string(text), `src: "{{ files }}/`); got != len(copied()) {
		t.Errorf("the playbook copies %d files, of which %d are there", got, len(copied()))
	}
}
