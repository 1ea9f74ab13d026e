package node

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

// diskPressurePercent of the volume must be free, as a kubelet's nodefs default.
const diskPressurePercent = 10

// Health is what the conditions are made of. An error says that a check could not
// be made.
type Health struct {
	// Tool is the failure of the virtual machine tool, nil when it works.
	Tool        error
	Disk        hostos.Disk
	DiskErr     error
	Pressure    hostos.Pressure
	PressureErr error
}

// conditions are the four that core looks at. Times come from old where nothing
// changed, and no other condition is in the list: those of others stay.
func conditions(h Health, old []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	list := []corev1.NodeCondition{
		ready(h),
		pressure(corev1.NodeMemoryPressure, h.Pressure.Memory, h.PressureErr, "AgentHasSufficientMemory", "AgentHasInsufficientMemory"),
		pressure(corev1.NodeDiskPressure, short(h.Disk), h.DiskErr, "AgentHasNoDiskPressure", "AgentHasDiskPressure"),
		pressure(corev1.NodePIDPressure, h.Pressure.Processes, h.PressureErr, "AgentHasSufficientPID", "AgentHasInsufficientPID"),
	}
	for i := range list {
		list[i].LastHeartbeatTime = metav1.NewTime(now)
		list[i].LastTransitionTime = transition(list[i], old, now)
	}
	return list
}

func ready(h Health) corev1.NodeCondition {
	if h.Tool != nil {
		return corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse,
			Reason: "VirtualizationNotReady", Message: h.Tool.Error(),
		}
	}
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		Reason: "AgentReady", Message: "the agent is ready to run VMs",
	}
}

func pressure(t corev1.NodeConditionType, pressed bool, err error, fine, bad string) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: fine}
	switch {
	case err != nil:
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "CheckFailed", err.Error()
	case pressed:
		c.Status, c.Reason = corev1.ConditionTrue, bad
	}
	return c
}

func short(d hostos.Disk) bool {
	return d.TotalBytes > 0 && d.FreeBytes < d.TotalBytes/100*diskPressurePercent
}

func transition(c corev1.NodeCondition, old []corev1.NodeCondition, now time.Time) metav1.Time {
	i := slices.IndexFunc(old, func(o corev1.NodeCondition) bool { return o.Type == c.Type && o.Status == c.Status })
	if i >= 0 {
		return old[i].LastTransitionTime
	}
	return metav1.NewTime(now)
}

// sameButTimes reports whether two lists say the same at different times.
func sameButTimes(a, b []corev1.NodeCondition) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.NodeCondition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message
	})
}

// describeHealth is one line for the log.
func describeHealth(list []corev1.NodeCondition) string {
	words := make([]string, 0, len(list))
	for _, c := range list {
		words = append(words, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	return fmt.Sprint(words)
}
