// Package explain tells the whole story of one object, in order: what it is, what it waits
// for and since when, what happens next by itself and when, and what a person can do. It
// decides that from a snapshot and from the book, and reads nothing.
package explain

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// bookSite is where the book is read.
const bookSite = "https://github.com/macfleet/macfleet/blob/main/docs/"

// unexplained is what a reason means that the book has no row of.
const unexplained = "the book does not explain this; its message says why"

// Story is what is known of an object. Its JSON is documented in docs/operate/cli.md.
type Story struct {
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	// Is says what the object is, a sentence each.
	Is []string `json:"is"`
	// Points are what is to be told, in order; the first is what it is at now.
	Points  []Point            `json:"points"`
	Missing []snapshot.Missing `json:"missing,omitempty"`
}

// Point is one thing in a story.
type Point struct {
	// About is the object, "host NAME", where it is not the story's own.
	About     string `json:"about,omitempty"`
	Condition string `json:"condition,omitempty"`
	Reason    string `json:"reason"`
	// Healthy: nothing is wrong with it.
	Healthy bool       `json:"healthy,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	// SinceOfCondition: Since is when the condition ceased to be as it should be; its reason may be younger.
	SinceOfCondition bool `json:"sinceOfCondition,omitempty"`
	// Says is the object's own message, and Means what the book says of the reason.
	Says  string `json:"says,omitempty"`
	Means string `json:"means,omitempty"`
	// Next happens by itself, at NextAt where that is known.
	Next     string     `json:"next,omitempty"`
	NextAt   *time.Time `json:"nextAt,omitempty"`
	You      string     `json:"you,omitempty"`
	Commands []string   `json:"commands,omitempty"`
	Read     string     `json:"read,omitempty"`
}

// teller writes one story.
type teller struct {
	s     *snapshot.Snapshot
	book  reasons.Book
	story *Story
	// names are what stands for $HOST and the like in commands.
	names map[string]string
}

func newTeller(s *snapshot.Snapshot, book reasons.Book, kind string, object metav1.Object) *teller {
	t := &teller{s: s, book: book, names: map[string]string{"NS": cmp.Or(object.GetNamespace(), "macfleet-system")}}
	t.story = &Story{At: s.At, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Points: []Point{}, Missing: s.Missing}
	return t
}

func (t *teller) is(format string, values ...any) {
	t.story.Is = append(t.story.Is, fmt.Sprintf(format, values...))
}

// add takes up a point, and what the book has on it.
func (t *teller) add(p Point, entry reasons.Entry) {
	p.Means = cmp.Or(p.Means, withoutStatus(entry.Means))
	p.Next = cmp.Or(p.Next, entry.Next)
	p.You = cmp.Or(p.You, t.named(entry.You))
	if entry.Page != "" {
		p.Read = cmp.Or(p.Read, page(entry.Page))
	}
	if !p.Healthy {
		for _, command := range entry.Commands {
			p.Commands = append(p.Commands, t.named(command))
		}
	}
	t.story.Points = append(t.story.Points, p)
}

// withoutStatus is a meaning without the condition's status before it, by which the book tells
// its rows apart.
func withoutStatus(means string) string {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
		means = strings.TrimPrefix(means, string(status)+": ")
	}
	return means
}

// page is where a page of the book is read, by its link from the folder operate. One that leads
// out of the folder is shown as the address that it leads to.
func page(link string) string { return bookSite + path.Join("operate", link) }

// named puts names in the places that the book leaves for them.
func (t *teller) named(command string) string {
	names := map[string]string{}
	for _, place := range []string{"NS", "CLUSTER", "HOST", "MACHINE", "PROFILE", "POD"} {
		names[place] = cmp.Or(t.names[place], place)
	}
	return reasons.Named(command, names)
}

// condition takes up a condition; of are the ones that Ready may repeat.
func (t *teller) condition(about string, c metav1.Condition, when next, of ...string) {
	p := Point{About: about, Condition: c.Type, Reason: c.Reason, Healthy: !show.Unhealthy(c), Says: c.Message, Next: when.text, NextAt: when.at}
	if !c.LastTransitionTime.IsZero() {
		p.Since, p.SinceOfCondition = &c.LastTransitionTime.Time, !p.Healthy
	}
	if when.began != nil {
		p.Since, p.SinceOfCondition = when.began, false
	}
	of = append([]string{c.Type}, of...)
	entry, found := t.book.Find(c.Reason, of...)
	if !found {
		entry, found = t.book.Any(c.Reason)
	}
	switch {
	case p.Healthy || p.Next != "":
	case !found:
		p.Means = unexplained
	case entry.You == "":
		p.Next = "it passes by itself"
	case reasons.Passes(c.Reason):
		p.Next = "it is tried again by itself"
	default:
		p.Next = "nothing, until somebody acts"
	}
	if when.you != "" {
		entry.You, entry.Commands = when.you, when.commands
	}
	t.add(p, entry)
}

// next is what happens by itself, and when.
type next struct {
	text string
	at   *time.Time
	// began is when the reason for it came up, where that is known.
	began *time.Time
	// you and commands are for a person, in place of the book's.
	you      string
	commands []string
}

// since is it with the time at which its reason came up.
func (n next) since(began *time.Time) next {
	n.began = began
	return n
}

func at(text string, from *metav1.Time, after time.Duration) next {
	if from == nil || from.IsZero() {
		return next{text: text}
	}
	when := from.Add(after)
	return next{text: text, at: &when}
}

// zones takes up what the vendor's side has that is not well: most waits end there.
func (t *teller) zones(namespace string) {
	for i := range t.s.Zones {
		zone := &t.s.Zones[i]
		if namespace != "" && zone.Namespace != namespace {
			continue
		}
		t.unwellOf("cluster", zone, zone.Status.Conditions)
	}
	for i := range t.s.ControlPlanes {
		plane := &t.s.ControlPlanes[i]
		if plane.Namespace == namespace {
			t.unwellOf("controlplane", plane, plane.Status.Conditions)
		}
	}
}

// unwellOf is unwell of what belongs to a Cluster, which commands name.
func (t *teller) unwellOf(kind string, object metav1.Object, conditions []metav1.Condition) {
	names := maps.Clone(t.names)
	t.names["NS"], t.names["CLUSTER"] = object.GetNamespace(), show.ClusterName(object)
	t.unwell(kind+" "+object.GetName(), conditions)
	t.names = names
}

// pauses takes up what keeps macfleet's hands off; resume ends the object's own annotation.
func (t *teller) pauses(cluster string, object metav1.Object, resume string) {
	const annotation = clusterv1.PausedAnnotation
	if _, paused := object.GetAnnotations()[annotation]; paused {
		t.add(Point{
			Reason: infrav1.PausedCondition, Means: "its annotation " + annotation + " keeps every controller away",
			Next: "nothing, until somebody acts", You: "take the annotation off when you are done", Commands: []string{resume},
		}, reasons.Entry{})
	}
	for i := range t.s.Clusters {
		c := &t.s.Clusters[i]
		if c.Namespace == object.GetNamespace() && c.Name == cluster && c.Spec.Paused != nil && *c.Spec.Paused {
			t.add(Point{
				About: "cluster " + c.Name, Reason: infrav1.PausedCondition, Means: "spec.paused of the Cluster keeps every controller away, deletions included",
				Next: "nothing, until somebody acts", You: "unset it when you are done",
				Commands: []string{fmt.Sprintf("macfleet cluster resume %s -n %s", c.Name, c.Namespace)},
			}, reasons.Entry{})
		}
	}
}

// node takes up what a Mac's Node says of the Mac.
func (t *teller) node(name string) {
	for i := range t.s.Nodes {
		n := &t.s.Nodes[i]
		if n.Name != name {
			continue
		}
		if n.Spec.Unschedulable && !t.drained(name) {
			t.add(Point{
				About: "node " + name, Reason: "Cordoned", Means: "no new Pod is put on it", Next: "nothing, until somebody acts",
				Commands: []string{"kubectl uncordon " + name},
			}, reasons.Entry{})
		}
		for _, c := range n.Status.Conditions {
			repeats := c.Reason == nodeNotHeardOf && c.Type != corev1.NodeReady
			if nodeUnwell(c) && !repeats {
				t.condition("node "+name, metav1.Condition{Type: string(c.Type), Status: metav1.ConditionFalse, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime}, t.whenNode(name, c))
			}
		}
	}
}

// nodeNotHeardOf is Kubernetes' own reason of the conditions of a Node that does not report any
// more: of Ready, and of the pressures, of which it says nothing new.
const nodeNotHeardOf = "NodeStatusUnknown"

// whenNode is what comes next for a Node that is not heard of: what its Machine waits for.
func (t *teller) whenNode(name string, c corev1.NodeCondition) next {
	if c.Reason != nodeNotHeardOf {
		return next{}
	}
	for i := range t.s.Machines {
		m := &t.s.Machines[i]
		if ready := find(show.Conditions(t.s, m), infrav1.NodeReadyCondition); m.Name == name && ready != nil && show.Away(*ready) {
			return t.whenMachine(m, *ready)
		}
	}
	return next{text: "it is written anew when the Node is heard of"}
}

// drained: Cluster API cordoned the Node of a Machine that it deletes.
func (t *teller) drained(node string) bool {
	for i := range t.s.CoreMachines {
		if c := &t.s.CoreMachines[i]; c.Name == node && c.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// nodeUnwell: pressures are bad when they are True, all else when it is not.
func nodeUnwell(c corev1.NodeCondition) bool {
	switch c.Type {
	case corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
		return c.Status != corev1.ConditionFalse
	}
	return c.Status != corev1.ConditionTrue
}

func find(conditions []metav1.Condition, kind string) *metav1.Condition {
	return meta.FindStatusCondition(conditions, kind)
}
