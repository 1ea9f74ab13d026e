package main

import (
	"testing"
	"time"
)

// The two come in pairs: a minute in which both are slow is no fault of ours.
func TestScaleIsComparedPairByPair(t *testing.T) {
	all := (&measured{scaled: &scaled{
		Replicas: 200, Ours: []time.Duration{11 * time.Second, 22 * time.Second, 33 * time.Second},
		Peer: []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second},
	}}).scaleFigures()
	if len(all) != 1 || all[0].Ratio == nil || all[0].Ratio.Median != 1.1 || all[0].Ratio.Count != 3 || all[0].Missed() {
		t.Errorf("%+v, want 1.1 times as long, which is met", all)
	}
}

func TestScaleWithoutAPeerAsksForNothing(t *testing.T) {
	all := (&measured{scaled: &scaled{Replicas: 200, Ours: []time.Duration{time.Second}}}).scaleFigures()
	if len(all) != 1 || all[0].Peer != nil || len(all[0].Goals) != 0 {
		t.Errorf("%+v", all)
	}
}

// What is asked of a thousand claims says nothing of fewer.
func TestClaimsOfAThousandAlone(t *testing.T) {
	for machines, goals := range map[int]int{1000: 2, 300: 0} {
		m := &measured{settings: settings{hosts: 1000}, claims: &claims{Machines: machines, Shown: 40}, peer: &peer{Took: 2640}}
		if got := m.shown("all shown"); len(got.Goals) != goals || got.Missed() {
			t.Errorf("%d Machines: %+v, want %d goals that are met", machines, got, goals)
		}
	}
}
