package pod

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestEndOf(t *testing.T) {
	begin := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	now := begin.Add(time.Hour)
	exit := &shim.Exit{Code: 1, Started: begin, Ended: now}
	short := &shim.Exit{Code: 1, Started: begin, Ended: begin.Add(time.Second)}
	report := int32(9)
	command := func(id string, o shim.Outcome, code int) standing {
		return standing{ID: id, Begun: o != shim.Unreachable, End: &shim.CommandEnd{ID: id, Outcome: o, Code: code, Begun: begin, Ended: now}}
	}
	type want struct {
		Code      int32
		Reason    string
		Init      string
		Unstarted bool
	}
	for _, c := range []struct {
		name string
		in   remains
		want want
	}{
		{"a VM shuts down", remains{Exit: exit, Outcome: vm.Outcome{Kind: vm.ShutDown}}, want{0, "Completed", "", false}},
		{"and reports", remains{Exit: exit, Outcome: vm.Outcome{Kind: vm.ShutDown}, Report: &report}, want{9, "Error", "", false}},
		{"a report does not mend a crash", remains{Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}, Report: &report}, want{1, "Error", "", false}},
		{"a VM is stopped", remains{Exit: exit, Outcome: vm.Outcome{Kind: vm.Stopped}}, want{137, "Error", "", false}},
		{"a VM is killed", remains{Exit: &shim.Exit{Signal: 9, Ended: now}, Outcome: vm.Outcome{Kind: vm.Killed}}, want{137, "Error", "", false}},
		{"a VM does not start", remains{Exit: short, Outcome: vm.Outcome{Kind: vm.NotStarted}}, want{128, "RunContainerError", "", true}},
		{"a VM has no session", remains{Exit: short, Outcome: vm.Outcome{Kind: vm.NotStarted, NoSession: true}}, want{128, "NoConsoleSession", "", true}},
		{"tart fails after an hour", remains{Exit: exit, Outcome: vm.Outcome{Kind: vm.NotStarted}}, want{1, "Error", "", false}},
		{"tart fails, and the clock was set back", remains{Exit: &shim.Exit{Code: 1, Started: now, Ended: begin}, Outcome: vm.Outcome{Kind: vm.NotStarted}}, want{1, "Error", "", false}},
		{"no session, before init", remains{Standing: standing{ID: "init-0"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.NotStarted, NoSession: true}}, want{128, "NoConsoleSession", "", true}},
		{"a crash before init", remains{Standing: standing{ID: "init-0"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{128, "RunContainerError", "", true}},
		{"a crash after init", remains{Standing: standing{ID: "main"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{1, "Error", "", false}},
		{"nobody knows, before init", remains{Standing: standing{ID: "init-0"}, Why: "?"}, want{137, "ContainerStatusUnknown", "init-0", false}},
		{"the licence", remains{Exit: exit, Outcome: vm.Outcome{Kind: vm.Limited}}, want{1, "LicenseLimitReached", "", true}},
		{"nobody knows", remains{Why: "?"}, want{137, "ContainerStatusUnknown", "", false}},
		{"main ended", remains{Standing: command("main", shim.Exited, 0)}, want{0, "Completed", "", false}},
		{"main ended, then the VM crashed", remains{Standing: command("main", shim.Exited, 0), Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{0, "Completed", "", false}},
		{"main failed", remains{Standing: command("main", shim.Exited, 3)}, want{3, "Error", "", false}},
		{"main could not start", remains{Standing: command("main", shim.NotExecuted, 0)}, want{128, "StartError", "", false}},
		{"main was cut off by a crash", remains{Standing: command("main", shim.Lost, 0), Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{1, "Error", "", false}},
		{"main was cut off by a shutdown", remains{Standing: command("main", shim.Lost, 0), Exit: exit, Outcome: vm.Outcome{Kind: vm.ShutDown}}, want{137, "Error", "", false}},
		{"main was cut off, nobody knows", remains{Standing: command("main", shim.Lost, 0)}, want{137, "ContainerStatusUnknown", "", false}},
		{"the VM ended before main", remains{Standing: standing{ID: "main"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.ShutDown}}, want{137, "Error", "", false}},
		{"the licence, before main", remains{Standing: standing{ID: "init-0"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Limited}}, want{128, "LicenseLimitReached", "", true}},
		{"an init container failed", remains{Standing: command("init-0", shim.Exited, 3)}, want{3, "Error", "init-0", false}},
		{"a crash while it ran", remains{Standing: standing{ID: "init-0", Begun: true}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{1, "Error", "init-0", false}},
		{"the mounts failed", remains{Standing: command("setup", shim.Exited, 1)}, want{1, "CreateContainerConfigError", "init-0", true}},
		{"a crash while they are made", remains{Standing: standing{ID: "setup", Begun: true}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{128, "RunContainerError", "", true}},
	} {
		p := aJob(corev1.RestartPolicyNever, "one")
		e := endOf(p, entry{UID: "u", Inits: make([]lived, 1)}, c.in, now)
		if d := cmp.Diff(c.want, want{e.Code, e.Reason, e.Init, e.Unstarted}); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestStandingIsTheFirstThatHasNotSucceeded(t *testing.T) {
	good := &shim.CommandEnd{Outcome: shim.Exited}
	for name, c := range map[string]struct {
		ends map[string]*shim.CommandEnd
		want string
	}{
		"nothing yet":    {nil, "setup"},
		"set up":         {map[string]*shim.CommandEnd{"setup": good}, "init-0"},
		"init failed":    {map[string]*shim.CommandEnd{"setup": good, "init-0": {Outcome: shim.Exited, Code: 1}, "main": good}, "init-0"},
		"all has passed": {map[string]*shim.CommandEnd{"setup": good, "init-0": good, "main": good}, "main"},
	} {
		s, err := standingOf(commandIDs(aJob(corev1.RestartPolicyNever, "one"), true), func(id string) (bool, *shim.CommandEnd, error) {
			return c.ends[id] != nil, c.ends[id], nil
		})
		if err != nil || s.ID != c.want {
			t.Errorf("%s: %q, want %q, err %v", name, s.ID, c.want, err)
		}
	}
}

func TestNotBelow(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
	killed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
	status := func(phase corev1.PodPhase, restarts int32, s corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "vm", RestartCount: restarts, State: s}}}
	}
	first, second := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	started := func(s corev1.PodStatus, at metav1.Time) corev1.PodStatus {
		s.StartTime = &at
		return s
	}
	for name, c := range map[string]struct{ shown, next, want corev1.PodStatus }{
		"nothing was shown": {corev1.PodStatus{}, status("Running", 1, running), status("Running", 1, running)},
		"forward":           {status("Pending", 0, corev1.ContainerState{}), status("Running", 1, running), status("Running", 1, running)},
		"the phase":         {status("Running", 2, running), status("Pending", 2, corev1.ContainerState{}), status("Running", 2, corev1.ContainerState{})},
		"restarts":          {status("Running", 2, running), status("Running", 0, running), status("Running", 2, running)},
		"an end stays":      {status("Failed", 2, ended), status("Running", 3, running), status("Failed", 2, ended)},
		"it stays the same": {status("Failed", 2, ended), status("Succeeded", 2, killed), status("Failed", 2, ended)},
		"containers may follow": {
			status("Failed", 2, running), status("Failed", 2, killed), status("Failed", 2, killed),
		},
		"the start": {
			started(status("Running", 0, running), first), started(status("Running", 0, running), second), started(status("Running", 0, running), first),
		},
	} {
		if d := cmp.Diff(c.want, notBelow(c.shown, c.next)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// A status never falls behind what an earlier agent wrote, whatever became of its
// journal.
func TestTheAPIServerIsTheFloor(t *testing.T) {
	p := onMac("a", corev1.RestartPolicyAlways)
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "vm", RestartCount: 4, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	w := newWorld(t, p)
	w.phases.seen = map[string][]corev1.PodPhase{"uid-a": {corev1.PodRunning}}
	w.startAgent()
	got := w.awaitPod("a", "was restarted", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == 5 && p.Status.ContainerStatuses[0].Ready
	})
	if e := got.Status.ContainerStatuses[0].LastTerminationState.Terminated; e == nil || e.Reason != "ContainerStatusUnknown" {
		t.Errorf("last state %+v", e)
	}
}

func TestJournalsOfAnEarlierAgentAreRead(t *testing.T) {
	w := newWorld(t)
	j := journal(w.dir)
	old := `{"uid":"u","namespace":"ns","name":"a","attempt":3,"restarts":2,"step":"ended","last":{"code":1,"reason":"Error","finished":"2026-05-01T10:00:00Z"}}`
	if err := j.save(entry{UID: "u"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(j.recordFile("u"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := j.load("u")
	if err != nil || r == nil {
		t.Fatalf("record %v, err %v", r, err)
	}
	if e := r.outcome(); r.Restarts != 2 || e.Code != 1 {
		t.Errorf("restarts %d, outcome %+v", r.Restarts, e)
	}
}

func TestRecordsCountWhatRan(t *testing.T) {
	r := entry{UID: "u", Inits: make([]lived, 2)}
	r.Inits[0].Begun, r.Inits[0].End = time.Unix(1, 0), &end{Init: "init-0"}
	r.Inits[1].Begun = time.Unix(2, 0)
	r = r.ended(end{Code: 1, Init: "init-1"}).next()
	got := []int32{r.Restarts, r.Inits[0].Restarts, r.Inits[1].Restarts}
	if d := cmp.Diff([]int32{0, 1, 1}, got); d != "" {
		t.Errorf("restarts after init failed (-want +got):\n%s", d)
	}
	r = r.ended(end{Unstarted: true}).next()
	got = []int32{r.Restarts, r.Inits[0].Restarts, r.Inits[1].Restarts}
	if d := cmp.Diff([]int32{0, 1, 1}, got); d != "" {
		t.Errorf("restarts after nothing ran (-want +got):\n%s", d)
	}
	if r.Attempt != 2 || r.Outcome != nil {
		t.Errorf("record %+v", r)
	}
}

func TestTheWriterHoldsTheFloor(t *testing.T) {
	p := onMac("a", corev1.RestartPolicyAlways)
	p.Status.Phase = corev1.PodRunning
	world := newWorld(t, p)
	w := newStatusWriter(world.client, world.clock, slog.New(slog.DiscardHandler), p)
	w.Set(corev1.PodStatus{Phase: corev1.PodPending})
	if w.want.Phase != corev1.PodRunning {
		t.Errorf("phase %s is to be written over Running", w.want.Phase)
	}
}
