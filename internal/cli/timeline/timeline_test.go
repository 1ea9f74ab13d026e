package timeline

import (
	"io"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// used is a fleet with the past of its second Machine.
func used() (*snapshot.Snapshot, Of) {
	s := clitest.Fleet()
	h, m := &s.Hosts[1], &s.Machines[1]
	h.Spec.Failures = infrav1.FailureRecord{Count: 1, Recent: []infrav1.Failure{{Time: clitest.Ago(30 * time.Hour), Reason: "BootstrapExhausted"}}}
	h.Status.LastReboot = infrav1.RebootStatus{ID: "by-hand-1", At: metav1.NewMicroTime(clitest.Now().Add(-20 * time.Minute))}
	m.Status.Update = infrav1.UpdateStatus{Revision: "aa461e465251", Failures: 1, LastFailedAt: ptr.To(clitest.Ago(3 * time.Minute)), ProvedAt: ptr.To(clitest.Ago(40 * time.Minute))}
	m.Status.Drift = infrav1.DriftStatus{CheckedAt: ptr.To(clitest.Ago(10 * time.Minute)), Steps: []string{"sshd"}}
	s.Nodes = []corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, CreationTimestamp: clitest.Ago(41 * time.Minute)},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "AgentReady", LastTransitionTime: clitest.Ago(40 * time.Minute)}}},
	}}
	about := func(kind, reason, message string) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: m.Name}, Reason: reason, Message: message}
	}
	counted, series, single := about("ScalewayAppleSiliconMachine", "UpdateFailed", "step tart: the download\nhas another SHA-256"), about("Node", "Rebooted", "the Mac booted"), about("Machine", "Drained", "")
	counted.Count, counted.LastTimestamp = 3, clitest.Ago(3*time.Minute)
	series.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(clitest.Now().Add(-19 * time.Minute))}
	single.EventTime = metav1.NewMicroTime(clitest.Now().Add(-time.Minute))
	asked, converged := about("ScalewayAppleSiliconHost", "VendorAsked", "reboot it: taken"), about("ScalewayAppleSiliconMachine", "Converged", "changed power, sshd")
	asked.EventTime, converged.EventTime = metav1.NewMicroTime(clitest.Now().Add(-20*time.Minute)), metav1.NewMicroTime(clitest.Now().Add(-40*time.Minute))
	s.Events = []corev1.Event{counted, series, single, asked, converged, about("Node", "Timeless", "")}
	return s, Of{Host: h, Machine: m}
}

func TestTimeline(t *testing.T) {
	s, of := used()
	at := clitest.Now().Add(-41 * time.Minute)
	step := func(what string) Entry { return Entry{At: at, Source: "report", Object: "mac", What: what} }
	entries := Merge(s, of, step("step sshd: changed"), step("step power: changed"))
	for name, sc := range map[string]screen.Screen{"pipe": {}, "40": {Width: 40}, "120": {Width: 120}} {
		clitest.Golden(t, name+".txt", sc, func(out io.Writer, sc screen.Screen) error { return Write(out, sc, entries) })
	}
	if !slices.IsSortedFunc(entries, func(a, b Entry) int { return a.At.Compare(b.At) }) {
		t.Error("not in the order of time")
	}
	if slices.ContainsFunc(entries, func(e Entry) bool { return e.At.IsZero() }) {
		t.Error("tells of what has no time")
	}
}

// A release that no origin is recorded of is nobody's.
func TestWhoseReleaseIsOnRecord(t *testing.T) {
	for origin, want := range map[infrav1.ReleaseOrigin]string{"": "Recycle", infrav1.OriginReclaim: "Recycle, by Reclaim"} {
		h := &clitest.Fleet().Hosts[3]
		h.Spec.Release = &infrav1.Release{RequestedAt: metav1.NewMicroTime(clitest.Now()), Policy: infrav1.Recycle, Origin: origin}
		entries := hostRecord(h)
		at := slices.IndexFunc(entries, func(e Entry) bool { return e.What == "its release was recorded" })
		if at < 0 || entries[at].Says != want {
			t.Errorf("of the origin %q: %+v, want %q", origin, entries, want)
		}
	}
}

// A host that nobody has, and a Machine that has none, have a past, too.
func TestTimelineOfHalves(t *testing.T) {
	s := clitest.Fleet()
	if got := Merge(s, Of{Host: &s.Hosts[6]}); !slices.ContainsFunc(got, func(e Entry) bool { return e.What == "the vendor showed the reinstall" }) {
		t.Errorf("of a host that is wiped: %+v", got)
	}
	if got := Merge(s, Of{Machine: &s.Machines[3]}); len(got) < 2 {
		t.Errorf("of a Machine that waits: %+v", got)
	}
}
