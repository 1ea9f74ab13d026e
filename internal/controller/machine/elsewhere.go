package machine

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/machine"
)

// elsewherePoll is how often a Machine of another cluster's is looked at again: its
// control plane object is not watched here.
const elsewherePoll = 15 * time.Second

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=externalcontrolplanes,verbs=get;list;watch

// elsewhere says why nothing may be done on the Mac from here, and none taken for a Machine
// that has none: the Macs of its Cluster are nodes of another cluster, as after `clusterctl
// move`, or what would say so is not to be seen. They stay that one's, with their guests,
// until a person says otherwise. Clusters of other control planes say nothing of this.
func (p *machines) elsewhere(ctx context.Context, v *visit, reader client.Reader) (machine.Finding, error) {
	name := machine.ClusterName(v.Machine)
	if p.clusterID == "" || name == "" {
		return machine.Finding{}, nil
	}
	if v.Cluster == nil {
		return machine.False(infrav1.ReasonWaitingForCluster, "the Cluster %q does not exist: %s", name, meanwhile(v)), nil
	}
	ref := v.Cluster.Spec.ControlPlaneRef
	if ref.Kind != "ExternalControlPlane" {
		return machine.Finding{}, nil
	}
	plane := &controlplanev1.ExternalControlPlane{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: v.Cluster.Namespace, Name: ref.Name}, plane)
	switch {
	case apierrors.IsNotFound(err):
		return machine.False(infrav1.ReasonWaitingForCluster, "ExternalControlPlane %s of Cluster %s does not exist, which would say whose nodes its Macs are: %s", ref.Name, name, meanwhile(v)), nil
	case err != nil:
		return machine.Finding{}, fmt.Errorf("reading the control plane: %w", err)
	case plane.Spec.ClusterID == "", plane.Spec.ClusterID == p.clusterID:
		return machine.Finding{}, nil
	}
	return machine.False(infrav1.ReasonDifferentCluster, "Macs of Cluster %s are nodes of another cluster, says spec.clusterID of its ExternalControlPlane %s: %s; "+
		"to have Macs join here, which ends the guests of those that are nodes there, remove spec.clusterID and spec.controlPlaneEndpoint", name, plane.Name, meanwhile(v)), nil
}

// meanwhile is what becomes of the Machine as long as its Mac is not to join here.
func meanwhile(v *visit) string {
	if v.Machine.Spec.HostRef == nil {
		return "no Mac is claimed or ordered for this Machine meanwhile"
	}
	return "this one's is left as it is"
}
