package host

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func leaking() Leak { return Leak{Leaked: true, BootID: "b1", Ready: true} }

func TestNextLeak(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	rebooted := func(id string, ago time.Duration) func(*Host, *Leak) {
		return func(h *Host, _ *Leak) {
			h.Status.LastReboot = infrav1.RebootStatus{ID: id, At: metav1.NewMicroTime(now.Add(-ago))}
		}
	}
	for name, c := range map[string]struct {
		edit func(h *Host, l *Leak)
		want LeakStep
	}{
		"empty":                        {func(*Host, *Leak) {}, LeakReboot},
		"no leak":                      {func(_ *Host, l *Leak) { l.Leaked = false }, LeakNone},
		"no boot known":                {func(_ *Host, l *Leak) { l.BootID = "" }, LeakNone},
		"a guest runs":                 {func(_ *Host, l *Leak) { l.Running = []string{"a/b"} }, LeakWait},
		"a place is left":              {func(_ *Host, l *Leak) { l.Places = 1 }, LeakWait},
		"a guest of others runs":       {func(_ *Host, l *Leak) { l.Foreign = true }, LeakWait},
		"not Ready":                    {func(_ *Host, l *Leak) { l.Ready = false }, LeakWait},
		"in maintenance":               {func(h *Host, _ *Leak) { h.Spec.Maintenance = &infrav1.Maintenance{} }, LeakWait},
		"being released":               {func(h *Host, _ *Leak) { h.Spec.Release = &infrav1.Release{} }, LeakWait},
		"handed over":                  {func(h *Host, _ *Leak) { h.Spec.Record.HandedOverAt = &metav1.MicroTime{} }, LeakWait},
		"somebody asks already":        {func(h *Host, _ *Leak) { h.Spec.Reboot = &infrav1.RebootRequest{ID: "x"} }, LeakWait},
		"asked for":                    {func(h *Host, _ *Leak) { h.Spec.Reboot = &infrav1.RebootRequest{ID: "leak-b1"} }, LeakUnderway},
		"taken":                        {rebooted("leak-b1", time.Minute), LeakUnderway},
		"taken, and nothing happened":  {rebooted("leak-b1", leakBoots), LeakStays},
		"again after an hour":          {rebooted("leak-b0", time.Hour), LeakStays},
		"again after a day":            {rebooted("leak-b0", leakAgain), LeakReboot},
		"rebooted for something else":  {rebooted("bootstrap-t", time.Minute), LeakReboot},
		"healed by what was asked for": {func(h *Host, l *Leak) { rebooted("leak-b1", time.Hour)(h, l); l.Leaked = false; l.BootID = "b2" }, LeakNone},
	} {
		h, l := &Host{}, leaking()
		c.edit(h, &l)
		got, why := NextLeak(h, l, now)
		if got != c.want {
			t.Errorf("%s: %s (%s), want %s", name, got, why, c.want)
		}
		if silent := got == LeakNone || got == LeakReboot; silent != (why == "") {
			t.Errorf("%s: %s says %q", name, got, why)
		}
	}
}

func TestRebootForLeak(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Leak)
		want RebootStep
		says string
	}{
		"still so":               {func(*Leak) {}, RebootAsk, ""},
		"a guest runs":           {func(l *Leak) { l.Running = []string{"a/b"} }, RebootWait, "a/b"},
		"a place is left":        {func(l *Leak) { l.Places = 1 }, RebootWait, "1 place is left"},
		"a guest of others runs": {func(l *Leak) { l.Foreign = true }, RebootDrop, "VMs of others"},
		"not Ready":              {func(l *Leak) { l.Ready = false }, RebootDrop, "not Ready"},
		"healed":                 {func(l *Leak) { l.Leaked = false }, RebootDrop, "no Node tells"},
		"another boot":           {func(l *Leak) { l.BootID = "b2" }, RebootDrop, "no Node tells"},
		"no Node":                {func(l *Leak) { *l = Leak{} }, RebootDrop, "no Node tells"},
	} {
		h, l := &Host{}, leaking()
		AskForLeakReboot(h, l, time.Now())
		c.edit(&l)
		if got, why := RebootForLeak(h, l); got != c.want || !strings.Contains(why, c.says) {
			t.Errorf("%s: %s (%s), want %s (%s)", name, got, why, c.want, c.says)
		}
	}
}

func TestLeakOf(t *testing.T) {
	state := func(phase corev1.PodPhase, s corev1.ContainerState) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: string(phase)},
			Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{State: s}}},
		}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "LicenseLimitReached"}}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want int
	}{
		"waits for a place":       {state(corev1.PodPending, waiting), 0},
		"runs":                    {state(corev1.PodRunning, running), 1},
		"waits for a place again": {state(corev1.PodRunning, waiting), 0},
		"an init container runs":  {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{State: running}}}}, 1},
		"ended well":              {state(corev1.PodSucceeded, waiting), 0},
		"ended, and shown as was": {state(corev1.PodFailed, running), 0},
	} {
		if got := LeakOf(&corev1.Node{}, []corev1.Pod{c.pod}); len(got.Running) != c.want {
			t.Errorf("%s: %v run", name, got.Running)
		}
	}
	node := &corev1.Node{Status: corev1.NodeStatus{
		NodeInfo:    corev1.NodeSystemInfo{BootID: "b1"},
		Allocatable: corev1.ResourceList{vmResource: resource.MustParse("1")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: slotsCondition, Status: corev1.ConditionFalse, Reason: slotsLeaked}},
	}}
	if l := LeakOf(node, nil); !l.Leaked || l.Foreign || !l.Ready || l.BootID != "b1" || l.Places != 1 {
		t.Errorf("leak %+v", l)
	}
	node.Status.Conditions[1].Reason = "ForeignGuests"
	if l := LeakOf(node, nil); !l.Leaked || !l.Foreign {
		t.Errorf("beside guests of others: %+v", l)
	}
	node.Status.Conditions[1].Status = corev1.ConditionTrue
	if l := LeakOf(node, nil); l.Leaked || l.Foreign {
		t.Errorf("guests of others alone: %+v", l)
	}
}
