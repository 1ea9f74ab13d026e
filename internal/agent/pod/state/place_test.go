package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// several is a Pod with a sidecar, an init container, and two others.
func several(policy corev1.RestartPolicy) *corev1.Pod {
	return podtest.Sidecars(podtest.Beside(podtest.Job(policy, "prepare"), "web"), "proxy")
}

func recordOf(p *corev1.Pod) Record {
	r := Record{UID: p.UID, Step: StepRunning}
	r.Fit(p)
	return r
}

func TestCommandsNameTheirContainers(t *testing.T) {
	p := several(corev1.RestartPolicyAlways)
	for id, want := range map[string]string{
		"main": "vm", "main-r12": "vm", "c-1": "web", "c-1-r2": "web", "init-0": "proxy", "init-0-r1": "proxy", "init-1": "prepare", "setup": "proxy",
	} {
		c, at := ContainerOf(p, id)
		if _, n, ok := placeOf(p, id); c.Name != want || ok && at.Command(n) != id {
			t.Errorf("%s is of %s and is %s again", id, c.Name, at.Command(n))
		}
	}
	if d := cmp.Diff([]string{"setup", "init-1"}, CommandIDs(p, true)); d != "" {
		t.Errorf("one after the other (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"init-0", "main"}, CommandIDs(podtest.Job(corev1.RestartPolicyNever, "one"), false)); d != "" {
		t.Errorf("one container (-want +got):\n%s", d)
	}
}

func TestWhatDecidesTheEndOfSeveralContainers(t *testing.T) {
	good, bad, worse := Exit{Reason: ReasonCompleted}, Exit{Code: 3, Reason: reasonError}, Exit{Code: 4, Reason: reasonError, Of: "c-1"}
	unhealthy, replaced := Exit{Unhealthy: true}, Exit{Replaced: true}
	never, failure, always := corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure, corev1.RestartPolicyAlways
	for name, c := range map[string]struct {
		policy    corev1.RestartPolicy
		main, web *Exit
		over      bool
		code      int32
	}{
		"one goes on":                    {never, &good, nil, false, 0},
		"all succeed":                    {never, &good, &good, true, 0},
		"one fails":                      {never, &good, &worse, true, 4},
		"the first failure counts":       {never, &bad, &worse, true, 3},
		"a failure is restarted":         {failure, &good, &worse, false, 0},
		"all succeed, with OnFailure":    {failure, &good, &good, true, 0},
		"one was killed for its probes":  {failure, &good, &unhealthy, false, 0},
		"one was stopped for an image":   {never, &good, &replaced, false, 0},
		"what succeeds is restarted too": {always, &good, &good, false, 0},
	} {
		p := several(c.policy)
		r := recordOf(p)
		r.Exit, r.Others[0].Exit = c.main, c.web
		if e, over := Decided(p, r); over != c.over || e.Code != c.code {
			t.Errorf("%s: over %t with code %d", name, over, e.Code)
		}
	}
	r := Record{ContainerRecord: ContainerRecord{Exit: &good}}
	if _, over := Decided(podtest.Job(never), r); over {
		t.Error("the rule of several holds for one container")
	}
}

func TestTheNextVMRunsWhatHasNotEndedForGood(t *testing.T) {
	now := time.Unix(1000, 0)
	p := several(corev1.RestartPolicyOnFailure)
	r := recordOf(p)
	r.Inits[0].Begun, r.Inits[0].Run = now, 2
	r.Inits[1] = ContainerRecord{Begun: now, Exit: &Exit{Of: "init-1"}}
	r.ContainerRecord = ContainerRecord{Begun: now, Exit: &Exit{Reason: ReasonCompleted}, Restarts: 1}
	r.Others[0] = ContainerRecord{Begun: now, Run: 1, Ends: 1, Restarts: 1}
	e := ExitOf(p, r, ExitEvidence{Progress: Pending(p, r), Exit: &shim.Exit{Ended: now}, Outcome: vm.Outcome{Kind: vm.Crashed}}, now)
	if e.Of != "c-1-r1" || e.Code == 0 || e.Unstarted || e.VM != "tk-uid-a-0/web/1" {
		t.Errorf("the end of the VM: %+v", e)
	}
	r = r.Ended(p, e)
	for _, l := range append(r.Inits, r.Others...) {
		if l.Exit == nil {
			t.Errorf("a container outlives its VM: %+v", l)
		}
	}
	r = r.Next(p)
	got := []int32{r.Inits[0].Restarts, r.Inits[1].Restarts, r.Restarts, r.Others[0].Restarts}
	if d := cmp.Diff([]int32{1, 1, 1, 2}, got); d != "" {
		t.Errorf("restarts (-want +got):\n%s", d)
	}
	if r.Exit == nil || r.Others[0].Exit != nil || r.Others[0].Run != 0 || r.Inits[0].Run != 0 || r.hasBegun() {
		t.Errorf("record %+v", r)
	}
}

// Nothing of several containers has run where none has begun: that is no end of theirs.
func TestNothingOfSeveralHasRun(t *testing.T) {
	now := time.Unix(1000, 0)
	p := several(corev1.RestartPolicyNever)
	r := recordOf(p)
	evidence := ExitEvidence{Progress: CommandProgress{ID: "init-1"}, Exit: &shim.Exit{Ended: now}, Outcome: vm.Outcome{Kind: vm.Crashed}}
	if e := ExitOf(p, r, evidence, now); !e.Unstarted {
		t.Errorf("before anything: %+v", e)
	}
	r.Inits[0].Begun = now
	if e := ExitOf(p, r, evidence, now); e.Unstarted || e.Of != "init-1" {
		t.Errorf("after the sidecar began: %+v", e)
	}
}

func TestTheStatusOfSeveralContainers(t *testing.T) {
	now := time.Unix(1000, 0)
	p := several(corev1.RestartPolicyAlways)
	r := recordOf(p)
	r.Inits[0].Begun = now
	r.Inits[1] = ContainerRecord{Begun: now, Exit: &Exit{Of: "init-1", Reason: ReasonCompleted}}
	r.ContainerRecord = ContainerRecord{Begun: now, Run: 1, Restarts: 1}
	r.Others[0] = ContainerRecord{Begun: now, Run: 2, Ends: 3, Restarts: 2, Exit: &Exit{Code: 1, Of: "c-1-r2", VM: "tk-uid-a-0/web/2", Started: now, Finished: now}}
	render := func() corev1.PodStatus {
		return Render(p, Invariant{}, ViewOf(p, r, r.MainsRan(p), corev1.ContainerStateWaiting{Reason: "x"}), nil, now)
	}
	s := render()
	web := s.ContainerStatuses[1]
	if s.ContainerStatuses[0].ContainerID != "tart://tk-uid-a-0/vm/1" || web.ContainerID != "tart://tk-uid-a-0/web/2" {
		t.Errorf("IDs %s, %s", s.ContainerStatuses[0].ContainerID, web.ContainerID)
	}
	if w := web.State.Waiting; w == nil || w.Reason != ReasonBackOff || w.Message != "back-off 20s restarting failed container=web pod=a_ns(uid-a)" || web.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("web %+v", web)
	}
	if s.Phase != corev1.PodRunning || ConditionOf(s.Conditions, corev1.PodReady) != corev1.ConditionFalse || ConditionOf(s.Conditions, corev1.PodInitialized) != corev1.ConditionTrue {
		t.Errorf("phase %s, conditions %+v", s.Phase, s.Conditions)
	}
	if d := cmp.Diff("containers with unready status: [web]", conditionOf(s, corev1.ContainersReady).Message); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	r.Others[0] = ContainerRecord{Begun: now, Exit: &Exit{Replaced: true, Reason: ReasonCompleted}}
	if p.Spec.RestartPolicy = corev1.RestartPolicyNever; ConditionOf(render().Conditions, corev1.PodReady) != corev1.ConditionFalse {
		t.Error("the Pod is ready though one of its containers has ended")
	}
	r.Others[0] = ContainerRecord{}
	if s := render(); s.Phase != corev1.PodPending {
		t.Errorf("phase %s though one container never ran", s.Phase)
	}
}

