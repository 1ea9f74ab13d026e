package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// claimed is when the Mac was ordered and claimed; its floor is a day later.
var claimed = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// autoscaled is a Machine of an autoscaled fleet, with a Mac that was ordered for it.
func autoscaled(changes ...func(*Snapshot)) Snapshot {
	s := Snapshot{
		Machine: &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{infrav1.AutoscaledAnnotation: "true"}}},
		Owner:   &clusterv1.Machine{}, Cluster: &clusterv1.Cluster{}, Host: &host.Host{},
	}
	s.Owner.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](20 * 60)
	s.Host.Spec.Record.Ordered = true
	s.Host.Status.Server.DeletableAt = ptr.To(metav1.NewTime(claimed.Add(day)))
	for _, change := range changes {
		change(&s)
	}
	return s
}

// policy is the release policy that a person writes on the Machine.
func policy(word string) func(*Snapshot) {
	return func(s *Snapshot) { s.Machine.Annotations[infrav1.ReleasePolicyAnnotation] = word }
}

// A Mac is held until drain (20 minutes here), wipe (45) and the autoscaler's own
// patience (10) fit before its floor ends.
func TestAPaidMacIsHeldUntilItsFloorIsNear(t *testing.T) {
	near := claimed.Add(day - 75*time.Minute)
	held, free, unknown := ScaleDownHold{Until: near}, ScaleDownHold{}, ScaleDownHold{Unknown: true}
	for name, c := range map[string]struct {
		s     Snapshot
		after time.Duration // since the claim
		want  ScaleDownHold
	}{
		"just claimed":                {autoscaled(), 0, held},
		"a second before it is near":  {autoscaled(), day - 75*time.Minute - time.Second, held},
		"the floor is near":           {autoscaled(), day - 75*time.Minute, free},
		"the floor is past":           {autoscaled(), 3 * day, free},
		"a month is committed":        {autoscaled(func(s *Snapshot) { s.Host.Status.Server.DeletableAt = ptr.To(metav1.NewTime(claimed.Add(28 * day))) }), 3 * day, ScaleDownHold{Until: claimed.Add(28*day - 75*time.Minute)}},
		"no time to drain":            {autoscaled(func(s *Snapshot) { s.Owner.Spec.Deletion.NodeDrainTimeoutSeconds = nil }), 0, ScaleDownHold{Until: claimed.Add(day - 65*time.Minute)}},
		"not autoscaled":              {autoscaled(func(s *Snapshot) { s.Machine.Annotations = nil }), 0, free},
		"autoscaled, says no":         {autoscaled(func(s *Snapshot) { s.Machine.Annotations[infrav1.AutoscaledAnnotation] = "false" }), 0, free},
		"of the pool":                 {autoscaled(func(s *Snapshot) { s.Host.Spec.Record.Ordered = false }), 0, free},
		"of the pool, to be returned": {autoscaled(func(s *Snapshot) { s.Host.Spec.Record.Ordered = false }, policy("terminate")), 0, held},
		"goes to the pool":            {autoscaled(policy("recycle")), 0, free},
		"is handed to a person":       {autoscaled(policy("detach")), 0, free},
		"returned already":            {autoscaled(func(s *Snapshot) { s.Host.Status.Server.DeletionScheduled = true }), 0, free},
		"being deleted":               {autoscaled(func(s *Snapshot) { s.Owner.DeletionTimestamp = ptr.To(metav1.NewTime(claimed)) }), 0, free},
		"floor not known":             {autoscaled(func(s *Snapshot) { s.Host.Status.Server.DeletableAt = nil }), 0, unknown},
		"host not known":              {autoscaled(func(s *Snapshot) { s.Host = nil }), 0, unknown},
	} {
		if got := HoldScaleDown(c.s, claimed.Add(c.after)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestOnlyTheManagersOwnHoldIsChanged(t *testing.T) {
	const disabled, until = infrav1.ScaleDownDisabledAnnotation, infrav1.HeldUntilAnnotation
	type marks = map[string]string
	held := ScaleDownHold{Until: claimed.Add(day)}
	ours := marks{disabled: "true", until: "2026-03-02T12:00:00Z"}
	for name, c := range map[string]struct {
		have marks
		hold ScaleDownHold
		want marks
	}{
		"held":                          {nil, held, ours},
		"held beside others":            {marks{"a": "b"}, held, marks{"a": "b", disabled: "true", until: ours[until]}},
		"held still":                    {ours, held, ours},
		"held longer":                   {ours, ScaleDownHold{Until: claimed.Add(2 * day)}, marks{disabled: "true", until: "2026-03-03T12:00:00Z"}},
		"free":                          {marks{"a": "b"}, ScaleDownHold{}, marks{"a": "b"}},
		"free again":                    {ours, ScaleDownHold{}, marks{}},
		"taken away by somebody":        {marks{until: ours[until]}, held, ours},
		"a person's word":               {marks{disabled: "true"}, held, marks{disabled: "true"}},
		"a person's word stays":         {marks{disabled: "true"}, ScaleDownHold{}, marks{disabled: "true"}},
		"a person says that it may go":  {marks{disabled: "false", until: ours[until]}, held, marks{disabled: "false"}},
		"and says so when it is free":   {marks{disabled: "false", until: ours[until]}, ScaleDownHold{}, marks{disabled: "false"}},
		"nothing is known, held":        {ours, ScaleDownHold{Unknown: true}, ours},
		"nothing is known, not held":    {marks{"a": "b"}, ScaleDownHold{Unknown: true}, marks{"a": "b"}},
		"free, and only the note stays": {marks{until: ours[until]}, ScaleDownHold{}, marks{}},
	} {
		if diff := cmp.Diff(c.want, HoldAnnotations(c.have, c.hold)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
