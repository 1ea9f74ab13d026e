package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// PodKinds are what a Pod's story is told from, beside the Pod.
func PodKinds() []snapshot.Kind {
	return []snapshot.Kind{
		snapshot.Machines, snapshot.Hosts, snapshot.Nodes, snapshot.Fleets, snapshot.Zones, snapshot.Remediations, snapshot.CoreMachines,
		snapshot.HealthChecks, snapshot.Profiles,
	}
}

// PodNames are the names of what the story of a Pod that runs is told from. One that waits may
// wait for any Mac.
func PodNames(p *corev1.Pod) map[snapshot.Kind]string {
	if p.Spec.NodeName == "" {
		return nil
	}
	mac := p.Spec.NodeName
	return map[snapshot.Kind]string{snapshot.Machines: mac, snapshot.CoreMachines: mac, snapshot.Nodes: mac, snapshot.Remediations: mac}
}

// Pod tells a Pod's story: its own, or that of the Mac that it runs on or waits for.
func Pod(s *snapshot.Snapshot, book reasons.Book, p *corev1.Pod) Story {
	t := newTeller(s, book, "pod", p)
	t.is("a Pod, %s", p.Status.Phase)
	if p.Spec.NodeName != "" {
		t.is("on the Mac of Node %s", p.Spec.NodeName)
	}
	t.names["POD"] = p.Name
	if p.DeletionTimestamp != nil {
		t.terminating(p)
	} else {
		t.podIsAt(p)
	}
	if p.Spec.NodeName == "" {
		t.waitingFleets()
	} else {
		t.macOf(p.Spec.NodeName)
	}
	t.zones("")
	return *t.story
}

func (t *teller) terminating(p *corev1.Pod) {
	point := Point{
		Reason: "Terminating", Means: "it is being deleted", Since: askedToEnd(p),
		Next: "it is gone when its guest has ended and its VM is deleted; its grace ends", NextAt: &p.DeletionTimestamp.Time,
	}
	if t.podAway(p) {
		point.Next, point.NextAt = nothingHeard, nil
	}
	t.add(point, reasons.Entry{Page: "../pods.md#deletion-restarts-reboots"})
}

// podIsAt takes up how far a Pod is, or what it has failed of.
func (t *teller) podIsAt(p *corev1.Pod) {
	problem := show.ProblemOf(p)
	if problem.Reason == "" {
		t.add(Point{Reason: string(p.Status.Phase), Healthy: true, Since: &p.CreationTimestamp.Time}, reasons.Entry{})
		return
	}
	point := Point{Reason: problem.Reason, Says: problem.Message, Since: &p.CreationTimestamp.Time}
	if !problem.Since.IsZero() {
		point.Since = &problem.Since
	}
	switch {
	case p.Status.Phase == corev1.PodFailed:
		point.Next = afterFailure(p)
	case t.podAway(p):
		point.Next = nothingHeard
	}
	t.add(point, t.ofPods(problem.Reason))
	if problem.Ended != nil {
		t.lastEnd(problem)
	}
}

// lastEnd takes up how a container ended that is to be started again.
func (t *teller) lastEnd(problem show.Problem) {
	reason, says := show.EndOf(problem.Container, problem.Ended)
	if reason == problem.Reason {
		return // which is told
	}
	entry := t.ofPods(reason)
	entry.Next = ""
	t.add(Point{About: "last end of " + problem.Container, Reason: reason, Says: says, Since: &problem.Ended.FinishedAt.Time}, entry)
}

// ofPods is what the book says of a Pod's reason.
func (t *teller) ofPods(reason string) reasons.Entry {
	entry, found := t.book.Find(reason, reasons.OfPods)
	if !found {
		return reasons.Entry{Means: unexplained, Page: "reasons.md#why-a-pod-waits-or-has-failed"}
	}
	return entry
}

// afterFailure is what comes after a Pod that has failed: nothing of its own.
func afterFailure(p *corev1.Pod) string {
	if owner := metav1.GetControllerOf(p); owner != nil {
		return fmt.Sprintf("this Pod stays as it is; whether another is made, its %s %s decides", owner.Kind, owner.Name)
	}
	return "nothing: a Pod that has failed stays as it is, and nobody makes another"
}

// nothingHeard is what comes next on a Mac that is away.
const nothingHeard = "nothing, before its Mac is back, of which nothing is heard"

// podAway says whether nothing is heard of the Mac that a Pod is on.
func (t *teller) podAway(p *corev1.Pod) bool {
	return slices.ContainsFunc(t.s.Machines, func(m infrav1.ScalewayAppleSiliconMachine) bool {
		ready := find(show.Conditions(t.s, &m), infrav1.NodeReadyCondition)
		return m.Name == p.Spec.NodeName && ready != nil && show.Unhealthy(*ready) && show.Away(*ready)
	})
}

// askedToEnd is when a Pod's deletion was asked for: its deletionTimestamp is when its grace
// is over.
func askedToEnd(p *corev1.Pod) *time.Time {
	at := p.DeletionTimestamp.Time
	if grace := p.DeletionGracePeriodSeconds; grace != nil {
		at = at.Add(-time.Duration(*grace) * time.Second)
	}
	return &at
}

// macOf takes up what a Pod's Mac has to say, where it is not well.
func (t *teller) macOf(node string) {
	t.node(node)
	for i := range t.s.Machines {
		if m := &t.s.Machines[i]; m.Name == node && (show.PhaseOf(t.s, m) != "Running" || t.deadWhilePaused(m)) {
			t.names["NS"], t.names["MACHINE"], t.names["HOST"] = m.Namespace, m.Name, hostNameOf(m)
			t.machine("machine "+m.Name, m)
		}
	}
}

// waitingFleets takes up Machines that are no nodes yet, or no more: a Pod that waits for
// room waits for them.
func (t *teller) waitingFleets() {
	for i := range t.s.Fleets {
		md := &t.s.Fleets[i]
		if md.Spec.Replicas == nil || md.Status.AvailableReplicas == nil || *md.Status.AvailableReplicas >= *md.Spec.Replicas {
			continue
		}
		t.add(Point{
			About: "fleet " + md.Name, Reason: infrav1.ReasonMacsMissing,
			Means: fmt.Sprintf("%d available of %s", *md.Status.AvailableReplicas, show.Count(int(*md.Spec.Replicas), "Mac")),
			Next:  "its other Machines become nodes",
		}, reasons.Entry{})
	}
	told := 0
	for i := range t.s.Machines {
		m := &t.s.Machines[i]
		if m.Status.Phase == "Running" || told == manyMacs {
			continue
		}
		t.names["NS"], t.names["MACHINE"], t.names["HOST"] = m.Namespace, m.Name, hostNameOf(m)
		t.machine("machine "+m.Name, m)
		told++
	}
}