// A container that runs again at once is shown as it ended, unless the API would take that for
// its last word: that of a sidecar, by the Pod's policy.
func TestAnEndWithoutBackOff(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		policy corev1.RestartPolicy
		ends   int
		waits  [2]bool // the sidecar and web
	}{
		"first":              {corev1.RestartPolicyAlways, 1, [2]bool{false, false}},
		"second":             {corev1.RestartPolicyAlways, 2, [2]bool{true, true}},
		"first, under Never": {corev1.RestartPolicyNever, 1, [2]bool{true, false}},
	} {
		p := several(c.policy)
		r := recordOf(p)
		for _, l := range []*ContainerRecord{&r.Inits[0], &r.Others[0]} {
			*l = ContainerRecord{Begun: now, Ends: c.ends, Exit: &Exit{Code: 1, Started: now, Finished: now}}
		}
		v := ViewOf(p, r, true, corev1.ContainerStateWaiting{Reason: "x"})
		for i, s := range []ContainerState{v.Inits[0], v.Others[0]} {
			if waits := s.Waiting != nil && s.Waiting.Reason == ReasonBackOff; waits != c.waits[i] || (s.Exit == nil) != c.waits[i] {
				t.Errorf("%s end: container %d: %+v", name, i, s)
			}
		}
	}
}

