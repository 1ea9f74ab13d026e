package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/shim"
)

func TestResume(t *testing.T) {
	at := func(s Step, boot string) *Record { return &Record{UID: "u", Step: s, BootSession: boot} }
	for _, c := range []struct {
		name string
		in   Findings
		want Action
	}{
		{"new Pod", Findings{}, ActionBegin},
		{"no journal, and it ran", Findings{Ran: true, Reconstructed: true}, ActionLost},
		{"clone half made", Findings{Record: at(StepCreating, "now")}, ActionBegin},
		{"clone half made before a reboot", Findings{Record: at(StepCreating, "before")}, ActionBegin},
		{"shim never began", Findings{Record: at(StepStarting, "now")}, ActionBegin},
		{"shim began and is gone", Findings{Record: at(StepStarting, "now"), ShimStarted: true}, ActionLost},
		{"starting", Findings{Record: at(StepStarting, "now"), ShimStarted: true, ShimAlive: true}, ActionReattach},
		{"running", Findings{Record: at(StepRunning, "now"), ShimStarted: true, ShimAlive: true, Running: true}, ActionReattach},
		{"running without its shim", Findings{Record: at(StepRunning, "now"), ShimStarted: true, Running: true}, ActionReattach},
		{"ended while away", Findings{Record: at(StepRunning, "now"), ShimStarted: true, Exit: &shim.Exit{}}, ActionReadExit},
		{"ended before a reboot", Findings{Record: at(StepRunning, "before"), ShimStarted: true, Exit: &shim.Exit{}}, ActionReadExit},
		{"gone", Findings{Record: at(StepRunning, "now"), ShimStarted: true}, ActionLost},
		{"rebooted", Findings{Record: at(StepRunning, "before"), ShimStarted: true}, ActionLost},
		{"rebooted while starting", Findings{Record: at(StepStarting, "before")}, ActionLost},
		{"no journal, it ran, and a shim never began", Findings{Ran: true, Reconstructed: true, Record: at(StepStarting, "now")}, ActionLost},
		{"no journal, it ran, and runs", Findings{Ran: true, Reconstructed: true, Record: at(StepRunning, "now"), Running: true}, ActionReattach},
		{"no journal, and nothing ran", Findings{Reconstructed: true}, ActionBegin},
		{"ended and written down", Findings{Record: at(StepEnded, "before")}, ActionEnded},
	} {
		c.in.BootSession = "now"
		if got, why := Resume(c.in); got != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, got, why, c.want)
		}
	}
}

func TestBackOff(t *testing.T) {
	var pulls, restarts []time.Duration
	for n := 1; n <= 8; n++ {
		pulls, restarts = append(pulls, PullDelay(n)/time.Second), append(restarts, restartDelay(n)/time.Second)
	}
	if d := cmp.Diff([]time.Duration{10, 20, 40, 80, 160, 300, 300, 300}, pulls); d != "" {
		t.Errorf("pulls (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]time.Duration{0, 10, 20, 40, 80, 160, 300, 300}, restarts); d != "" {
		t.Errorf("restarts (-want +got):\n%s", d)
	}
}
