package act

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

// OfMachine finds what a Machine has.
func OfMachine(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) Mac {
	mac := Mac{}
	for i := range s.Hosts {
		if host.MeansClaim(&s.Hosts[i], m) {
			mac = MacOf(s, &s.Hosts[i])
		}
	}
	if mac.Machine = m; mac.Host == nil {
		mac.addGuests(s)
	}
	mac.Core = coreOf(s, m)
	for i := range s.Clusters {
		if c := &s.Clusters[i]; c.Namespace == m.Namespace && c.Name == m.Labels[clusterv1.ClusterNameLabel] {
			mac.Cluster = c
		}
	}
	mac.addOriginal(s)
	mac.ChecksHidden = s.Lacks(snapshot.HealthChecks)
	for _, check := range s.HealthChecks {
		if mac.Core != nil && looksAt(check, mac.Core) {
			mac.Checks = append(mac.Checks, check)
		}
	}
	return mac
}

// coreOf is the Cluster API Machine that a Machine is of, as both say: a copy bears the
// reference to the original's owner, which names the original.
func coreOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) *clusterv1.Machine {
	for i := range s.CoreMachines {
		c := &s.CoreMachines[i]
		if metav1.IsControlledBy(m, c) && c.Namespace == m.Namespace && c.Spec.InfrastructureRef.Name == m.Name {
			return c
		}
	}
	return nil
}

// looksAt says whether a health check that runs is for the Machine.
func looksAt(check clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	return err == nil && !annotations.HasPaused(&check) && check.Namespace == m.Namespace &&
		check.Spec.ClusterName == m.Spec.ClusterName && selector.Matches(labels.Set(m.Labels))
}

// paused says what keeps the manager from the Machine; empty: nothing does.
func (m Mac) paused() string {
	switch {
	case annotations.HasPaused(m.Machine):
		return fmt.Sprintf("Machine %s is paused: resume it first, with macfleet machine resume %s -n %s", m.owner(), m.Machine.Name, m.Machine.Namespace)
	case m.Cluster != nil && ptr.Deref(m.Cluster.Spec.Paused, false):
		return fmt.Sprintf("the Cluster %s/%s is paused: resume it first, with macfleet cluster resume %s -n %s", m.Cluster.Namespace, m.Cluster.Name, m.Cluster.Name, m.Cluster.Namespace)
	}
	return ""
}

// works says why nothing can be done on the Mac of a Machine now.
func (m Mac) works() error {
	switch name := m.Machine.Name; {
	case (machine.Snapshot{Machine: m.Machine, Owner: m.Core, Cluster: m.Cluster}).Leaving():
		return fmt.Errorf("the Machine %s is being deleted, or its Cluster is: macfleet explain machine %s", m.owner(), name)
	case m.Machine.Spec.HostRef == nil:
		return fmt.Errorf("the Machine %s has no Mac: macfleet explain machine %s", m.owner(), name)
	case m.Machine.Spec.ProviderID == "":
		return fmt.Errorf("the Mac of Machine %s is no node yet: it is pushed to until it is one: macfleet explain machine %s", m.owner(), name)
	case m.paused() != "":
		return fmt.Errorf("nothing would be done: %s", m.paused())
	}
	return nil
}

// RestartAgent asks for one restart of the agent on a Machine's Mac.
type RestartAgent struct {
	// ID names the request, which is met once.
	ID string
}

// Plan is for a Machine whose Mac is a node.
func (a RestartAgent) Plan(m Mac) (Plan, error) {
	if err := m.works(); err != nil {
		return Plan{}, err
	}
	asked, made := m.Machine.Annotations[infrav1.RestartAgentAnnotation], m.Machine.Status.Applied.Restart
	switch {
	case asked != "" && asked != made:
		return Plan{}, fmt.Errorf("the agent of Machine %s is to be restarted for %s already: macfleet explain machine %s", m.owner(), asked, m.Machine.Name)
	case a.ID == made:
		return Plan{}, fmt.Errorf("the agent of Machine %s was restarted for %s already, and is so once for each id: leave --id out, or give another", m.owner(), made)
	}
	var p Plan
	p.say("the manager pushes to the Mac of Machine %s, by SSH, and restarts its agent", m.owner())
	p.say("the push brings what its profile asks for now, without waiting for a turn, a halt or a pause of the rollout, and tries a build again that was taken back")
	p.say("its status.applied.restart is %s when that is done", a.ID)
	p.goOn(m)
	p.patch(m.Machine, annotation(infrav1.RestartAgentAnnotation, a.ID))
	return p, nil
}

