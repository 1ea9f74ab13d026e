package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/rollout"
)

// MachineKinds are what a Machine's story is told from.
func MachineKinds() []snapshot.Kind {
	return []snapshot.Kind{
		snapshot.Hosts, snapshot.Machines, snapshot.CoreMachines, snapshot.Zones, snapshot.ControlPlanes,
		snapshot.Remediations, snapshot.Clusters, snapshot.Nodes, snapshot.Profiles, snapshot.HealthChecks,
	}
}

// MachineNames are the names of what a Machine's story is told from, of the kinds of which
// each Mac has one.
func MachineNames(m *infrav1.ScalewayAppleSiliconMachine) map[snapshot.Kind]string {
	return namesOfMac(hostNameOf(m), m.Name)
}

// NeedsAllMachines says whether a story of the Machines in s depends on others: when the halt
// of a rollout ends does, on the last failure of any.
func NeedsAllMachines(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.Machines, func(m infrav1.ScalewayAppleSiliconMachine) bool {
		p := profileOf(s, &m)
		return p != nil && waitsForHalt(p, &m)
	})
}

// Machine tells a Machine's story.
func Machine(s *snapshot.Snapshot, book reasons.Book, m *infrav1.ScalewayAppleSiliconMachine) Story {
	t := newTeller(s, book, "machine", m)
	t.names["MACHINE"], t.names["HOST"] = m.Name, hostNameOf(m)
	if m.Spec.ProfileRef != nil {
		t.names["PROFILE"] = m.Spec.ProfileRef.Name
	}
	t.machineIs(m)
	t.machine("", m)
	t.pauses(m.Labels[clusterv1.ClusterNameLabel], m, fmt.Sprintf("macfleet machine resume %s -n %s", m.Name, m.Namespace))
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.Name != hostNameOf(m) {
			continue
		}
		if h.Status.Phase != infrav1.HostInUse {
			t.hostPhase("host "+h.Name, h)
		}
		t.hostConditions("host "+h.Name, h)
	}
	if !lost(m) {
		t.node(m.Name)
	}
	t.zones(m.Namespace)
	return *t.story
}

// lost: the Mac is not the Machine's any more, and nothing comes of what is wrong with it.
func lost(m *infrav1.ScalewayAppleSiliconMachine) bool { return m.Status.Phase == "Lost" }

func hostNameOf(m *infrav1.ScalewayAppleSiliconMachine) string {
	if m.Spec.HostRef != nil {
		return m.Spec.HostRef.Name
	}
	return m.Status.HostName
}

func (t *teller) machineIs(m *infrav1.ScalewayAppleSiliconMachine) {
	var wants []string
	for _, want := range []struct{ label, value string }{{"of type ", m.Spec.Type}, {"with macOS ", m.Spec.OS}, {"in ", m.Spec.Zone}} {
		if want.value != "" {
			wants = append(wants, want.label+want.value)
		}
	}
	from := "of the pool"
	if m.Spec.Acquisition == infrav1.Order {
		from = "that is ordered for it"
	}
	t.is("%s", strings.TrimSpace(fmt.Sprintf("a Machine that wants one Mac %s %s", from, strings.Join(wants, " "))))
	if fleet := cmp.Or(m.Labels[clusterv1.MachineDeploymentNameLabel], m.Spec.FleetName); fleet != "" {
		t.is("of the fleet %s", fleet)
	}
	if name := hostNameOf(m); name != "" {
		t.is("its Mac is the host %s", name)
	}
	if m.Status.Applied.Revision != "" {
		t.is("its Mac proved revision %s", m.Status.Applied.Revision)
	}
	if c := show.CoreOf(t.s, m); c != nil && c.Status.NodeRef.Name != "" {
		t.is("its Node is %s", c.Status.NodeRef.Name)
		t.held(c.Status.NodeRef.Name)
	}
}

// held takes up that the autoscaler may not remove a Node, as its Mac is paid for.
func (t *teller) held(node string) {
	at := slices.IndexFunc(t.s.Nodes, func(n corev1.Node) bool { return n.Name == node })
	if at < 0 {
		return
	}
	if until := t.s.Nodes[at].Annotations[infrav1.HeldUntilAnnotation]; until != "" {
		t.is("the autoscaler may not remove it before %s: until then the Mac is paid for", until)
	}
}

