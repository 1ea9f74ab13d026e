// Package show is what the operator's verbs say of a snapshot: the one screen of status,
// and the tables of hosts, Machines and Pods. Pure functions.
package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/rollout"
)

// StatusKinds are what StatusOf looks at.
func StatusKinds() []snapshot.Kind {
	return []snapshot.Kind{
		snapshot.Hosts, snapshot.Machines, snapshot.Fleets, snapshot.Profiles, snapshot.Zones,
		snapshot.ControlPlanes, snapshot.Remediations, snapshot.PendingPods, snapshot.CoreMachines, snapshot.HealthChecks, snapshot.Leases,
	}
}

// Status is a fleet on one screen. Its JSON is documented in docs/operate/cli.md.
type Status struct {
	At      time.Time          `json:"at"`
	Pool    Pool               `json:"pool"`
	Fleets  []Fleet            `json:"fleets"`
	Waits   []Item             `json:"waits"`
	Person  []Item             `json:"needsPerson"`
	Missing []snapshot.Missing `json:"missing,omitempty"`
}

// Pool counts hosts.
type Pool struct {
	Hosts int `json:"hosts"`
	// Ordered are those of them that are orders still, of which no server came yet.
	Ordered int                       `json:"ordered,omitempty"`
	Phases  map[infrav1.HostPhase]int `json:"phases"`
	// Unwatched: no ScalewayAppleSiliconCluster is to be seen, whose conditions say whether the
	// vendor answers, and takes the key.
	Unwatched bool `json:"unwatched,omitempty"`
}

// Fleet is a MachineDeployment with its profile.
type Fleet struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Wanted    int32  `json:"wanted"`
	Available int32  `json:"available"`
	Profile   string `json:"profile,omitempty"`
	Machines  int32  `json:"machines"`
	Updated   int32  `json:"updated"`
	// Rollout is the reason of the profile's RolledOut, and Message what it says while that
	// is not True.
	Rollout string `json:"rollout,omitempty"`
	Message string `json:"message,omitempty"`
}

