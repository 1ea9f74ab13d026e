package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/uninstall"
)

const (
	// uninstallPoll is how often what is left is looked at.
	uninstallPoll = 10 * time.Second
	// uninstallSettles is how often what stays is looked at before it counts: the Machines of
	// a fleet that was scaled to 0 a moment ago are not being deleted yet.
	uninstallSettles = 3
)

// checkUninstall is `manager uninstall check`, which the chart's hook runs before the
// release is deleted. It ends well once nothing is left, waits for what passes by
// itself, and refuses where a person has to decide.
func checkUninstall(ctx context.Context, to connection, stdout io.Writer) error {
	c, err := plainClient(to.config)
	if err != nil {
		return err
	}
	return untilNothingIsLeft(ctx, c, to.namespace, stdout)
}

// untilNothingIsLeft waits for what ends by itself, and refuses for what does not.
func untilNothingIsLeft(ctx context.Context, c client.Client, namespace string, stdout io.Writer) error {
	said := ""
	for looks := 1; ; looks++ {
		left, err := lookAtWhatIsLeft(ctx, c, namespace)
		switch {
		case err != nil:
			return err
		case left.Nothing():
			_, _ = fmt.Fprintln(stdout, "no Mac is left that the manager has to look after")
			return nil
		case len(left.Stays) > 0 && looks >= uninstallSettles:
			return fmt.Errorf("the release is not deleted: %s", strings.Join(left.Stays, "; "))
		}
		if now := strings.Join(left.Passes, "\n"); now != said {
			said = now
			_, _ = fmt.Fprintln(stdout, now)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(uninstallPoll):
		}
	}
}

func lookAtWhatIsLeft(ctx context.Context, c client.Client, namespace string) (uninstall.Left, error) {
	var cores clusterv1.MachineList
	var machines infrav1.ScalewayAppleSiliconMachineList
	var hosts infrav1.ScalewayAppleSiliconHostList
	// Core's first: one that is gone by now has its Mac's release in the others.
	for _, of := range []struct {
		what, in string
		list     client.ObjectList
	}{{"Cluster API's Machines", namespace, &cores}, {"macfleet's Machines", namespace, &machines}, {"the hosts", "", &hosts}} {
		if err := c.List(ctx, of.list, client.InNamespace(of.in)); err != nil && !uninstall.KindGone(err) {
			return uninstall.Left{}, fmt.Errorf("listing %s: %w", of.what, err)
		}
	}
	return uninstall.Look(uninstall.Found{Namespace: namespace, CoreMachines: cores.Items, Machines: machines.Items, Hosts: hosts.Items}, time.Now()), nil
}