// CheckNow has the manager look now what was changed on a Machine's Mac.
type CheckNow struct{}

// longAgo is before any check that was made.
const longAgo = "2000-01-01T00:00:00Z"

// Plan is for a Machine whose Mac is a Ready node.
func (CheckNow) Plan(m Mac) (Plan, error) {
	if err := m.works(); err != nil {
		return Plan{}, err
	}
	drift := m.Machine.Status.Drift
	switch {
	case m.unwell():
		return Plan{}, fmt.Errorf("the Node of Machine %s is not Ready, and only the Mac of a Ready one is checked: macfleet machine doctor %s", m.owner(), m.Machine.Name)
	case len(drift.Steps) > 0:
		return Plan{}, fmt.Errorf("the last check of Machine %s found changes, which wait to be mended in their turn: %s: macfleet explain machine %s", m.owner(), strings.Join(drift.Steps, ", "), m.Machine.Name)
	case drift.CheckedAt != nil && drift.CheckedAt.UTC().Format(time.RFC3339) == longAgo:
		return Plan{}, fmt.Errorf("a check of Machine %s is asked for already: macfleet explain machine %s", m.owner(), m.Machine.Name)
	}
	var p Plan
	p.say("the manager looks, by SSH, what was changed on the Mac of Machine %s, once it is at the revision that its profile asks for; that changes nothing", m.owner())
	p.say("what it finds is in the condition UpToDate, and mended in the Mac's turn")
	p.say("where manager.driftCheckInterval is 0 it looks at no Mac, and this comes to nothing")
	p.Steps = append(p.Steps, Step{Object: m.Machine, Patch: map[string]any{"status": map[string]any{"drift": map[string]any{"checkedAt": longAgo}}}, Status: true})
	return p, nil
}

// PauseMachine keeps the manager from a Machine's Mac, or ends that.
type PauseMachine struct{ Resume bool }

// Plan is for a Machine.
func (a PauseMachine) Plan(m Mac) (Plan, error) {
	var p Plan
	switch paused := annotations.HasPaused(m.Machine); {
	case a.Resume && !paused:
		return Plan{}, fmt.Errorf("the Machine %s is not paused", m.owner())
	case !a.Resume && paused:
		return Plan{}, fmt.Errorf("the Machine %s is paused already", m.owner())
	case !a.Resume && !m.Machine.DeletionTimestamp.IsZero():
		return Plan{}, fmt.Errorf("the Machine %s is being deleted, which a pause does not hold up", m.owner())
	case a.Resume:
		p.say("Machine %s goes on: it takes part in rollouts, in mending and in health checks again", m.owner())
		p.goOn(m)
		p.patch(m.Machine, map[string]any{"metadata": map[string]any{"annotations": map[string]any{clusterv1.PausedAnnotation: nil}}})
		return p, nil
	}
	p.say("Machine %s is paused until somebody resumes it: it has no turn in a rollout, nothing on its Mac is mended, and no health check goes a step further", m.owner())
	p.say("a push that has begun ends, and a restart of its agent waits; a reboot that was asked for is made, and deleting the Machine still releases its Mac")
	p.goOn(m)
	p.patch(m.Machine, annotation(clusterv1.PausedAnnotation, "true"))
	return p, nil
}

// Remediate has a health check give a Machine up at once.
type Remediate struct{}

