package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestAnOrderedServerComesAndGoes orders a server for a Machine. The answer to the
// first order is lost after its effect: there is one server nevertheless. With its
// Machine the server goes back to the vendor, and the pool is left as it was.
func TestAnOrderedServerComesAndGoes(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 1})
	f.awaitPool(1)
	_, err := f.world.Vendor().Arm(scaleway.Fault{
		Call: "CreateServer", When: scaleway.AfterEffect, Status: http.StatusBadGateway, Count: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	deployment := f.orderingDeployment()
	f.awaitRunning(1)
	orders := f.calls("CreateServer")
	if len(orders) != 1 || len(f.world.Vendor().Servers()) != 2 {
		t.Fatalf("%d orders, %d servers, want one order beside the server of the pool", len(orders), len(f.world.Vendor().Servers()))
	}
	id := f.onlyOwned()
	f.world.Vendor().SetFloor(id, time.Now())

	if err := f.client.Delete(f.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	f.await("the ordered server to be given back", func() (string, bool) {
		_, there := f.world.Vendor().Server(id)
		return fmt.Sprintf("there: %v, %s", there, f.phases()), !there && len(f.hosts()) == 1 && len(f.infraMachines()) == 0
	})
	f.awaitPool(1)
	if wipes := f.calls("ReinstallServer"); len(wipes) != 1 || wipes[0].ServerID != id {
		t.Errorf("reinstalls: %v, want one, of the ordered server", wipes)
	}
}

// orderingDeployment is a second fleet like the chart's, which orders its servers.
func (f *fleet) orderingDeployment() *clusterv1.MachineDeployment {
	f.Helper()
	var like clusterv1.MachineDeployment
	if err := f.client.Get(f.Context(), client.ObjectKey{Namespace: world.Namespace, Name: world.Fleet}, &like); err != nil {
		f.Fatal(err)
	}
	template := &infrav1.ScalewayAppleSiliconMachineTemplate{}
	template.Namespace, template.Name = world.Namespace, "ordered"
	template.Spec.Template.Spec = infrav1.MachineClass{
		Zone: world.Zone, Type: world.ServerType, OS: "tahoe", Acquisition: infrav1.Order, FleetName: world.Fleet,
	}
	deployment := &clusterv1.MachineDeployment{}
	deployment.Namespace, deployment.Name = world.Namespace, "ordered"
	deployment.Annotations = map[string]string{"infrastructure.cluster.x-k8s.io/allow-delete": ""} // else its deletion is refused while it has a Mac
	deployment.Spec = *like.Spec.DeepCopy()
	deployment.Spec.Replicas = ptr.To(int32(1))
	deployment.Spec.Selector.MatchLabels = map[string]string{"ordered": "true"}
	deployment.Spec.Template.Labels = map[string]string{"ordered": "true"}
	deployment.Spec.Template.Spec.InfrastructureRef.Name = template.Name
	for _, object := range []client.Object{template, deployment} {
		if err := f.client.Create(f.Context(), object); err != nil {
			f.Fatal(err)
		}
	}
	return deployment
}
