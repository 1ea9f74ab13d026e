package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
)

// patience is how long a Mac may take to come back by itself before a person is called to
// it: what docs/operate/health-checks.md has a health check wait.
const patience = 5 * time.Minute

// Alone is a Mac that is not well, and that nobody mends.
type Alone struct {
	// Why nobody does.
	Why string
	// Command is what a person can type.
	Command string
}

// LeftAlone says whether nobody mends the Mac of a Machine whose Node is not well. Where
// that cannot be told, it says no.
func LeftAlone(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) (Alone, bool) {
	ill := Away(c) || c.Reason == infrav1.ReasonNodeNotReady
	if !ill || s.At.Sub(c.LastTransitionTime.Time) < patience || m.DeletionTimestamp != nil || DrainOf(s, m) != nil {
		return Alone{}, false
	}
	h := hostOf(s, m)
	if PauseOf(s, m) != nil {
		return Alone{Why: "nobody looks at it while it is paused", Command: Resume(m)}, h == nil || h.Spec.Maintenance == nil
	}
	check, known := healthCheckOf(s, m)
	if !known || h == nil || inHand(s, h) {
		return Alone{}, false
	}
	alone := Alone{Why: unwatched(h), Command: fmt.Sprintf("macfleet host reboot %s --reason 'not heard of'", h.Name)}
	if c.Reason != infrav1.ReasonNodeUnreachable { // no reboot brings a Node's object back
		alone.Command = Doctor(m)
	}
	if check != nil && annotations.HasPaused(check) {
		alone.Why = fmt.Sprintf("the health check %s is paused", check.Name)
		return alone, true
	}
	if check != nil {
		allowed := meta.FindStatusCondition(check.Status.Conditions, clusterv1.MachineHealthCheckRemediationAllowedCondition)
		if allowed == nil || allowed.Status != metav1.ConditionFalse {
			return Alone{}, false
		}
		alone.Why = fmt.Sprintf("the health check %s does nothing: %s", check.Name, because(allowed.Reason, allowed.Message))
	}
	return alone, true
}

// Away says of a Machine's NodeReady that nothing is heard of its Mac: its Node is silent, or was
// deleted and is not made anew.
func Away(c metav1.Condition) bool {
	return c.Reason == infrav1.ReasonNodeUnreachable || c.Reason == infrav1.ReasonNodeMissing
}

// AwayForLong says whether a Machine's Mac is away for longer than it takes to come back.
func AwayForLong(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) bool {
	c := meta.FindStatusCondition(Conditions(s, m), infrav1.NodeReadyCondition)
	return c != nil && Unhealthy(*c) && Away(*c) && s.At.Sub(c.LastTransitionTime.Time) >= patience
}

// unwatched says why nobody mends a Mac that no health check watches.
func unwatched(h *infrav1.ScalewayAppleSiliconHost) string {
	if waits := host.RebootWaits(h); waits != "" {
		return "no health check watches it, and its reboot waits: " + waits
	}
	return "no health check watches it"
}

// inHand says whether somebody is at a Mac already: a person, or a reboot that was asked for
// or only just made. One that waits for long is nobody's hand.
func inHand(s *snapshot.Snapshot, h *infrav1.ScalewayAppleSiliconHost) bool {
	if h.Spec.Maintenance != nil || s.At.Sub(h.Status.LastReboot.At.Time) < patience {
		return true
	}
	waits := meta.FindStatusCondition(h.Status.Conditions, host.RebootedCondition)
	return h.Spec.Reboot != nil && (host.RebootWaits(h) == "" || s.At.Sub(waits.LastTransitionTime.Time) < patience)
}

// hostOf is the host that a Machine has.
func hostOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) *infrav1.ScalewayAppleSiliconHost {
	name := m.Status.HostName
	if m.Spec.HostRef != nil {
		name = m.Spec.HostRef.Name
	}
	at := slices.IndexFunc(s.Hosts, func(h infrav1.ScalewayAppleSiliconHost) bool { return h.Name == name })
	if at < 0 {
		return nil
	}
	return &s.Hosts[at]
}