func conditionOf(s corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// A record that is lost is made up from what the API shows, run for run.
func TestTheRecordOfSeveralIsMadeUp(t *testing.T) {
	now := metav1.NewTime(time.Unix(1000, 0))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	ended := &corev1.ContainerStateTerminated{ExitCode: 1, ContainerID: "tart://tk-uid-a-4/web/2", StartedAt: now, FinishedAt: now}
	p := several(corev1.RestartPolicyAlways)
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", ContainerID: "tart://tk-uid-a-4/proxy/1", State: running, RestartCount: 7}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "vm", ContainerID: "tart://tk-uid-a-3/vm/9", RestartCount: 12, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}},
		{
			Name: "web", ContainerID: "tart://tk-uid-a-4/web/2", RestartCount: 6,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: ReasonBackOff}},
			LastTerminationState: corev1.ContainerState{Terminated: ended},
		},
	}
	r := Reconstruct(p, "b", 4, StepRunning)
	if r == nil || r.Attempt != 4 || r.Step != StepRunning || r.Run != 0 || r.Inits[0].Run != 1 || r.Inits[0].Begun.IsZero() {
		t.Fatalf("record %+v", r)
	}
	web := r.Others[0]
	if web.Run != 2 || web.Restarts != 6 || web.Exit == nil || web.Exit.Of != "c-1-r2" {
		t.Errorf("web %+v", web)
	}
	if delay, again := r.WaitsFor(p, Place{Index: 1}); !again || delay != 0 {
		t.Errorf("waits %s, again %t", delay, again)
	}
}

func TestWhatSeveralWereToldOfTheirEnd(t *testing.T) {
	e := Ending{}
	e.Note("main", true, Told{Hooked: true})
	e.Note("c-1", true, Told{Signaled: true})
	if e.Of("main") != (Told{Hooked: true}) || e.Of("c-1") != (Told{Signaled: true}) || e.Of("init-0") != (Told{}) {
		t.Errorf("%+v", e)
	}
	e = Ending{Told: Told{Hooked: true}}
	if e.Of("main") != (Told{Hooked: true}) {
		t.Errorf("what an older agent wrote: %+v", e)
	}
}