// machine takes up how far a Machine is, and all that is in its way.
func (t *teller) machine(about string, m *infrav1.ScalewayAppleSiliconMachine) {
	if drain := show.DrainOf(t.s, m); drain != nil {
		t.deleting(about, m, *drain)
	} else {
		t.machinePhase(about, m)
	}
	conditions := show.Conditions(t.s, m)
	for _, kind := range show.MachineConditions() {
		if c := find(conditions, kind); c != nil && show.Unhealthy(*c) && !tooEarly(m, *c) && !tooLate(m, *c) {
			t.condition(about, *c, t.whenMachine(m, *c).since(show.MachineBegan(t.s, m, *c)))
		}
	}
	t.remediation(m)
}

// tooEarly: a Mac that is still being set up has no Node to speak of, which is no trouble. A
// Machine without a Mac waits for no server's name or credentials: HostClaimed says why it has
// none.
func tooEarly(m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) bool {
	if c.Status != metav1.ConditionUnknown {
		return false
	}
	claimed := find(m.Status.Conditions, infrav1.HostClaimedCondition)
	noMac := hostNameOf(m) == "" || claimed != nil && show.Unhealthy(*claimed)
	return c.Reason == infrav1.ReasonWaitingForNode || c.Reason == infrav1.ReasonWaitingForHost && noMac
}

// tooLate: of a Machine that lost its Mac only what became of that is news.
func tooLate(m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) bool {
	return lost(m) && c.Type != infrav1.HostClaimedCondition && c.Type != infrav1.ReleasedCondition
}

func (t *teller) machinePhase(about string, m *infrav1.ScalewayAppleSiliconMachine) {
	entry, _ := t.book.MachinePhase(m.Status.Phase)
	p := Point{About: about, Reason: cmp.Or(m.Status.Phase, "Pending"), Healthy: m.Status.Phase == "Running", Means: entry.Means, Next: entry.You, Read: page(entry.Page)}
	if m.DeletionTimestamp != nil {
		p.Since = &m.DeletionTimestamp.Time
	}
	if p.Healthy && t.deadWhilePaused(m) {
		p.Healthy, p.Means, p.Next = false, "what it was when it was paused, and nobody has looked since: its Node is not Ready now", ""
	}
	t.add(p, reasons.Entry{})
}

// deadWhilePaused: the Node of a Machine that is paused is not Ready, whatever its phase says.
func (t *teller) deadWhilePaused(m *infrav1.ScalewayAppleSiliconMachine) bool {
	c := find(show.Conditions(t.s, m), infrav1.NodeReadyCondition)
	return c != nil && show.Unhealthy(*c) && show.PauseOf(t.s, m) != nil
}

// whilePaused is what comes of a Machine that is paused.
func (t *teller) whilePaused(m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) (when next, paused bool) {
	if show.PauseOf(t.s, m) == nil {
		return next{}, false
	}
	if c.Type != infrav1.NodeReadyCondition {
		return next{text: "nothing while it is paused"}, true
	}
	return next{
		text: "nothing: nobody looks at it while it is paused",
		you:  "see to the Mac, or let the Machine go on when you are done", commands: []string{show.Resume(m)},
	}, true
}

// whenMachine says what comes next by itself, where the time is known.
func (t *teller) whenMachine(m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) next {
	update := m.Status.Update
	if when, paused := t.whilePaused(m, c); paused {
		return when
	}
	if when, waits := t.untilMacIsBack(m, c); waits {
		return when
	}
	switch c.Reason {
	case infrav1.ReasonNoAvailableHost, infrav1.ReasonNoHostInFailureDomain:
		return next{text: "the next host that is free and fits is claimed within a second"}
	case infrav1.ReasonUpdateFailed:
		return byPerson(m, c, t.unlessHalted(m, at("it is tried again", update.LastFailedAt, rollout.Backoff(int(update.Failures)))))
	case infrav1.ReasonHeld:
		if c.Type == infrav1.UpToDateCondition {
			return byPerson(m, c, t.unlessHalted(m, heldUntil(m)))
		}
	case infrav1.ReasonNodeNotReady, infrav1.ReasonNodeUnreachable, infrav1.ReasonNodeMissing:
		if alone, is := show.LeftAlone(t.s, m, c); is {
			return next{text: "nothing, until somebody acts: " + alone.Why}
		}
		if c.Reason == infrav1.ReasonNodeMissing && !show.AwayForLong(t.s, m) {
			return next{text: "the Mac gets a fresh permit and makes it anew"}
		}
		if c.Reason == infrav1.ReasonNodeMissing { // no reboot brings an object back
			return next{text: "a health check, where there is one, restarts its agent, and at last replaces the Machine"}
		}
		return next{text: "a health check, where there is one, restarts its agent, reboots the Mac, and at last replaces the Machine"}
	case infrav1.ReasonBootstrapFailed, infrav1.ReasonSSHUnreachable:
		return byPerson(m, c, attempts(m, c))
	case infrav1.ReasonBootstrapExhausted:
		return exhausted(m, c)
	case infrav1.ReasonDraining:
		return t.drainEnds(m)
	}
	return next{}
}

