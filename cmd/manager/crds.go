package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/charts"
	"github.com/macfleet/macfleet/internal/startup"
)

// crdsPatience bounds the command: a hook that hangs would hold the upgrade.
const crdsPatience = 2 * time.Minute

// A manager asks at its start whose CRDs these are, and whether the first system's
// manager runs.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=externalcontrolplanes.controlplane.cluster.x-k8s.io;externalcontrolplanetemplates.controlplane.cluster.x-k8s.io;macbootstrapconfigs.bootstrap.cluster.x-k8s.io;macbootstrapconfigtemplates.bootstrap.cluster.x-k8s.io;macnodeprofiles.infrastructure.cluster.x-k8s.io;scalewayapplesiliconclusters.infrastructure.cluster.x-k8s.io;scalewayapplesiliconclustertemplates.infrastructure.cluster.x-k8s.io;scalewayapplesiliconhosts.infrastructure.cluster.x-k8s.io;scalewayapplesiliconmachines.infrastructure.cluster.x-k8s.io;scalewayapplesiliconmachinetemplates.infrastructure.cluster.x-k8s.io;scalewayapplesiliconremediations.infrastructure.cluster.x-k8s.io;scalewayapplesiliconremediationtemplates.infrastructure.cluster.x-k8s.io,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=scaleway-applesilicon.infrastructure.cluster.x-k8s.io,verbs=list
// +kubebuilder:rbac:groups=apps,resources=deployments,namespace=fleet,verbs=list

// checkCluster refuses a cluster that a manager must not start in.
func checkCluster(ctx context.Context, to connection) error {
	c, err := plainClient(to.config)
	if err != nil {
		return err
	}
	if err := startup.CheckFirstSystem(ctx, c, to.namespace, time.Now()); err != nil {
		return err
	}
	own, err := charts.CRDs()
	if err != nil {
		return err
	}
	later, err := startup.CheckCRDs(ctx, c, own)
	if err != nil {
		return err
	}
	if len(later) > 0 {
		ctrl.Log.Info("CRDs of the cluster are of a later release than this manager, which is right after a roll-back", "crds", later)
	}
	return nil
}

func plainClient(config *rest.Config) (client.Client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	return c, nil
}

// applyCRDs is `manager crds apply`, which the chart's hook runs before an upgrade.
func applyCRDs(ctx context.Context, to connection, stdout io.Writer) error {
	c, err := plainClient(to.config)
	if err != nil {
		return err
	}
	own, err := charts.CRDs()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, crdsPatience)
	defer cancel()
	return startup.ApplyCRDs(ctx, c, own, func(text string) { _, _ = fmt.Fprintln(stdout, text) })
}