// CoreOf is Cluster API's Machine of one of ours, which bears its name.
func CoreOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) *clusterv1.Machine {
	for i := range s.CoreMachines {
		if c := &s.CoreMachines[i]; c.Namespace == m.Namespace && c.Name == m.Name {
			return c
		}
	}
	return nil
}

// healthCheckOf is the one that watches a Machine; known: they could be read.
func healthCheckOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) (check *clusterv1.MachineHealthCheck, known bool) {
	core := CoreOf(s, m)
	if core == nil || s.Lacks(snapshot.HealthChecks) != "" {
		return nil, false
	}
	for i := range s.HealthChecks {
		check := &s.HealthChecks[i]
		selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
		if err != nil || selector.Empty() || check.Namespace != core.Namespace || check.Spec.ClusterName != core.Spec.ClusterName {
			continue
		}
		if selector.Matches(labels.Set(core.Labels)) {
			return check, true
		}
	}
	return nil, true
}

// Human says whether a failure is one that only a person can mend, as docs/operate/hosts.md
// has it: the class is part of what a Machine says of a failed step.
func Human(c metav1.Condition) bool {
	failed := c.Reason == infrav1.ReasonBootstrapFailed || c.Reason == infrav1.ReasonUpdateFailed || c.Reason == infrav1.ReasonHeld
	return failed && ofClass(c, host.ClassHuman)
}

// Counts says whether a failed attempt brings recovery closer: what is waited for, or is a
// mistake of ours, does not.
func Counts(c metav1.Condition) bool {
	return !ofClass(c, host.ClassWait) && !ofClass(c, host.ClassBug)
}

func ofClass(c metav1.Condition, class host.FailureClass) bool {
	return strings.Contains(c.Message, " ("+string(class)+"): ")
}

// Doctor is what to type to see what is wrong on a Machine's Mac.
func Doctor(m *infrav1.ScalewayAppleSiliconMachine) string {
	return fmt.Sprintf("macfleet machine doctor %s -n %s", m.Name, m.Namespace)
}

// story is what to type to read all that is known of a Machine.
func story(m *infrav1.ScalewayAppleSiliconMachine) string {
	return fmt.Sprintf("macfleet explain machine %s -n %s", m.Name, m.Namespace)
}

// lookAtPool is what to type where no Mac is free: it shows who has them, and which are kept
// out. It is the same whatever waits.
const lookAtPool = "macfleet hosts"

// commandFor is what can be typed for a Machine that is not as it should be; empty: nothing,
// or more than one thing.
func commandFor(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) string {
	noHost := c.Reason == infrav1.ReasonNoAvailableHost || c.Reason == infrav1.ReasonNoHostInFailureDomain
	switch {
	case Human(c):
		return Doctor(m)
	case noHost && len(s.Hosts) > 0:
		return lookAtPool
	case noHost: // there is nothing to look at, and its story says where Macs come from
		return story(m)
	}
	return ""
}

// DrainOf is what a Machine that Cluster API deletes waits for, since its deletion: its Node
// is drained first, and our own object says Running all the while. nil: it is not deleted,
// or ours is already.
func DrainOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) *metav1.Condition {
	core := CoreOf(s, m)
	if core == nil || core.DeletionTimestamp == nil || m.DeletionTimestamp != nil {
		return nil
	}
	drain := metav1.Condition{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeletingReason}
	if c := meta.FindStatusCondition(core.Status.Conditions, drain.Type); c != nil {
		drain = *c
	}
	drain.LastTransitionTime = *core.DeletionTimestamp
	return &drain
}

// Deleting is the phase of a Machine that Cluster API deletes, which is core's own word.
const Deleting = "Deleting"

// PhaseOf is how far a Machine is.
func PhaseOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) string {
	if DrainOf(s, m) != nil {
		return Deleting
	}
	return m.Status.Phase
}
