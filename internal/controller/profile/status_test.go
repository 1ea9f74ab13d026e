package profile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// fresh is a Machine of the profile that has no Node yet.
func fresh(name string) []client.Object {
	m := running(name, "builders", "")[0].(*infrav1.ScalewayAppleSiliconMachine)
	m.Spec.ProviderID, m.Status = "", infrav1.ScalewayAppleSiliconMachineStatus{}
	return []client.Object{m}
}

// RolledOut is about every Machine of the profile, those that are being set up too.
func TestRolledOutCountsEveryMachine(t *testing.T) {
	paused := builders()
	paused.Spec.Rollout.Paused = true
	held := running("a", "builders", "old")
	now := metav1.NewTime(start().Add(-time.Second))
	held[0].(*infrav1.ScalewayAppleSiliconMachine).Status.Update = infrav1.UpdateStatus{Revision: revision(), HeldAt: &now}
	off := running("b", "builders", "old")
	off[0].(*infrav1.ScalewayAppleSiliconMachine).Status.Update = infrav1.UpdateStatus{Revision: revision(), HeldAt: &now}
	off[1].(*corev1.Node).Status.Conditions[0].Status, off[1].(*corev1.Node).Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, now

	for name, c := range map[string]struct {
		profile         *infrav1.MacNodeProfile
		machines        []client.Object
		reason, message string
	}{
		"no Machine":                    {reason: infrav1.RolledOutCondition},
		"all are done":                  {machines: three(revision()), reason: infrav1.RolledOutCondition},
		"none has a Node yet":           {machines: join(fresh("a"), fresh("b"), fresh("c")), reason: infrav1.ReasonRollingOut, message: "0 of 3 Macs are done: 3 being set up"},
		"the last one is on its way":    {machines: join(running("a", "builders", revision()), fresh("b")), reason: infrav1.ReasonRollingOut, message: "1 of 2 Macs are done: 1 being set up"},
		"one waits and one comes":       {machines: join(held, fresh("b")), reason: infrav1.ReasonRollingOut, message: "0 of 2 Macs are done: 1 held, 1 being set up"},
		"all that is left waits":        {machines: held, reason: infrav1.ReasonHeld, message: "1 Mac cannot be changed for now; its condition UpToDate says why"},
		"one waits for one that is off": {machines: join(running("a", "builders", "old"), off), reason: infrav1.ReasonRollingOut, message: "0 of 2 Macs are done: 1 outdated, 1 held; the others wait for what is not Ready: b"},
		"a pause ends no bootstrap":     {profile: paused, machines: fresh("a"), reason: infrav1.ReasonRollingOut, message: "0 of 1 Macs are done: 1 being set up"},
		"a pause holds the others":      {profile: paused, machines: join(running("a", "builders", "old"), fresh("b")), reason: infrav1.ReasonRolloutPaused, message: "spec.rollout.paused: 1 Mac is not yet as it should be"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.profile == nil {
				c.profile = builders()
			}
			w := newWorld(t, append(c.machines, c.profile)...)
			w.visit("builders")
			got := w.condition(infrav1.RolledOutCondition)
			if got.Reason != c.reason || got.Message != c.message || (got.Status == metav1.ConditionTrue) != (c.reason == infrav1.RolledOutCondition) {
				t.Errorf("RolledOut is %s, %s: %q; want %s: %q", got.Status, got.Reason, got.Message, c.reason, c.message)
			}
		})
	}
}

func TestWaitsForNamesAFew(t *testing.T) {
	for want, missed := range map[string][]string{
		"": nil,
		"; the others wait for what is not Ready: a":                  {"a"},
		"; the others wait for what is not Ready: a, b, c and 2 more": {"a", "b", "c", "d", "e"},
	} {
		if got := waitsFor(missed); got != want {
			t.Errorf("waitsFor(%v) = %q, want %q", missed, got, want)
		}
	}
}
