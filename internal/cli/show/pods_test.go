package show

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/cli/clitest"
)

func waits(name, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func ended(name, reason string, code int32, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: code, Message: message, FinishedAt: clitest.Ago(time.Minute),
	}}}
}

func TestWhatKeepsAPod(t *testing.T) {
	crashes := waits("c", "CrashLoopBackOff", "back-off 20s")
	crashes.LastTerminationState = ended("c", "Error", 137, "tart was ended by signal 9").State
	unready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [c]"}
	for name, c := range map[string]struct {
		status          corev1.PodStatus
		reason, message string
		since, ended    bool
	}{
		"a pull with dots": {
			status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("c", "ImagePullBackOff", "tart says \"pulling manifest... \n Error: 404\"")}},
			reason: "ImagePullBackOff", message: `tart says "pulling manifest... Error: 404"`,
		},
		"the scheduler repeats itself": {status: clitest.PendingPod(1).Status, reason: "Unschedulable", message: "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Too many pods"},
		"no agent has it":              {status: corev1.PodStatus{Phase: corev1.PodPending}, reason: "Pending"},
		"its turn is not what it waits for": {
			status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("a", "ContainerCreating", ""), waits("b", "ImagePullBackOff", "401")}},
			reason: "ImagePullBackOff", message: "401",
		},
		"its turn": {
			status: corev1.PodStatus{
				Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{waits("i", "PodInitializing", "")},
				ContainerStatuses: []corev1.ContainerStatus{waits("a", "ContainerCreating", "")},
			},
			reason: "PodInitializing",
		},
		"a crash loop": {
			status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{crashes}},
			reason: "CrashLoopBackOff", message: "back-off 20s", since: true, ended: true,
		},
		"an exit code": {
			status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended("a", "Completed", 0, ""), ended("b", "", 3, "")}},
			reason: "Error", message: "container b ended with exit code 3", since: true,
		},
		"with a message": {
			status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended("c", "GuestAgentMissing", 128, "use\nanother image")}},
			reason: "GuestAgentMissing", message: "container c ended with exit code 128: use another image", since: true,
		},
		"a reason of its own": {
			status: corev1.PodStatus{
				Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory.",
				ContainerStatuses: []corev1.ContainerStatus{ended("c", "Error", 137, "")},
			},
			reason: "Evicted", message: "The node was low on resource: memory.", since: true,
		},
		"refused before anything ran": {
			status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "UnsupportedField", Message: "hostNetwork", ContainerStatuses: []corev1.ContainerStatus{waits("c", "ContainerCreating", "")}},
			reason: "UnsupportedField", message: "hostNetwork",
		},
		"failed, and nothing says why": {status: corev1.PodStatus{Phase: corev1.PodFailed}, reason: "Failed"},
		"it runs, and is not Ready":    {status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{unready}}, reason: "ContainersNotReady", message: unready.Message},
		"it runs":                      {status: corev1.PodStatus{Phase: corev1.PodRunning}},
		"it has run": {status: corev1.PodStatus{
			Phase: corev1.PodSucceeded, Conditions: []corev1.PodCondition{unready}, ContainerStatuses: []corev1.ContainerStatus{ended("c", "Completed", 0, "")},
		}},
	} {
		got := ProblemOf(&corev1.Pod{Status: c.status})
		if got.Reason != c.reason || got.Message != c.message || got.Since.IsZero() == c.since || (got.Ended != nil) != c.ended {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
