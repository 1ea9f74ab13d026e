package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/uninstall"
)

// uninstallPoll is how often what is left is looked at.
const uninstallPoll = 10 * time.Second

// checkUninstall is `manager uninstall check`, which the chart's hook runs before the
// release is deleted. It ends well once nothing is left, waits for what passes by
// itself, and refuses where a person has to decide.
func checkUninstall(ctx context.Context, to connection, stdout io.Writer) error {
	c, err := plainClient(to.config)
	if err != nil {
		return err
	}
	said := ""
	for {
		left, err := lookAtWhatIsLeft(ctx, c, to.namespace)
		switch {
		case err != nil:
			return err
		case left.Nothing():
			_, _ = fmt.Fprintln(stdout, "no Mac is left that the manager has to look after")
			return nil
		case len(left.Stays) > 0:
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
	var machines infrav1.ScalewayAppleSiliconMachineList
	if err := c.List(ctx, &machines, client.InNamespace(namespace)); err != nil {
		return uninstall.Left{}, fmt.Errorf("listing the Machines of namespace %s: %w", namespace, err)
	}
	var hosts infrav1.ScalewayAppleSiliconHostList
	if err := c.List(ctx, &hosts); err != nil {
		return uninstall.Left{}, fmt.Errorf("listing the hosts: %w", err)
	}
	return uninstall.Look(machines.Items, hosts.Items, time.Now()), nil
}
