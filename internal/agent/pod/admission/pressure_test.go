package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

// The rules are a kubelet's.
func TestWhoIsTakenUnderPressure(t *testing.T) {
	const memory, disk, pids = corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure
	class := func(c corev1.PodQOSClass) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.QOSClass = c } }
	tolerant := func(key string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.QOSClass = corev1.PodQOSBestEffort
			p.Spec.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	priority := func(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }
	for name, c := range map[string]struct {
		pressures []corev1.NodeConditionType
		edit      func(*corev1.Pod)
		message   string
	}{
		"none":                              {nil, class(corev1.PodQOSBestEffort), ""},
		"memory, best effort":               {[]corev1.NodeConditionType{memory}, class(corev1.PodQOSBestEffort), "The node had condition: [MemoryPressure]. "},
		"memory, burstable":                 {[]corev1.NodeConditionType{memory}, class(corev1.PodQOSBurstable), ""},
		"memory, guaranteed":                {[]corev1.NodeConditionType{memory}, class(corev1.PodQOSGuaranteed), ""},
		"memory, tolerated":                 {[]corev1.NodeConditionType{memory}, tolerant(corev1.TaintNodeMemoryPressure), ""},
		"memory, another taint tolerated":   {[]corev1.NodeConditionType{memory}, tolerant(corev1.TaintNodeDiskPressure), "The node had condition: [MemoryPressure]. "},
		"disk, guaranteed":                  {[]corev1.NodeConditionType{disk}, class(corev1.PodQOSGuaranteed), "The node had condition: [DiskPressure]. "},
		"disk, tolerated":                   {[]corev1.NodeConditionType{disk}, tolerant(corev1.TaintNodeDiskPressure), "The node had condition: [DiskPressure]. "},
		"processes":                         {[]corev1.NodeConditionType{pids}, class(corev1.PodQOSGuaranteed), "The node had condition: [PIDPressure]. "},
		"memory and disk, guaranteed":       {[]corev1.NodeConditionType{disk, memory}, class(corev1.PodQOSGuaranteed), "The node had condition: [DiskPressure MemoryPressure]. "},
		"disk, critical":                    {[]corev1.NodeConditionType{disk}, priority(2_000_000_000), ""},
		"disk, important, yet not critical": {[]corev1.NodeConditionType{disk}, priority(1_999_999_999), "The node had condition: [DiskPressure]. "},
	} {
		p := podtest.OnMac("a", corev1.RestartPolicyAlways)
		c.edit(p)
		got := ""
		if f := (Host{Pressures: func() []corev1.NodeConditionType { return c.pressures }}).refuseOnNode(t.Context(), p); f != nil {
			got = f.Message
			if f.Reason != "Evicted" {
				t.Errorf("%s: reason %s", name, f.Reason)
			}
		}
		if got != c.message {
			t.Errorf("%s: %q, want %q", name, got, c.message)
		}
	}
}
