package state

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestDeletingSince(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct{ deleted, want time.Duration }{
		"just now":                 {0, 0},
		"before the agent came":    {-20 * time.Second, -20 * time.Second},
		"long before":              {-time.Hour, -time.Hour},
		"later, by a slower clock": {time.Hour, 0},
	} {
		p := podtest.OnMac("a", corev1.RestartPolicyNever)
		podtest.DeleteAt(p, now.Add(c.deleted))
		if got := DeletingSince(p, now).Sub(now).Round(time.Millisecond); got != c.want {
			t.Errorf("%s: dying since %s, want %s", name, got, c.want)
		}
	}
	if at := DeletingSince(podtest.OnMac("a", corev1.RestartPolicyNever), now); !at.IsZero() {
		t.Errorf("a Pod that lives dies since %s", at)
	}
}
