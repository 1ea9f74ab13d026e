package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// onMac is a Pod that a Mac has.
func onMac(phase corev1.PodPhase, statuses ...corev1.ContainerStatus) corev1.Pod {
	p := clitest.PendingPod(9)
	p.Spec.NodeName = clitest.Machine(1, "Running").Name
	p.Status = corev1.PodStatus{Phase: phase, ContainerStatuses: statuses}
	return p
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func terminated(reason string, code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Message: message, FinishedAt: clitest.Ago(time.Minute)}}
}

// A Pod that does not get on says why, what comes next, and what to do; and never that nothing
// is wrong with it.
func TestStoriesOfPods(t *testing.T) {
	refused := onMac(corev1.PodFailed)
	refused.Status.Reason, refused.Status.Message = "UnsupportedField", "hostNetwork (Macs have none)"
	job := onMac(corev1.PodFailed, corev1.ContainerStatus{Name: "test", State: terminated("Error", 3, "")})
	job.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "nightly", Controller: ptr.To(true)}}
	for file, p := range map[string]corev1.Pod{
		"pod-no-image.txt":    onMac(corev1.PodPending, corev1.ContainerStatus{Name: "c", State: waiting("InvalidImageName", `image "nginx": invalid image reference`)}),
		"pod-not-pulled.txt":  onMac(corev1.PodPending, corev1.ContainerStatus{Name: "c", State: waiting("ImagePullBackOff", `Back-off pulling image "x": tart says "pulling manifest... Error: 404"`)}),
		"pod-crashes.txt":     onMac(corev1.PodRunning, corev1.ContainerStatus{Name: "c", State: waiting("CrashLoopBackOff", "back-off 20s"), LastTerminationState: terminated("Error", 137, "tart was ended by signal 9")}),
		"pod-no-agent.txt":    onMac(corev1.PodFailed, corev1.ContainerStatus{Name: "c", State: terminated("GuestAgentMissing", 128, "no guest agent within 5m")}),
		"pod-refused.txt":     refused,
		"pod-of-job.txt":      job,
		"pod-runs.txt":        onMac(corev1.PodRunning),
		"pod-unexplained.txt": onMac(corev1.PodPending, corev1.ContainerStatus{Name: "c", State: waiting("ANewReason", "as it says")}),
	} {
		story := Pod(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &p)
		clitest.Golden(t, file, screen.Screen{}, story.Write)
		if first := story.Points[0]; first.Healthy != (file == "pod-runs.txt") || !first.Healthy && (first.Means == "" || first.Next == "" && file != "pod-unexplained.txt") {
			t.Errorf("%s: %+v", file, first)
		}
	}
}

// Where its container waits for the very reason for which it ended, that is told once.
func TestAnEndIsToldOnce(t *testing.T) {
	for reason, points := range map[string]int{"CrashLoopBackOff": 2, "GuestAgentMissing": 1} {
		p := onMac(corev1.PodRunning, corev1.ContainerStatus{Name: "c", State: waiting(reason, "back-off"), LastTerminationState: terminated("GuestAgentMissing", 128, "")})
		story := Pod(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &p)
		if len(story.Points) != points || !strings.Contains(story.Points[points-1].You, "tart-guest-agent runs from boot on") {
			t.Errorf("%s: %+v", reason, story.Points)
		}
	}
}

// On a Mac that is away no Pod gets on, whatever it waits for.
func TestAPodOnAMacThatIsAway(t *testing.T) {
	s := clitest.Fleet()
	s.Machines[0].Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.ReasonNodeUnreachable, "", time.Hour)}
	goes := onMac(corev1.PodRunning)
	goes.DeletionTimestamp = ptr.To(clitest.Ago(time.Minute))
	for name, p := range map[string]corev1.Pod{"it starts": onMac(corev1.PodPending), "it is deleted": goes} {
		if got := Pod(s, reasons.Read(), &p).Points[0]; got.Next != nothingHeard || got.NextAt != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s.Machines[0].Status.Conditions[0].Status = metav1.ConditionTrue
	p := onMac(corev1.PodPending)
	if got := Pod(s, reasons.Read(), &p).Points[0]; got.Next == nothingHeard {
		t.Errorf("a Mac that is well: %+v", got)
	}
}
