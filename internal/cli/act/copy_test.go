package act

import (
	"context"
	"fmt"
	"io"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// copied is a fleet in which the fourth Machine, which has no Mac, names the first one's.
func copied() *snapshot.Snapshot {
	s := checked()
	s.Machines[3].Spec.ProviderID = s.Machines[0].Spec.ProviderID
	s.Machines[3].Spec.HostRef = s.Machines[0].Spec.HostRef
	return s
}

func TestPlansForCopies(t *testing.T) {
	clitest.Golden(t, "copyplans.txt", screen.Screen{}, func(out io.Writer, _ screen.Screen) error {
		for _, c := range []struct {
			name   string
			change func(*snapshot.Snapshot, *infrav1.ScalewayAppleSiliconMachine)
		}{
			{"of another Machine", func(*snapshot.Snapshot, *infrav1.ScalewayAppleSiliconMachine) {}},
			{"that Cluster API alone knows", func(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) {
				s.CoreMachines[6].Spec.ProviderID, m.Spec.ProviderID = m.Spec.ProviderID, ""
			}},
			{"that nobody owns", func(_ *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) { m.OwnerReferences = nil }},
			{"whose owner is not to be seen", func(s *snapshot.Snapshot, _ *infrav1.ScalewayAppleSiliconMachine) {
				s.CoreMachines, s.Missing = nil, []snapshot.Missing{{Kind: snapshot.CoreMachines, Why: "you may not"}}
			}},
			{"whose owner is gone", func(s *snapshot.Snapshot, _ *infrav1.ScalewayAppleSiliconMachine) { s.CoreMachines = nil }},
			{"that bears the reference to the original's owner", func(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) {
				m.OwnerReferences = s.Machines[0].OwnerReferences
			}},
			{"that does, without a providerID", func(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) {
				m.OwnerReferences, m.Spec.ProviderID = s.Machines[0].OwnerReferences, ""
			}},
			{"whose owner has a finalizer", func(s *snapshot.Snapshot, _ *infrav1.ScalewayAppleSiliconMachine) {
				s.CoreMachines[6].Finalizers = []string{clusterv1.MachineFinalizer}
			}},
			{"without a providerID", func(_ *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.ProviderID = "" }},
			{"of a Mac that nobody has", func(s *snapshot.Snapshot, _ *infrav1.ScalewayAppleSiliconMachine) { s.Hosts[0].Spec.ClaimRef = nil }},
			{"of its own name", func(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) {
				s.Hosts[0].Spec.ClaimRef.Name, s.Hosts[0].Spec.ClaimRef.Token = m.Name, "of an earlier claim"
			}},
			{"with hosts unseen", func(s *snapshot.Snapshot, _ *infrav1.ScalewayAppleSiliconMachine) {
				s.Hosts, s.Missing = nil, []snapshot.Missing{{Kind: snapshot.Hosts, Why: "you may not"}}
			}},
		} {
			s := copied()
			c.change(s, &s.Machines[3])
			fmt.Fprintf(out, "a copy %s\n", c.name)
			plan, err := DeleteCopy{}.Plan(OfMachine(s, &s.Machines[3]))
			if err != nil {
				fmt.Fprintf(out, "  refused: %v\n", err)
				continue
			}
			describe(t, out, plan)
		}
		s := copied()
		_, err := DeleteCopy{}.Plan(OfMachine(s, &s.Machines[0]))
		fmt.Fprintf(out, "the first Machine\n  refused: %v\n", err)
		return nil
	})
}

// Cluster API's Machine is paused before it is deleted, and goes past its finalizer.
func TestACopyIsDeleted(t *testing.T) {
	s := copied()
	s.CoreMachines[6].Finalizers = []string{clusterv1.MachineFinalizer}
	paused := false
	c := newFake(t, s, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if _, is := o.(*clusterv1.Machine); is {
				var now clusterv1.Machine
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), &now); err != nil {
					return err
				}
				paused = hasAnnotation(&now, clusterv1.PausedAnnotation)
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	plan, err := DeleteCopy{}.Plan(OfMachine(s, &s.Machines[3]))
	if err == nil {
		_, err = plan.run(t.Context(), c, false)
	}
	if err != nil || !paused {
		t.Errorf("paused before %t: %v", paused, err)
	}
	for object, gone := range map[client.Object]bool{
		s.Machines[3].DeepCopy(): true, s.CoreMachines[6].DeepCopy(): true, s.Machines[0].DeepCopy(): false, s.CoreMachines[0].DeepCopy(): false,
	} {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) != gone || !gone && !object.GetDeletionTimestamp().IsZero() {
			t.Errorf("%T %s: %v, gone %t", object, object.GetName(), err, gone)
		}
	}
}
