package health

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func refused() vm.Outcome {
	return vm.Outcome{Kind: vm.NotStarted, NoSession: true}
}

func TestRefusedStartsInARowAreAClosedSession(t *testing.T) {
	now, told := noon(), 0
	k := &Keychain{Now: func() time.Time { return now }, Changed: func() { told++ }}
	note := func(o vm.Outcome) func() { return func() { k.Note(o) } }
	for _, step := range []struct {
		name    string
		after   time.Duration
		do      func()
		refuses bool
		told    int
	}{
		{"another trouble", 0, note(vm.Outcome{Kind: vm.NotStarted, Message: "no such disk"}), false, 0},
		{"one refusal", 0, note(refused()), false, 1},
		{"the same, or another at that moment", oneMoment - 1, note(refused()), false, 1},
		{"a guest runs", 0, k.Opened, false, 2},
		{"one refusal after it", time.Minute, note(refused()), false, 3},
		{"an end that says nothing of the start", 0, note(vm.Outcome{Kind: vm.Killed}), false, 3},
		{"a second", oneMoment, note(refused()), true, 4},
		{"a third", time.Minute, note(refused()), true, 5},
		{"a guest runs again", 0, k.Opened, false, 6},
		{"and another", 0, k.Opened, false, 6},
		{"refused again", 0, note(refused()), false, 7},
		{"and again", oneMoment, note(refused()), true, 8},
		{"a guest that shut itself down", 0, note(vm.Outcome{Kind: vm.ShutDown}), false, 9},
		{"refused", 0, note(refused()), false, 10},
		{"and once more", oneMoment, note(refused()), true, 11},
		{"nobody tries for long", refusalHolds + time.Second, func() {}, false, 11},
	} {
		now = now.Add(step.after)
		step.do()
		if got := k.Refusal() != ""; got != step.refuses || told != step.told {
			t.Errorf("%s: refuses %v, want %v; told of %d changes, want %d", step.name, got, step.refuses, told, step.told)
		}
	}
}

// A Node that is not Ready for five minutes loses its guests: one refused start must
// not come to that, nor refused starts that are over.
func TestARefusedStartCostsNoGuestThatRuns(t *testing.T) {
	clock := clocktesting.NewFakeClock(noon())
	k := &Keychain{Now: clock.Now}
	m := monitor(t, clock, Hostd{Refusal: k.Refusal, Now: clock.Now}.Checks()...)
	m.o.Deadline = time.Minute
	blocks := func() bool {
		m.look(t.Context())
		clock.Step(patience)
		m.look(t.Context())
		return m.Findings()[0].Blocks
	}
	k.Note(refused())
	if blocks() {
		t.Errorf("after one refusal: %+v", m.Findings()[0])
	}
	k.Note(refused())
	if f := m.Findings()[0]; !blocks() {
		t.Errorf("after two in a row: %+v", f)
	}
	k.Opened()
	m.look(t.Context())
	if f := m.Findings()[0]; f.Status != corev1.ConditionTrue || f.Blocks {
		t.Errorf("while a guest runs: %+v", f)
	}
}
