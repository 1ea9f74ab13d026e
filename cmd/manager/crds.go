package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/charts"
	"github.com/macfleet/macfleet/internal/startup"
)

// crdsCommand is the first argument of `manager crds apply`, which the chart's hook
// runs before an upgrade.
const crdsCommand = "crds"

// crdsPatience bounds the command: a hook that hangs would hold the upgrade.
const crdsPatience = 2 * time.Minute

// A manager asks at its start whose CRDs these are, and whether the first system's
// manager runs.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=externalcontrolplanes.controlplane.cluster.x-k8s.io;macnodeprofiles.infrastructure.cluster.x-k8s.io;scalewayapplesiliconclusters.infrastructure.cluster.x-k8s.io;scalewayapplesiliconhosts.infrastructure.cluster.x-k8s.io;scalewayapplesiliconmachines.infrastructure.cluster.x-k8s.io;scalewayapplesiliconmachinetemplates.infrastructure.cluster.x-k8s.io;scalewayapplesiliconremediations.infrastructure.cluster.x-k8s.io;scalewayapplesiliconremediationtemplates.infrastructure.cluster.x-k8s.io,verbs=get
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

// runCRDs is `manager crds apply`.
func runCRDs(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := applyCRDs(ctx, args, stdout)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "manager crds:", err)
	return exitCode(err)
}

func applyCRDs(ctx context.Context, args []string, stdout io.Writer) error {
	var s settings
	f := flag.NewFlagSet("manager crds apply", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "path of a kubeconfig; default: KUBECONFIG, or the cluster the command runs in")
	if len(args) == 0 || args[0] != "apply" {
		return wrong(`give "apply": manager crds apply [--kubeconfig=<file>]`)
	}
	if err := f.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stdout)
		f.Usage()
		return err
	} else if err != nil {
		return wrong("%w", err)
	}
	if f.NArg() > 0 {
		return wrong("unexpected argument %q", f.Arg(0))
	}
	to, err := connect(s)
	if err != nil {
		return err
	}
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
