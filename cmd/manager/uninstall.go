package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// uninstallFailures is how many looks in a row fail before the wait is given up: an API
	// server that starts anew ends no wait of an hour.
	uninstallFailures = 6
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
	var w watch
	said := ""
	for {
		left, err := lookAtWhatIsLeft(ctx, c, namespace)
		if ctx.Err() != nil {
			return w.cutOff(ctx.Err())
		}
		over, refusal := w.look(left, err)
		switch {
		case refusal != nil:
			return refusal
		case over:
			_, _ = fmt.Fprintln(stdout, "no Mac is left that the manager has to look after")
			return nil
		}
		now := strings.Join(left.Passes, "\n")
		if err != nil {
			now = err.Error()
		}
		if now != said {
			said = now
			_, _ = fmt.Fprintln(stdout, now)
		}
		select {
		case <-ctx.Done():
			return w.cutOff(ctx.Err())
		case <-time.After(uninstallPoll):
		}
	}
}

// watch is what the looks until now have shown.
type watch struct {
	// looks is how many there were, and failures how many in a row failed since.
	looks, failures int
	// left is what the last one found, or why it failed.
	left []string
}

// look judges one more: whether the wait is over, and what refuses the deletion.
func (w *watch) look(left uninstall.Left, failed error) (over bool, refusal error) {
	if failed != nil {
		return w.lookFailed(failed)
	}
	w.looks, w.failures = w.looks+1, 0
	w.left = slices.Concat(left.Stays, left.Passes)
	if len(left.Stays) > 0 && w.looks >= uninstallSettles {
		return true, notDeleted(left.Stays)
	}
	return left.Nothing(), nil
}

// lookFailed judges a look that failed. What was seen before the rights went is what is left; an
// API server that starts anew refuses for a moment, too.
func (w *watch) lookFailed(failed error) (over bool, refusal error) {
	rightsGone := w.looks > 0 && refusedByRights(failed)
	if !rightsGone {
		w.left = []string{failed.Error()}
	}
	w.failures++
	switch {
	case w.failures < uninstallFailures:
		return false, nil
	case rightsGone:
		return true, notDeleted(append([]string{"this Job's rights were taken away, as Helm does once its own --timeout is over"}, w.left...))
	}
	return true, notDeleted(w.left)
}

func refusedByRights(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
}

// cutOff is why a wait ended too early: its time was up, or somebody ended it.
func (w *watch) cutOff(why error) error {
	if !errors.Is(why, context.DeadlineExceeded) {
		return why
	}
	return notDeleted(append([]string{"the time to wait is over"}, w.left...))
}

// notDeleted also says how Helm goes on: by now it counts the release as being uninstalled.
func notDeleted(why []string) error {
	return fmt.Errorf("the release is not deleted: %s. Then type helm uninstall again; to keep the release, "+
		"helm rollback <release> <its last revision> --force-conflicts, or no helm upgrade finds it", strings.Join(why, "; "))
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
