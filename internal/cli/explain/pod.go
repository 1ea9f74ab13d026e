package explain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	reason, message := show.WhyPending(p)
	point := Point{Reason: reason, Says: message, Since: &p.CreationTimestamp.Time, Read: bookSite + "pods.md#when-a-pod-waits"}
	switch {
	case p.DeletionTimestamp != nil:
		point.Reason, point.Since, point.Means = "Terminating", askedToEnd(p), "it is being deleted"
		point.Next, point.NextAt = "it is gone when its guest has ended and its VM is deleted; its grace ends", &p.DeletionTimestamp.Time
	case p.Spec.NodeName == "":
		point.Means, point.Next = "no Node takes it; its message counts why", "it runs on the first Node that has room for it"
		point.Commands = []string{fmt.Sprintf("kubectl -n %s describe pod %s", p.Namespace, p.Name)}
	case p.Status.Phase == corev1.PodPending:
		point.Means, point.Next = "it starts: its image is pulled, and its VM made", "it runs when that is done; its events say how far it is"
		point.Commands = []string{fmt.Sprintf("kubectl -n %s events --for pod/%s", p.Namespace, p.Name)}
	default:
		point.Healthy, point.Reason = true, string(p.Status.Phase)
	}
	t.add(point, reasons.Entry{})
	if p.Spec.NodeName == "" {
		t.waitingFleets()
	} else {
		t.macOf(p.Spec.NodeName)
	}
	t.zones("")
	return *t.story
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
		if m := &t.s.Machines[i]; m.Name == node && show.PhaseOf(t.s, m) != "Running" {
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
