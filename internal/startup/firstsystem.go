package startup

import (
	"context"
	"fmt"
	"regexp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FirstSystemLease is what managers of the first system take turns by, in the
// namespace of their own, whatever that is. It kept this name when they were renamed.
const FirstSystemLease = "scaleway-applesilicon.infrastructure.cluster.x-k8s.io"

// clockSkew between nodes: a lease is renewed by another one's clock.
const clockSkew = 30 * time.Second

// firstSystemImage is the image of its manager, under both of its names, in whatever registry.
var firstSystemImage = regexp.MustCompile(`(^|/)cluster-api-provider-(scaleway-applesilicon|tuist)([:@]|$)`)

// CheckFirstSystem refuses to start beside the first system's manager: it works on
// the same kinds in all namespaces, and both would claim, wipe and release the same
// Macs. It runs where its lease is renewed, or where its Deployment wants Pods in
// the manager's own namespace.
func CheckFirstSystem(ctx context.Context, reader client.Reader, namespace string, now time.Time) error {
	leases := &coordinationv1.LeaseList{}
	if err := reader.List(ctx, leases, client.MatchingFields{"metadata.name": FirstSystemLease}); err != nil {
		return fmt.Errorf("looking for the first system's lease: %w", err)
	}
	for i := range leases.Items {
		if lease := &leases.Items[i]; renewed(lease, now) {
			return refuse("the first system's manager %q runs beside this one: it holds the lease %s/%s, and both would claim and wipe the same Macs; "+
				"scale its Deployment to 0 first (docs/migrate.md)", ptr.Deref(lease.Spec.HolderIdentity, ""), lease.Namespace, lease.Name)
		}
	}
	deployments := &appsv1.DeploymentList{}
	if err := reader.List(ctx, deployments, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("looking for the first system's Deployment: %w", err)
	}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; firstSystems(d) {
			return refuse("the first system's manager, Deployment %s/%s, is to run beside this one: both would claim and wipe the same Macs; "+
				"type: kubectl -n %[1]s scale deployment %[2]s --replicas=0 (docs/migrate.md)", d.Namespace, d.Name)
		}
	}
	return nil
}

// renewed: somebody holds the lease, and let it not run out.
func renewed(lease *coordinationv1.Lease, now time.Time) bool {
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil {
		return false
	}
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return now.Before(lease.Spec.RenewTime.Add(lasts + clockSkew))
}

func firstSystems(d *appsv1.Deployment) bool {
	if ptr.Deref(d.Spec.Replicas, 1) == 0 {
		return false
	}
	for _, container := range d.Spec.Template.Spec.Containers {
		if firstSystemImage.MatchString(container.Image) {
			return true
		}
	}
	return false
}
