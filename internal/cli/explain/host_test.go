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

// kubectl delete waits for a release, and says nothing.
func TestAHostThatIsBeingDeletedSaysSo(t *testing.T) {
	h := clitest.Host(1, infrav1.HostWiping)
	said := func() bool {
		return slices.ContainsFunc(Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &h).Is, func(s string) bool { return strings.HasPrefix(s, "somebody deleted this object at ") })
	}
	if said() {
		t.Error("deleted, though nobody has")
	}
	h.DeletionTimestamp = ptr.To(metav1.NewTime(clitest.Now()))
	if !said() {
		t.Error("it is not said")
	}
}

// Of a claim that no Machine made it is said what it is for.
func TestWhoseAClaimWithoutAMachineIs(t *testing.T) {
	for says, claim := range map[string]func(*infrav1.ScalewayAppleSiliconHost){
		"wiped once before it is used": func(h *infrav1.ScalewayAppleSiliconHost) { host.WipeUnseen(h, "tuist-pool-", "token", clitest.Now()) },
		"given back to the vendor by a": func(h *infrav1.ScalewayAppleSiliconHost) {
			host.GiveBack(h, "token", clitest.Now())
		},
		"claimed by its own adoption": func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: host.NoNamespace, Name: h.Status.Server.Name, Token: "token"}
		},
	} {
		h := clitest.Host(1, infrav1.HostReleasing)
		claim(&h)
		is := Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &h).Is
		if !slices.ContainsFunc(is, func(s string) bool { return strings.HasPrefix(s, says) }) {
			t.Errorf("is %q, want %q", is, says)
		}
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

// A quarantine for a while ends by itself; with maintenance beside it, nothing does.
func TestMaintenanceBesideAQuarantineDoesNotEnd(t *testing.T) {
	for maintained, next := range map[bool]string{false: "the quarantine ends", true: "nothing, until somebody acts"} {
		h := clitest.Host(1, infrav1.HostInUse)
		h.Spec.Quarantine = &infrav1.Quarantine{Reason: "fans", Until: ptr.To(clitest.Ago(-time.Hour))}
		if maintained {
			h.Spec.Maintenance = &infrav1.Maintenance{Reason: "swap"}
		}
		kept := host.Conditions(&h, host.Observation{Now: clitest.Now()})
		at := slices.IndexFunc(kept, func(c metav1.Condition) bool { return c.Type == infrav1.KeptOutCondition })
		h.Status.Conditions = kept[at : at+1]
		p := point(t, Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &h), kept[at].Reason)
		if p.Next != next || (p.NextAt == nil) != maintained {
			t.Errorf("in maintenance %v: next %q at %v", maintained, p.Next, p.NextAt)
		}
	}
}

