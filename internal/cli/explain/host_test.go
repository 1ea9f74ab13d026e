package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
)

// The vendor's advice to reboot is old once that was done, and none of it passes by itself.
func TestAnAdviceOfBeforeTheRebootIsOld(t *testing.T) {
	const advice = "RebootServer"
	for name, c := range map[string]struct {
		change func(*infrav1.ScalewayAppleSiliconHost)
		next   string
	}{
		"a reboot is asked for":  {func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Reboot = &infrav1.RebootRequest{ID: "1"} }, "the reboot that is asked for"},
		"none was made after it": {func(*infrav1.ScalewayAppleSiliconHost) {}, "nothing: it stays as it is"},
		"it was rebooted": {func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Status.LastReboot = infrav1.RebootStatus{ID: "1", At: metav1.NewMicroTime(clitest.Now().Add(-50 * time.Minute))}
		}, ""},
	} {
		h := clitest.Host(1, infrav1.HostInUse, clitest.Condition(infrav1.ReachableCondition, metav1.ConditionFalse, advice, "the vendor advises reboot_server", time.Hour))
		c.change(&h)
		story := Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &h)
		if told := slices.ContainsFunc(story.Points, func(p Point) bool { return p.Reason == advice }); told != (c.next != "") {
			t.Errorf("%s: told %v", name, told)
			continue
		}
		if c.next != "" && !strings.HasPrefix(point(t, story, advice).Next, c.next) {
			t.Errorf("%s: next %q", name, point(t, story, advice).Next)
		}
	}
	h := clitest.Host(1, infrav1.HostInUse, clitest.Condition(host.RebootedCondition, metav1.ConditionFalse, host.ReasonRebootDropped, "the host is being released", time.Hour))
	if next := point(t, Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &h), host.ReasonRebootDropped).Next; !strings.HasPrefix(next, "nothing: it stays") {
		t.Errorf("a request that was dropped: next %q", next)
	}
}

// One is one, whatever is counted.
func TestOneIsNotSeveral(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	h, p := &s.Hosts[0], &s.Profiles[0]
	h.Spec.Failures.Count, p.Status.Machines = 1, 1
	s.Fleets[0].Spec.Replicas = ptr.To(int32(1))
	s.Fleets[0].Status.AvailableReplicas = ptr.To(int32(0))
	told := strings.Join(slices.Concat(Host(s, book, h).Is, Profile(s, book, p).Is), "\n")
	for _, said := range []string{"came to nothing 1 time", "it has 1 Machine:"} {
		if !strings.Contains(told+"\n", said) {
			t.Errorf("%q is not in\n%s", said, told)
		}
	}
	if strings.Contains(told, "1 times") || strings.Contains(told, "1 Machines") {
		t.Errorf("one is several in\n%s", told)
	}
	if means := point(t, Pod(s, book, &s.Pods[0]), infrav1.ReasonMacsMissing).Means; means != "0 available of 1 Mac" {
		t.Errorf("a fleet of one: %q", means)
	}
}

// A time that is over is told as such.
func TestTheFloorThatIsOver(t *testing.T) {
	for until, says := range map[time.Duration]string{
		time.Hour:  "the vendor bills it until 2026-11-26T13:00:00Z at least",
		-time.Hour: "what the vendor bills of it at least was over at 2026-11-26T11:00:00Z; it bills on until the Mac is given back",
	} {
		h := clitest.Host(1, infrav1.HostAvailable)
		h.Status.Server.DeletableAt = ptr.To(clitest.Ago(-until))
		if is := Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &h).Is; !slices.Contains(is, says) {
			t.Errorf("is %q, want %q", is, says)
		}
	}
}
