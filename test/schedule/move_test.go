package schedule

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// move does what clusterctl does: it pauses the Cluster, makes its objects anew in
// an empty management cluster, without their status, and takes them off the old
// one, past their finalizers. between runs while the objects bear the annotation
// that says so.
func (c *cluster) move(between func()) *cluster {
	s := c.sim
	c.pause(c.object(), true)
	to := s.newCluster(c.name)
	to.pause(to.object(), true)
	for _, secret := range of[*corev1.Secret](c.store, "Secret") {
		if _, moves := secret.Labels[clusterctlv1.ClusterctlMoveLabel]; moves {
			secret.OwnerReferences = nil
			s.must(to.store.create(secret))
		}
	}
	for _, m := range of[*clusterv1.Machine](c.store, "Machine") {
		c.moveMachine(m, to)
	}
	between()
	for _, kind := range []string{kindMachine, "Machine", "ScalewayAppleSiliconCluster", "Cluster"} {
		for _, object := range of[client.Object](c.store, kind) {
			object.SetFinalizers(nil)
			s.must(c.store.update(object, false))
			s.must(client.IgnoreNotFound(c.store.delete(object, nil)))
		}
	}
	for _, node := range of[*corev1.Node](c.store, "Node") {
		s.must(to.store.create(node))
	}
	for _, m := range s.sortedMacs() {
		if m.disk.agent != nil {
			m.disk.agent.cluster = to
		}
	}
	s.members = append(s.members, to)
	to.pause(to.object(), false)
	return to
}

func (c *cluster) moveMachine(m *clusterv1.Machine, to *cluster) {
	s := c.sim
	infra := c.store.get(kindMachine, client.ObjectKeyFromObject(m)).DeepCopyObject().(*infrav1.ScalewayAppleSiliconMachine)
	moved := infra.DeepCopy()
	s.must(to.store.create(m))
	moved.OwnerReferences[0].UID = m.UID
	s.must(to.store.create(moved))
	for _, t := range s.titles {
		if t.cluster == c && t.machine == client.ObjectKeyFromObject(m) {
			t.cluster = to
		}
	}
	c.edit(infra, "moves", func() {
		metav1.SetMetaDataAnnotation(&infra.ObjectMeta, clusterctlv1.DeleteForMoveAnnotation, "")
	})
}

// TestMove moves a Cluster with Machines that run. Neither side changes a server,
// the old one lets go of Macs and Nodes, whether it saw the move or not, and never
// takes a Mac back by itself; the new one runs them.
func TestMove(t *testing.T) {
	for name, seen := range map[string]bool{"seen by the old side": true, "unseen": false} {
		t.Run(name, func(t *testing.T) {
			s := newSim(settings{seed: 11, reclaims: true})
			defer s.close()
			from := s.members[0]
			from.newMachine(infrav1.MachineClass{})
			from.newMachine(infrav1.MachineClass{})
			s.rounds()
			s.mutations = nil
			to := from.move(func() {
				if seen {
					s.round()
				}
			})
			s.rounds()
			for range 3 {
				s.whole(from.active()[0].pass("sweep", client.ObjectKey{}))
				s.wait(11 * time.Minute)
				s.round()
			}
			for _, m := range s.mutations {
				t.Errorf("%s after the move", m.what)
			}
			if running := s.running(); len(running) != 2 || len(from.store.all("Node")) != 2 || len(to.store.all("Node")) != 2 {
				t.Errorf("running after the move: %v", running)
			}
			left := map[bool]infrav1.HostPhase{true: infrav1.HostHandedOver, false: infrav1.HostStranded}[seen]
			for _, h := range from.hosts() {
				if h.Spec.ClaimRef != nil && h.Status.Phase != left {
					t.Errorf("the old side shows host %s as %s, want %s", h.Name, h.Status.Phase, left)
				}
			}
			to.deleteMachine(to.store.all("Machine")[0])
			s.rounds()
			if len(to.infra()) != 1 || len(s.running()) != 1 {
				t.Errorf("the deletion on the new side does not end: %d Machines, running %v", len(to.infra()), s.running())
			}
			if len(s.broken) > 0 || t.Failed() {
				t.Errorf("%s\n%s", s.broken, tail(s.told(), 80))
			}
		})
	}
}