// What a person has to do is said once, and nothing beside it says otherwise.
func TestNothingSaysOtherwise(t *testing.T) {
	const rejected = "the vendor is asked again with growing pauses; after twice manager.reinstallTimeout the host is quarantined, and asked for all the same"
	wiped := func(reason string) metav1.Condition {
		return clitest.Condition(infrav1.WipedCondition, metav1.ConditionFalse, reason, "", time.Minute)
	}
	rebooted := func(why string) metav1.Condition {
		return clitest.Condition(host.RebootedCondition, metav1.ConditionFalse, host.ReasonRebootWaiting, why, time.Minute)
	}
	claim := func(h *infrav1.ScalewayAppleSiliconHost) {
		h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: clitest.Namespace, Name: "m"}
		h.Spec.Reboot = &infrav1.RebootRequest{ID: "1"}
	}
	for name, c := range map[string]struct {
		phase     infrav1.HostPhase
		condition metav1.Condition
		change    func(*infrav1.ScalewayAppleSiliconHost)
		reason    string
		next      string
		types     string
		untold    bool
	}{
		"NotWiped, of which the phase tells": {phase: infrav1.HostDirty, condition: wiped(infrav1.ReasonNotWiped), untold: true},
		"Foreign, likewise":                  {phase: infrav1.HostForeign, condition: wiped(infrav1.ReasonNotWiped), untold: true},
		"a wipe that is refused": {
			phase: infrav1.HostReleasing, condition: wiped(infrav1.ReasonWipeRejected), reason: "Releasing", next: rejected,
			change: func(h *infrav1.ScalewayAppleSiliconHost) {
				h.Spec.Release = &infrav1.Release{}
				h.Spec.Record.Wipe.RequestedAt = ptr.To(metav1.NewMicroTime(clitest.Now()))
			},
		},
		"its condition": {
			phase: infrav1.HostReleasing, condition: wiped(infrav1.ReasonWipeRejected), reason: infrav1.ReasonWipeRejected, next: rejected,
			change: func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Release = &infrav1.Release{} },
		},
		"of one that was given up": {
			phase: infrav1.HostQuarantined, condition: wiped(infrav1.ReasonWipeRejected), reason: infrav1.ReasonWipeRejected,
			next: "the vendor is asked again with growing pauses, also while the host is quarantined",
			change: func(h *infrav1.ScalewayAppleSiliconHost) {
				h.Spec.Release = &infrav1.Release{}
				host.RecordWipeAbandoned(h, infrav1.ReasonWipeTimedOut, clitest.Now())
			},
		},
		"of a Mac that is given back": {
			phase: infrav1.HostReleasing, condition: wiped(infrav1.ReasonWipeRejected), reason: infrav1.ReasonWipeRejected, next: "the server is given back to the vendor as it is",
			change: func(h *infrav1.ScalewayAppleSiliconHost) { host.GiveBack(h, "token", clitest.Now()) },
		},
		"a reboot waits for Pods":        {phase: infrav1.HostInUse, condition: rebooted("Pods run"), change: claim, reason: host.ReasonRebootWaiting, next: whenOver, types: "kubectl drain "},
		"a reboot that a vendor refuses": {phase: infrav1.HostInUse, condition: rebooted(host.Refused("403")), change: claim, reason: host.ReasonRebootWaiting, next: "the vendor is asked again", types: "macfleet host reboot "},
		"a reboot of nobody's": {
			phase: infrav1.HostAvailable, condition: rebooted("the server is in error"), reason: host.ReasonRebootWaiting, next: whenOver, types: "macfleet host reboot ",
			change: func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Reboot = &infrav1.RebootRequest{ID: "1"} },
		},
	} {
		h := clitest.Host(1, c.phase, c.condition)
		if c.change != nil {
			c.change(&h)
		}
		story := Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &h)
		if c.untold {
			if told := slices.ContainsFunc(story.Points, func(p Point) bool { return p.Condition == c.condition.Type }); told {
				t.Errorf("%s: %+v", name, story.Points)
			}
			continue
		}
		p := point(t, story, c.reason)
		if p.Next != c.next || p.NextAt != nil || c.types != "" && !strings.HasPrefix(p.Commands[0], c.types) {
			t.Errorf("%s: %+v", name, p)
		}
		if c.types == "macfleet host reboot " && !slices.Equal(p.Commands, []string{"macfleet host reboot " + h.Name + " --cancel"}) {
			t.Errorf("%s: type %q", name, p.Commands)
		}
	}
}

// Whose Machine is not to be seen is not called gone.
func TestTheMachineOfAClaimIsGone(t *testing.T) {
	for told, c := range map[string]struct {
		host   int
		change func(*snapshot.Snapshot)
		gone   bool
	}{
		"no Machine of its name": {3, func(*snapshot.Snapshot) {}, true},
		"there is one":           {0, func(*snapshot.Snapshot) {}, false},
		"Machines can't be read": {3, func(s *snapshot.Snapshot) {
			s.Missing = []snapshot.Missing{{Kind: snapshot.Machines, Why: "you may not"}}
		}, false},
		"another namespace's alone": {3, func(s *snapshot.Snapshot) { s.Namespace = "ci" }, false},
	} {
		s := clitest.Fleet()
		c.change(s)
		is := strings.Join(Host(s, reasons.Read(), &s.Hosts[c.host]).Is, "\n")
		if !strings.Contains(is, "claimed by Machine "+clitest.Namespace) || strings.Contains(is, ", which is gone") != c.gone {
			t.Errorf("%s: it is %s", told, is)
		}
	}
}
