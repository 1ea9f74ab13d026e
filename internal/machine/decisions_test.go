package machine

import (
	"cmp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func TestNextPush(t *testing.T) {
	ready := func(since time.Duration, status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(start().Add(-since))},
		}}}
	}
	for name, c := range map[string]struct {
		node     *corev1.Node
		fresh    bool // not provisioned yet
		joinable bool
		permit   string
		restart  string
		applied  string // the revision; empty: the wanted one
		want     Push
	}{
		"a new Mac":                            {fresh: true, want: Push{Needed: true, Join: true}},
		"a Mac whose Node is well":             {node: ready(time.Hour, corev1.ConditionTrue)},
		"its Node was deleted":                 {want: Push{Needed: true, Join: true}},
		"deleted, and its token is still good": {joinable: true},
		"not Ready for a while":                {node: ready(time.Minute, corev1.ConditionFalse)},
		"not Ready for too long":               {node: ready(time.Hour, corev1.ConditionFalse), want: Push{Needed: true, Join: true}},
		"deleted, at another revision":         {applied: "older"},
		"deleted, and nobody knows at which":   {applied: "none"},
		"silent, at another revision":          {applied: "older", node: ready(time.Hour, corev1.ConditionUnknown)},
		"in its turn, and deleted":             {applied: "older", permit: "wanted", want: Push{Update: true, Join: true}},
		"in its turn, with a token":            {applied: "older", permit: "wanted", joinable: true, want: Push{Update: true}},
		"at another revision, and restarted":   {applied: "older", restart: "now", want: Push{Needed: true, Join: true}},
		"a restart is asked for":               {node: ready(time.Hour, corev1.ConditionTrue), restart: "now", want: Push{Needed: true}},
		"a restart while it is not Ready":      {node: ready(time.Minute, corev1.ConditionFalse), restart: "now", want: Push{Needed: true, Join: true}},
		"its update permit":                    {node: ready(time.Hour, corev1.ConditionTrue), applied: "older", permit: "wanted", want: Push{Update: true}},
		"a permit for another revision":        {node: ready(time.Hour, corev1.ConditionTrue), permit: "older"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
			m.Status.Applied = infrav1.AppliedStatus{Revision: cmp.Or(c.applied, "wanted"), Agent: "build"}
			if c.applied == "none" {
				m.Status.Applied.Revision = ""
			}
			if !c.fresh {
				m.Spec.ProviderID = "scw-applesilicon://fr-par-1/1"
			}
			if c.permit != "" {
				m.Annotations[infrav1.UpdateAnnotation] = c.permit
			}
			if c.restart != "" {
				m.Annotations[infrav1.RestartAgentAnnotation] = c.restart
			}
			s := Snapshot{Machine: m, Host: &host.Host{}, Node: c.node}
			if got := NextPush(s, "wanted", c.joinable, start()); got != c.want {
				t.Errorf("NextPush = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestPlanRelease(t *testing.T) {
	claimed := func(change func(*host.Host)) *host.Host {
		h := &host.Host{}
		h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "fleet", Name: "mac-1", Token: "token"}
		h.Status.Server.Name = "mac-1"
		change(h)
		return h
	}
	now := metav1.NewMicroTime(start())
	for name, c := range map[string]struct {
		host *host.Host
		gone bool
		want ReleasePlan
	}{
		"a host that is there": {claimed(func(*host.Host) {}), false, ReleaseByPolicy},
		"its server is gone":   {claimed(func(*host.Host) {}), true, ReleaseGone},
		"it was moved":         {claimed(func(h *host.Host) { h.Spec.Record.HandedOverAt = &now }), true, ReleaseMoved},
		"an order":             {claimed(func(h *host.Host) { h.Spec.Order = &infrav1.OrderRequest{} }), false, ReleaseOrder},
		"it is released already": {claimed(func(h *host.Host) {
			h.Spec.Release = &infrav1.Release{Token: "token", Policy: infrav1.Recycle, PoolPrefix: "pool-"}
		}), true, ReleaseNothing},
	} {
		if got := PlanRelease(c.host, c.gone); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestUpdateCounted(t *testing.T) {
	began := start().Add(300 * time.Millisecond)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: start().Add(d)} }
	for name, c := range map[string]struct {
		last infrav1.UpdateStatus
		want bool
	}{
		"nothing is recorded":         {infrav1.UpdateStatus{Revision: "wanted"}, false},
		"failed in the same second":   {infrav1.UpdateStatus{Revision: "wanted", Failures: 1, LastFailedAt: at(0)}, true},
		"failed later":                {infrav1.UpdateStatus{Revision: "wanted", Failures: 1, LastFailedAt: at(time.Minute)}, true},
		"put off later":               {infrav1.UpdateStatus{Revision: "wanted", HeldAt: at(time.Minute)}, true},
		"put off before, failed now":  {infrav1.UpdateStatus{Revision: "wanted", HeldAt: at(-time.Hour), LastFailedAt: at(time.Minute)}, true},
		"failed before":               {infrav1.UpdateStatus{Revision: "wanted", Failures: 1, LastFailedAt: at(-time.Minute)}, false},
		"another revision":            {infrav1.UpdateStatus{Revision: "older", Failures: 1, LastFailedAt: at(time.Minute)}, false},
		"by a clock that is far away": {infrav1.UpdateStatus{Revision: "wanted", Failures: 1, LastFailedAt: at(80 * 365 * 24 * time.Hour)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := UpdateCounted(c.last, "wanted", began); got != c.want {
				t.Errorf("counted = %t, want %t", got, c.want)
			}
		})
	}
}