// untilMacIsBack is what comes of a change for a Mac that nobody mends: nothing, however often
// it is tried, and no drain would hasten it.
func (t *teller) untilMacIsBack(m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) (when next, waits bool) {
	node := find(show.Conditions(t.s, m), infrav1.NodeReadyCondition)
	if c.Type != infrav1.UpToDateCondition || node == nil || !show.Away(*node) {
		return next{}, false
	}
	alone, is := show.LeftAlone(t.s, m, *node)
	return next{
		text: "nothing before its Mac is back, of which nothing is heard: " + alone.Why,
		you:  "see to the Mac; the change follows by itself", commands: []string{alone.Command},
	}, is
}

// attempts says what comes after failed ones.
func attempts(m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) next {
	failed := show.Count(int(m.Status.Bootstrap.Attempts), "attempt") + " failed"
	if show.Human(c) {
		return next{text: "it is looked at again every 30 minutes, and nothing else is done before somebody mends what its message names; " + failed}
	}
	if !show.Counts(c) {
		return next{text: "it is tried again; such a failure brings neither a reboot nor a wipe"}
	}
	again := "it is tried again with growing pauses; " + failed
	if m.Spec.ProviderID != "" { // recovery is for what never came up
		return next{text: again + ". The Mac was a node: recovery neither reboots nor wipes it; a health check, where there is one, does"}
	}
	if m.Status.Bootstrap.RebootIssued {
		return next{text: again + ". Recovery has rebooted the Mac; after more of these it has it wiped, unless that is off or the Mac is in maintenance"}
	}
	return next{text: again + ". After more of these recovery reboots the Mac once, and later has it wiped, unless that is off or the Mac is in maintenance"}
}

// exhausted is what comes after an attempt whose next tier of recovery the Mac may not have, or
// that is held back.
func exhausted(m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition) next {
	again := "it is tried again with growing pauses; " + show.Count(int(m.Status.Bootstrap.Attempts), "attempt") + " failed"
	if host.WipeHeldBack(c.Message) {
		return next{
			text: again + ". Recovery goes on by itself when the hold ends",
			you:  "nothing; to take another Mac at once, delete the Machine, which wipes this one",
		}
	}
	return next{text: again + ". One that comes through ends it; recovery neither reboots nor wipes the Mac"}
}

// byPerson is what comes next, with what a person types where a failure is one that only a
// person can mend.
func byPerson(m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition, when next) next {
	if show.Human(c) {
		when.you, when.commands = "mend what its message names; the doctor, run on the Mac, says more", []string{show.Doctor(m)}
	}
	return when
}

// heldUntil is when a change that was put off is tried again. One that failed as a network
// may does not wait for guests: a drain would not hasten it.
func heldUntil(m *infrav1.ScalewayAppleSiliconMachine) next {
	update := m.Status.Update
	if update.RetriedAt == nil || update.HeldAt == nil || update.HeldAt.After(update.RetriedAt.Time) {
		return at("it is tried again", update.HeldAt, rollout.HeldBackoff)
	}
	when := at("it is tried once more", update.RetriedAt, rollout.HeldBackoff)
	when.you = "mend what the message names; what the Mac recorded says more"
	when.commands = []string{fmt.Sprintf("macfleet machine logs %s -n %s", m.Name, m.Namespace)}
	return when
}

// unlessHalted is when a change is tried again, but for a rollout that stands still: that
// mends a Mac that has its revision, and begins nothing else.
func (t *teller) unlessHalted(m *infrav1.ScalewayAppleSiliconMachine, when next) next {
	p := profileOf(t.s, m)
	if p == nil {
		return when
	}
	switch {
	case p.Spec.Rollout.Paused:
		return next{text: "nothing, until its rollout, which is paused, is resumed"}
	case !waitsForHalt(p, m):
		return when
	}
	ends := haltEnds(t.s, p, *find(p.Status.Conditions, infrav1.HaltedCondition))
	ends.text = "nothing while its rollout is halted, which ends with another revision, or by itself"
	return ends
}

func profileOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) *infrav1.MacNodeProfile {
	for i := range s.Profiles {
		if p := &s.Profiles[i]; m.Spec.ProfileRef != nil && p.Namespace == m.Namespace && p.Name == m.Spec.ProfileRef.Name {
			return p
		}
	}
	return nil
}

// waitsForHalt: nothing is done to the Machine's Mac before the halt of its rollout ends.
func waitsForHalt(p *infrav1.MacNodeProfile, m *infrav1.ScalewayAppleSiliconMachine) bool {
	halted := find(p.Status.Conditions, infrav1.HaltedCondition)
	return halted != nil && show.Unhealthy(*halted) && !p.Spec.Rollout.Paused && m.Status.Applied.Revision != p.Status.Revision
}

// haltEnds is when a halt ends by itself: some time after the last failure, which may be
// later than the condition became True.
func haltEnds(s *snapshot.Snapshot, p *infrav1.MacNodeProfile, halted metav1.Condition) next {
	last := halted.LastTransitionTime
	for i := range s.Machines {
		m := &s.Machines[i]
		failed := m.Status.Update.LastFailedAt
		if of := profileOf(s, m); of == p && m.Status.Update.Revision == p.Status.Revision && failed != nil && failed.After(last.Time) {
			last = *failed
		}
	}
	return at("another revision, or the next try of this one", &last, rollout.CoolDown)
}

// deleting takes up a Machine that Cluster API deletes: it drains the Node before it deletes
// the object that tells of the Mac, which says Running all the while.
func (t *teller) deleting(about string, m *infrav1.ScalewayAppleSiliconMachine, drain metav1.Condition) {
	p := Point{
		About: about, Condition: show.PhaseOf(t.s, m), Reason: drain.Reason, Since: &drain.LastTransitionTime.Time, Says: drain.Message,
		Means: "Cluster API deletes it: its Node is drained first, and the Mac is wiped after that",
	}
	ends := t.drainEnds(m)
	p.Next, p.NextAt = ends.text, ends.at
	p.Commands = []string{"kubectl get pods -A --field-selector spec.nodeName=" + m.Name}
	t.add(p, reasons.Entry{})
}

func (t *teller) drainEnds(m *infrav1.ScalewayAppleSiliconMachine) next {
	if c := show.CoreOf(t.s, m); c != nil && c.DeletionTimestamp != nil {
		if seconds := c.Spec.Deletion.NodeDrainTimeoutSeconds; seconds != nil && *seconds > 0 {
			return at("the drain ends, whatever Pods are left", c.DeletionTimestamp, time.Duration(*seconds)*time.Second)
		}
	}
	return next{text: "the drain ends when no Pod is left"}
}

// remediation takes up a Machine's, which bears its name.
func (t *teller) remediation(m *infrav1.ScalewayAppleSiliconMachine) {
	for i := range t.s.Remediations {
		r := &t.s.Remediations[i]
		if r.Namespace != m.Namespace || r.Name != m.Name {
			continue
		}
		c := find(r.Status.Conditions, infrav1.RemediatedCondition)
		if c == nil || !show.Unhealthy(*c) {
			continue
		}
		when, paused := t.whilePaused(m, *c)
		if !paused {
			when = stepEnds(r)
		}
		t.condition("remediation of "+m.Name, *c, when.since(show.StepBegan(r, *c)))
	}
}

// stepEnds is when a remediation goes on to its next step.
func stepEnds(r *infrav1.ScalewayAppleSiliconRemediation) next {
	if r.Status.StepStartedAt == nil {
		return next{}
	}
	var after time.Duration
	switch r.Status.Step {
	case infrav1.ReasonRestartingAgent:
		after = seconds(r.Spec.AgentRestartTimeoutSeconds, host.DefaultAgentRestartTimeout)
	case infrav1.ReasonRebooting:
		after = seconds(r.Spec.RebootTimeoutSeconds, host.DefaultRebootTimeout)
	default:
		return next{}
	}
	from := metav1.NewTime(r.Status.StepStartedAt.Time)
	return at("unless its Node is Ready before, the next step is taken", &from, after)
}

func seconds(n *int32, otherwise time.Duration) time.Duration {
	if n == nil {
		return otherwise
	}
	return time.Duration(*n) * time.Second
}
