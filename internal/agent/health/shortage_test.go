package health

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

// A kubelet tells of a pressure for five minutes after it was last seen, so that Pods do
// not come back at once.
func TestAPressureLastsForFiveMinutes(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(noon())
	var found Finding
	var failed error
	c := Lasting(Check{Type: corev1.NodeDiskPressure, Look: func(context.Context) (Finding, error) { return found, failed }}, clock.Now)
	for i, step := range []struct {
		after  time.Duration
		found  Finding
		err    error
		status corev1.ConditionStatus
		word   string
	}{
		{0, relieved("Fine"), nil, "False", ""},
		{0, pressed("Short", "now"), nil, "True", "now"},
		{time.Minute, pressed("Short", "still"), nil, "True", "still"},
		{transition - time.Second, relieved("Fine"), nil, "True", "12:01"},
		{0, Finding{}, errors.New("df failed"), "True", "12:01"},
		{time.Second, relieved("Fine"), nil, "False", ""},
		{0, Finding{}, errors.New("df failed"), "", ""},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		found, failed = step.found, step.err
		f, err := c.Look(t.Context())
		if f.Status != step.status || !strings.Contains(f.Message, step.word) || (err != nil) != (step.status == "") {
			t.Errorf("step %d: %+v, %v, want %s", i, f, err, step.status)
		}
	}
}

func TestWhatIsShort(t *testing.T) {
	disks := NewDisks([]Volume{{"state", "/state", NodePercent}, {"images", "/vms", ImagePercent}}, func(_ context.Context, path string) (hostos.Disk, error) {
		if path == "/state" {
			return hostos.Disk{}, errors.New("df failed")
		}
		return hostos.Disk{TotalBytes: 100 << 30, FreeBytes: 14 << 30}, nil
	})
	short, err := disks.Short(t.Context())
	want := []Shortage{{corev1.ResourceEphemeralStorage, "15Gi", "14Gi"}}
	if d := cmp.Diff(want, short); d != "" || err == nil {
		t.Errorf("(-want +got):\n%s, %v", d, err)
	}
	// The kernel's warning is no reason to end a Pod.
	for name, c := range map[string]struct {
		p    hostos.Pressure
		err  error
		want []Shortage
	}{
		"a warning": {hostos.Pressure{Memory: true}, nil, nil},
		"critical":  {hostos.Pressure{Memory: true, MemoryCritical: true}, nil, []Shortage{{corev1.ResourceMemory, "critical memory pressure", "512Mi"}}},
		"unknown":   {hostos.Pressure{MemoryCritical: true}, errors.New("no vm_stat"), []Shortage{{corev1.ResourceMemory, "critical memory pressure", "unknown"}}},
	} {
		m := Memory{
			Read:      func() (hostos.Pressure, error) { return c.p, nil },
			Available: func(context.Context) (int64, error) { return 512 << 20, c.err },
		}
		short, err := m.Short(t.Context())
		if d := cmp.Diff(c.want, short); d != "" || err != nil {
			t.Errorf("%s (-want +got):\n%s, %v", name, d, err)
		}
	}
}
