package act

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/machine"
)

// addOriginal finds the host that a Machine names by its providerID, and that is claimed for another.
func (m *Mac) addOriginal(s *snapshot.Snapshot) {
	m.HostsHidden, m.CoreHidden = s.Lacks(snapshot.Hosts), s.Lacks(snapshot.CoreMachines)
	named := []string{m.Machine.Spec.ProviderID}
	if m.Core != nil {
		named = append(named, m.Core.Spec.ProviderID)
	}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		claim := h.Spec.ClaimRef
		if claim == nil || claim.Namespace == m.Machine.Namespace && claim.Name == m.Machine.Name {
			continue
		}
		for _, id := range named {
			if id != "" && id == machine.ProviderID(h) {
				m.Original = h
			}
		}
	}
}

// DeleteCopy deletes a Machine that names another one's Mac, and leaves that Mac and its Node alone.
type DeleteCopy struct{}

// Plan is for a Machine without a Mac of its own. Cluster API is kept from its Machine before that
// is deleted: it would take the other's Node for its own.
func (DeleteCopy) Plan(m Mac) (Plan, error) {
	switch {
	case m.HostsHidden != "":
		return Plan{}, fmt.Errorf("whose Mac the Machine %s names cannot be told: %s", m.owner(), m.HostsHidden)
	case m.Host != nil:
		return Plan{}, fmt.Errorf("the Machine %s is no copy: host %s is claimed for it. To have another Mac in its place: macfleet host wipe %s", m.owner(), m.Host.Name, m.Host.Name)
	case m.Original == nil:
		return Plan{}, fmt.Errorf("the Machine %s is no copy with a providerID: that names no Mac of another Machine. To delete it: kubectl -n %s delete %s %s", m.owner(), m.Machine.Namespace, m.deletable(), m.Machine.Name)
	case m.CoreHidden != "" && metav1.GetControllerOf(m.Machine) != nil:
		return Plan{}, fmt.Errorf("the Cluster API Machine of %s is not to be seen, which would delete the other's Node: %s", m.owner(), m.CoreHidden)
	}
	claim := m.Original.Spec.ClaimRef
	var p Plan
	p.say("Machine %s is deleted, and releases nothing", m.owner())
	p.say("host %s, which its providerID names, stays the Mac of Machine %s/%s, with its Node and its Pods", m.Original.Name, claim.Namespace, claim.Name)
	if m.Core == nil {
		p.delete(m.Machine)
		return p, nil
	}
	p.say("Cluster API's Machine %s/%s goes with it, paused and without its finalizer: no Node is drained or deleted", m.Core.Namespace, m.Core.Name)
	if owner := metav1.GetControllerOf(m.Core); owner != nil {
		p.say("%s %s makes another in its place, with a Mac of its own", owner.Kind, owner.Name)
	}
	p.patch(m.Core, annotation(clusterv1.PausedAnnotation, "true"))
	p.delete(m.Machine)
	p.delete(m.Core)
	if len(m.Core.Finalizers) > 0 {
		p.patch(m.Core, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	}
	return p, nil
}

// deletable is the kind to delete of a Machine, for kubectl.
func (m Mac) deletable() string {
	if m.Core == nil {
		return "samm"
	}
	return "machine"
}