// Plan is for a Machine that has a Mac, and that a health check looks at.
func (Remediate) Plan(m Mac) (Plan, error) {
	if why := m.noRemediation(); why != "" {
		return Plan{}, fmt.Errorf("the Machine %s would not be given up: %s", m.owner(), why)
	}
	var p Plan
	p.say("Machine %s is given up at once, without a restart and without a reboot: its Pods are drained, and its Node goes", m.owner())
	p.end(m)
	ordered := m.Machine.Spec.Acquisition == infrav1.Order || m.Host != nil && m.Host.Spec.Record.Ordered
	policy, _ := host.ReleasePolicy(m.Machine, ordered)
	p.say("host %s is released as its policy says: %s", m.Machine.Spec.HostRef.Name, policy)
	if owner := metav1.GetControllerOf(m.Core); owner != nil {
		p.say("%s %s replaces it, with another Mac", owner.Kind, owner.Name)
	}
	names := make([]string, 0, len(m.Checks))
	for i := range m.Checks {
		names = append(names, m.Checks[i].Name)
	}
	p.say("that is done by the health check %s, and waits while the storm guard holds it", strings.Join(names, ", "))
	p.patch(m.Core, annotation(clusterv1.RemediateMachineAnnotation, ""))
	return p, nil
}

// noRemediation says why an annotated Machine would stay as it is; empty: it would not.
func (m Mac) noRemediation() string {
	none := func(c clusterv1.MachineHealthCheck) bool { return ptr.Deref(c.Status.RemediationsAllowed, 1) == 0 }
	name := m.Machine.Name
	switch {
	case m.Core == nil:
		return "the Cluster API Machine of it is not to be seen"
	case !m.Machine.DeletionTimestamp.IsZero() || !m.Core.DeletionTimestamp.IsZero():
		return "it is being deleted: macfleet explain machine " + name
	case m.Machine.Spec.HostRef == nil || host.OrderMeant(m.Machine):
		return "it has no Mac, and another one in its place would wait as it does: macfleet explain machine " + name
	case hasAnnotation(m.Core, clusterv1.RemediateMachineAnnotation):
		return "that was asked for already: macfleet explain machine " + name
	case m.ChecksHidden != "":
		return "whether a health check looks at it cannot be told: " + m.ChecksHidden
	case len(m.Checks) == 0:
		return "no health check that runs looks at it. To have another Mac in its place all the same: macfleet host wipe " + m.Machine.Spec.HostRef.Name
	case !slices.ContainsFunc(m.Checks, func(c clusterv1.MachineHealthCheck) bool { return !none(c) }):
		return "its health check finds too many Machines unhealthy now, and does nothing: macfleet status"
	case m.Host != nil && m.Host.Spec.Maintenance != nil:
		return fmt.Sprintf("host %s is in maintenance (%s): end that first, with macfleet host maintenance %s --end", m.Host.Name, m.Host.Spec.Maintenance.Reason, m.Host.Name)
	}
	return m.paused()
}

func hasAnnotation(m metav1.Object, key string) bool {
	_, has := m.GetAnnotations()[key]
	return has
}

// AcceptSerial takes another Mac than the known one for a host's: the vendor has exchanged it.
type AcceptSerial struct{ Serial string }

// Check says what is missing in what was typed.
func (a AcceptSerial) Check() error {
	if a.Serial == "" {
		return errors.New("say which Mac it is now, with --serial")
	}
	return nil
}

// Plan is for a host whose hardware is known.
func (a AcceptSerial) Plan(m Mac) (Plan, error) {
	h, known := m.Host, m.Host.Spec.Record.Hardware
	switch {
	case known == nil || known.Serial == "":
		return Plan{}, fmt.Errorf("which Mac host %s is was never recorded: whichever answers at its first contact is it", h.Name)
	case known.Serial == a.Serial:
		return Plan{}, fmt.Errorf("host %s is the Mac with serial number %s already", h.Name, a.Serial)
	case h.Spec.AcceptSerial == a.Serial:
		return Plan{}, fmt.Errorf("serial number %s is accepted for host %s already, from its next contact on", a.Serial, h.Name)
	}
	var p Plan
	p.say("host %s was the Mac with serial number %s, and may be the one with %s from the next contact on", h.Name, known.Serial, a.Serial)
	if m.Machine != nil {
		if c := meta.FindStatusCondition(m.Machine.Status.Conditions, infrav1.BootstrappedCondition); c != nil && c.Reason == infrav1.ReasonWrongHardware {
			p.say("its Machine %s says: %s", m.owner(), screen.OneLine(c.Message))
		}
	}
	p.say("whoever answers for the Mac's address with that number gets its password: ask the vendor first whether it exchanged the hardware")
	p.patch(h, spec(map[string]any{"acceptSerial": a.Serial}))
	return p, nil
}
