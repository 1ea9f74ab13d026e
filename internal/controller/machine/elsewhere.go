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

// elsewhere reports that the Machine's Mac is a node of another cluster than the one that it
// would join from here, as after `clusterctl move`. It stays that one's, with its guests,
// until a person says otherwise.
func (p *machines) elsewhere(ctx context.Context, v *visit) (bool, error) {
	if p.clusterID == "" || v.Cluster == nil || v.Cluster.Spec.ControlPlaneRef.Kind != "ExternalControlPlane" {
		return false, nil
	}
	plane := &controlplanev1.ExternalControlPlane{}
	err := p.client.Get(ctx, client.ObjectKey{Namespace: v.Cluster.Namespace, Name: v.Cluster.Spec.ControlPlaneRef.Name}, plane)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the control plane: %w", err)
	}
	if plane.Spec.ClusterID == "" || plane.Spec.ClusterID == p.clusterID {
		return false, nil
	}
	v.bootstrapped = machine.False(infrav1.ReasonDifferentCluster, "Macs of Cluster %s are nodes of another cluster, says spec.clusterID of its ExternalControlPlane %s: this one is left there as it is; "+
		"to have it join here, which ends its guests, remove spec.clusterID and spec.controlPlaneEndpoint", v.Cluster.Name, plane.Name)
	return true, nil
}
