package health

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func refused() vm.Outcome {
	return vm.Outcome{Kind: vm.NotStarted, Message: "VZErrorDomain Code=-9: Failed to create new HostKey. (OSStatus -25308)"}
}

func TestRefusedStartsInARowAreAClosedSession(t *testing.T) {
	now, told := noon(), 0
	k := &Keychain{Now: func() time.Time { return now }, Changed: func() { told++ }}
	note := func(o vm.Outcome) func() { return func() { k.Note(o) } }
	for _, step := range []struct {
		name    string
		do      func()
		refuses bool
		told    int
	}{
		{"another trouble", note(vm.Outcome{Kind: vm.NotStarted, Message: "no such disk"}), false, 0},
		{"one refusal", note(refused()), false, 1},
		{"a guest runs", k.Opened, false, 2},
		{"one refusal after it", note(refused()), false, 3},
		{"an end that says nothing of the start", note(vm.Outcome{Kind: vm.Killed}), false, 3},
		{"a second", note(refused()), true, 4},
		{"a third", note(refused()), true, 5},
		{"a guest runs again", k.Opened, false, 6},
		{"and another", k.Opened, false, 6},
		{"refused twice", func() { k.Note(refused()); k.Note(refused()) }, true, 8},
		{"a guest that shut itself down", note(vm.Outcome{Kind: vm.ShutDown}), false, 9},
		{"refused twice again", func() { k.Note(refused()); k.Note(refused()) }, true, 11},
		{"nobody tries for long", func() { now = now.Add(refusalHolds + time.Second) }, false, 11},
	} {
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