// Item is something that waits.
type Item struct {
	Kind      string     `json:"kind"`
	Namespace string     `json:"namespace,omitempty"`
	Name      string     `json:"name"`
	More      int        `json:"more,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	Reason    string     `json:"reason"`
	Message   string     `json:"message,omitempty"`
	// Command is what a person can type, where the one thing to do is known.
	Command string `json:"command,omitempty"`
}

// StatusOf sums a snapshot up.
func StatusOf(s *snapshot.Snapshot, book reasons.Book) Status {
	status := Status{
		At: s.At, Missing: s.Missing, Fleets: fleetsOf(s),
		Pool: Pool{
			Hosts: len(s.Hosts), Phases: map[infrav1.HostPhase]int{},
			Unwatched: len(s.Hosts) > 0 && len(s.Zones) == 0 && s.Lacks(snapshot.Zones) == "",
		},
	}
	for i := range s.Hosts {
		status.Pool.Phases[s.Hosts[i].Status.Phase]++
		if s.Hosts[i].Spec.Order != nil {
			status.Pool.Ordered++
		}
	}
	var items []finding
	for _, item := range NoManager(s) {
		items = append(items, finding{item, true})
	}
	items = append(items, pauseFindings(s)...)
	for _, of := range []func(*snapshot.Snapshot, reasons.Book) []finding{zoneFindings, profileFindings, hostFindings, machineFindings, noInfrastructureFindings, nodeFindings, podFindings} {
		items = append(items, of(s, book)...)
	}
	status.Waits = grouped(items, false)
	status.Person = grouped(items, true)
	return status
}

// finding is an item, and whether it ends without a person.
type finding struct {
	Item
	person bool
}

func fleetsOf(s *snapshot.Snapshot) []Fleet {
	fleets := []Fleet{}
	for i := range s.Fleets {
		md := &s.Fleets[i]
		if md.Spec.Template.Spec.InfrastructureRef.Kind != "ScalewayAppleSiliconMachineTemplate" {
			continue
		}
		fleet := Fleet{Namespace: md.Namespace, Name: md.Name}
		if md.Spec.Replicas != nil {
			fleet.Wanted = *md.Spec.Replicas
		}
		if md.Status.AvailableReplicas != nil {
			fleet.Available = *md.Status.AvailableReplicas
		}
		fleet.addProfile(s, profileOf(s, md))
		fleets = append(fleets, fleet)
	}
	slices.SortFunc(fleets, func(a, b Fleet) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return fleets
}

// profileOf is the name of the profile that the fleet's Machines have; of a fleet without
// any, the one that the chart made for it, which bears its name.
func profileOf(s *snapshot.Snapshot, md *clusterv1.MachineDeployment) string {
	for i := range s.Machines {
		m := &s.Machines[i]
		if m.Namespace == md.Namespace && m.Labels[clusterv1.MachineDeploymentNameLabel] == md.Name && m.Spec.ProfileRef != nil {
			return m.Spec.ProfileRef.Name
		}
	}
	return md.Name
}

func (f *Fleet) addProfile(s *snapshot.Snapshot, name string) {
	for i := range s.Profiles {
		p := &s.Profiles[i]
		if p.Namespace != f.Namespace || p.Name != name {
			continue
		}
		f.Profile, f.Machines, f.Updated = p.Name, p.Status.Machines, p.Status.Updated
		if c := meta.FindStatusCondition(p.Status.Conditions, infrav1.RolledOutCondition); c != nil {
			f.Rollout = c.Reason
			if c.Status != metav1.ConditionTrue {
				f.Message = c.Message
			}
		}
	}
}

func of(kind string, object metav1.Object, c metav1.Condition) Item {
	item := Item{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Reason: c.Reason, Message: c.Message}
	if !c.LastTransitionTime.IsZero() {
		item.Since = &c.LastTransitionTime.Time
	}
	return item
}

// Unhealthy says whether a condition is not as it is on a good day.
func Unhealthy(c metav1.Condition) bool {
	switch c.Type {
	case infrav1.DestructionHeldCondition, infrav1.PausedCondition, infrav1.HaltedCondition, infrav1.KeptOutCondition:
		return c.Status == metav1.ConditionTrue
	}
	return c.Status != metav1.ConditionTrue
}

func profileFindings(s *snapshot.Snapshot, book reasons.Book) []finding {
	var found []finding
	for i := range s.Profiles {
		conditions := s.Profiles[i].Status.Conditions
		for _, kind := range []string{infrav1.HaltedCondition, infrav1.RolledOutCondition, infrav1.ReadyCondition} {
			c := meta.FindStatusCondition(conditions, kind)
			if c == nil || !Unhealthy(*c) {
				continue
			}
			if c.Reason == infrav1.ReasonRollingOut {
				break // the fleet's own line shows how far it is
			}
			f := finding{of("profile", &s.Profiles[i], *c), book.Asks(c.Reason, c.Type)}
			if kind == infrav1.HaltedCondition {
				f.Command = haltCommand(&s.Profiles[i])
			}
			found = append(found, f)
			break // the others follow from it
		}
	}
	return found
}

// haltCommand is what to type where a rollout has stopped by itself: to undo it, or, where the
// profile remembers nothing to go back to, to look.
func haltCommand(p *infrav1.MacNodeProfile) string {
	verb := "status"
	if asksForAnother(p) {
		verb = "undo"
	}
	return fmt.Sprintf("macfleet rollout %s %s -n %s", verb, p.Name, p.Namespace)
}

// asksForAnother says whether a profile asks its Macs for something else than it did when all of
// them had it last. What came with a new manager, as its agent, is not the profile's.
func asksForAnother(p *infrav1.MacNodeProfile) bool {
	if len(p.Status.History) == 0 {
		return false
	}
	patch, err := rollout.UndoPatch(p, p.Status.History[0])
	return err == nil && len(patch) > 0
}

// alone are the phases of hosts that no Machine waits for, and that only a person ends.
var alone = []infrav1.HostPhase{infrav1.HostStranded, infrav1.HostDirty, infrav1.HostForeign}

func hostFindings(s *snapshot.Snapshot, book reasons.Book) []finding {
	var found []finding
	for i := range s.Hosts {
		h := &s.Hosts[i]
		kept := meta.FindStatusCondition(h.Status.Conditions, infrav1.KeptOutCondition)
		switch {
		case kept != nil && kept.Status == metav1.ConditionTrue:
			f := finding{of("host", h, *kept), !KeptOutEnds(h)}
			if f.person {
				f.Command = oneCommand(book, h.Status.Conditions, map[string]string{"HOST": h.Name})
			}
			found = append(found, f)
		case host.ReleaseHeld(h):
			f := finding{of("host", h, *meta.FindStatusCondition(h.Status.Conditions, infrav1.NameInSyncCondition)), true}
			f.Command = "macfleet explain host " + h.Name
			found = append(found, f)
		case unnamed(h, s.At) != nil:
			f := finding{of("host", h, *unnamed(h, s.At)), true}
			f.Command = "macfleet explain host " + h.Name
			found = append(found, f)
		case refusedWipe(h, book) != nil:
			found = append(found, finding{of("host", h, *refusedWipe(h, book)), true})
		case slices.Contains(alone, h.Status.Phase) && !host.AwaitsFirstWipe(h):
			c := metav1.Condition{Reason: string(h.Status.Phase)}
			if available := meta.FindStatusCondition(h.Status.Conditions, "Available"); available != nil {
				c.Message, c.LastTransitionTime = available.Message, available.LastTransitionTime
			}
			f := finding{of("host", h, c), h.Status.Phase != infrav1.HostForeign}
			f.Command = aloneCommand(h)
			found = append(found, f)
		}
	}
	return found
}

// KeptOutEnds says whether what keeps a host out of the pool ends by itself: a quarantine for a
// while does, maintenance beside it does not.
func KeptOutEnds(h *infrav1.ScalewayAppleSiliconHost) bool {
	return h.Spec.Maintenance == nil && h.Spec.Quarantine != nil && h.Spec.Quarantine.Until != nil
}

// unnamed is why a Mac that was wiped a while ago is in no pool: the vendor refuses its name.
func unnamed(h *infrav1.ScalewayAppleSiliconHost, now time.Time) *metav1.Condition {
	c := meta.FindStatusCondition(h.Status.Conditions, infrav1.AvailableCondition)
	if c == nil || !host.Unnamed(h, now) {
		return nil
	}
	return &metav1.Condition{Reason: "Unnamed", Message: c.Message, LastTransitionTime: metav1.Time(*h.Spec.Record.Wipe.ObservedAt)}
}

// refusedWipe is why a host on its way back is not wiped, where a person is needed for that.
func refusedWipe(h *infrav1.ScalewayAppleSiliconHost, book reasons.Book) *metav1.Condition {
	c := meta.FindStatusCondition(h.Status.Conditions, infrav1.WipedCondition)
	if c == nil || h.Spec.Release == nil || !Unhealthy(*c) || !book.Asks(c.Reason, c.Type) {
		return nil
	}
	return c
}

// aloneCommand is the one thing to do about a host that is alone; of a Foreign one there are
// two.
func aloneCommand(h *infrav1.ScalewayAppleSiliconHost) string {
	switch h.Status.Phase {
	case infrav1.HostStranded:
		return "macfleet host release " + h.Name
	case infrav1.HostDirty:
		return "macfleet host adopt " + h.Name
	}
	return ""
}

func machineFindings(s *snapshot.Snapshot, book reasons.Book) []finding {
	mending := map[string]*infrav1.ScalewayAppleSiliconRemediation{}
	for i := range s.Remediations {
		mending[s.Remediations[i].Namespace+"/"+s.Remediations[i].Name] = &s.Remediations[i]
	}
	var found []finding
	for i := range s.Machines {
		m := &s.Machines[i]
		if c := DrainOf(s, m); c != nil {
			found = append(found, finding{of("machine", m, *c), false})
		}
		if c := Hindrance(Conditions(s, m)); c != nil {
			found = append(found, hindered(s, m, *c, book))
		}
		if r := mending[m.Namespace+"/"+m.Name]; r != nil {
			if c := meta.FindStatusCondition(r.Status.Conditions, infrav1.RemediatedCondition); c != nil && Unhealthy(*c) {
				f := finding{of("machine", m, *c), book.Asks(c.Reason, c.Type)}
				f.Message = heldBack(c.Message)
				f.Since = cmp.Or(StepBegan(r, *c), f.Since)
				found = append(found, f)
			}
		}
	}
	return found
}

// heldBack is a message without the storm guard's count of the zone, which the cluster's own
// line has: it would stand behind each Mac that is held back.
func heldBack(message string) string {
	before, _, found := strings.Cut(message, infrav1.ReasonStormGuard+": ")
	if !found {
		return message
	}
	return before + infrav1.ReasonStormGuard + ", which its cluster explains"
}

// hindered is what a Machine that is not as it should be waits for. A person is needed, too,
// for a failure that says so, and for a Mac that nobody else mends; none for a wipe that is
// held back.
func hindered(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine, c metav1.Condition, book reasons.Book) finding {
	held := c.Reason == infrav1.ReasonBootstrapExhausted && host.WipeHeldBack(c.Message)
	f := finding{of("machine", m, c), Human(c) || !held && book.Asks(c.Reason, MachineConditions()...)}
	f.Message, f.Command = heldBack(f.Message), commandFor(s, m, c)
	f.Since = cmp.Or(MachineBegan(s, m, c), f.Since)
	if alone, is := LeftAlone(s, m, c); is {
		f.person, f.Command = true, alone.Command
		f.Message += "; " + alone.Why
	}
	return f
}

// MachineConditions are those of a Machine that can hinder it, in the order of its life.
func MachineConditions() []string {
	return []string{
		infrav1.ReleasedCondition, infrav1.HostClaimedCondition, infrav1.BootstrappedCondition, infrav1.NodeReadyCondition,
		infrav1.UpToDateCondition, infrav1.SlotsHealthyCondition,
	}
}

// Hindrance is the first condition of a Machine that is not as it should be.
func Hindrance(conditions []metav1.Condition) *metav1.Condition {
	for _, kind := range MachineConditions() {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && Unhealthy(*c) {
			return c
		}
	}
	return nil
}

func podFindings(s *snapshot.Snapshot, _ reasons.Book) []finding {
	macs := map[string]bool{}
	for i := range s.Machines {
		macs[s.Machines[i].Name] = true
	}
	var found []finding
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Status.Phase == corev1.PodPending && (macs[p.Spec.NodeName] || p.Spec.NodeName == "" && WantsMac(p)) {
			problem := ProblemOf(p)
			c := metav1.Condition{Reason: problem.Reason, Message: problem.Message, LastTransitionTime: p.CreationTimestamp}
			found = append(found, finding{of("pod", p, c), false})
		}
	}
	return found
}

// grouped are the items that need a person, or those that do not, with those of one kind
// that wait for the same on one line.
func grouped(all []finding, person bool) []Item {
	items := []Item{}
	for _, f := range all {
		if f.person != person {
			continue
		}
		same := func(i Item) bool {
			return i.Kind == f.Kind && i.Namespace == f.Namespace && i.Reason == f.Reason && i.Message == f.Message
		}
		at := slices.IndexFunc(items, same)
		if at < 0 {
			items = append(items, f.Item)
			continue
		}
		items[at].More++
		if items[at].Since == nil || f.Since != nil && f.Since.Before(*items[at].Since) {
			items[at].Since = f.Since
		}
	}
	return items
}

// many lines of one reason can be read; more of them are one, which counts the others.
const many = 3

// Folded are the items for people: those of one reason on one line where they are many, each
// with words of its own though they have, so that a storm leaves the rest to be read.
func Folded(items []Item) []Item {
	kinds := map[string]int{}
	key := func(i Item) string { return i.Kind + " " + i.Namespace + " " + i.Reason }
	for _, i := range items {
		kinds[key(i)]++
	}
	first := map[string]int{}
	var folded []Item
	for _, i := range items {
		at, seen := first[key(i)]
		if kinds[key(i)] <= many || !seen {
			first[key(i)] = len(folded)
			folded = append(folded, i)
			continue
		}
		folded[at].More += 1 + i.More
		if i.Since != nil && (folded[at].Since == nil || i.Since.Before(*folded[at].Since)) {
			folded[at].Since = i.Since
		}
	}
	return folded
}

// Object is an item as it is typed and shown.
func (i Item) Object() string {
	name := i.Name
	if i.Namespace != "" {
		name = i.Namespace + "/" + name
	}
	if i.More > 0 {
		return fmt.Sprintf("%s %s and %d more", i.Kind, name, i.More)
	}
	return i.Kind + " " + name
}
