package order

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// awaitMachine waits until the Machine names the Host that the order became, and then
// ends the order. A release of the order goes to that Host first.
func (s *Sender) awaitMachine(ctx context.Context, made *host.Host) (ctrl.Result, error) {
	if err := s.save(ctx, made); err != nil {
		return ctrl.Result{}, err
	}
	s.Report(metav1.ConditionTrue, infrav1.OrderedCondition, "the server is "+made.Spec.ServerID)
	if s.owner == nil || s.owner.Spec.HostRef.Name == made.Name || s.Host().Spec.Release != nil {
		return ctrl.Result{}, s.end(ctx)
	}
	return ctrl.Result{RequeueAfter: s.Poll}, nil
}

// deliver makes the Host of the server that the order became.
func (s *Sender) deliver(ctx context.Context, id string) (ctrl.Result, error) {
	made := &host.Host{}
	key := client.ObjectKey{Name: host.ObjectName(s.Host().Spec.Zone, id)}
	err := s.Reader.Get(ctx, key, made)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading host %s: %w", key.Name, err)
	}
	if apierrors.IsNotFound(err) {
		made = host.New(s.Host().Spec.Zone, id, s.WatchFilter)
	}
	if err := s.save(ctx, made); err != nil {
		if taken, ok := errors.AsType[*host.TakenError](err); ok {
			return s.refuse(ctx, infrav1.ReasonOrderRejected, taken.Error()), nil
		}
		return ctrl.Result{}, err
	}
	s.Zones.ListNow() // the server is to be seen at once
	return s.awaitMachine(ctx, made)
}

// save gives the order's claim, and its release, to the Host, and writes it.
func (s *Sender) save(ctx context.Context, made *host.Host) error {
	changed, err := host.Deliver(made, s.Host(), s.Clock.Now())
	if err != nil || !changed {
		return err
	}
	controllerutil.AddFinalizer(made, infrav1.HostFinalizer)
	if made.ResourceVersion == "" {
		err = s.Client.Create(ctx, made)
	} else {
		err = s.Client.Update(ctx, made)
	}
	if err != nil {
		return fmt.Errorf("writing the host of an ordered server: %w", err)
	}
	return nil
}

// end removes the order.
func (s *Sender) end(ctx context.Context) error {
	if err := s.Delete(ctx); err != nil {
		return err
	}
	s.Memory.Forget(s.Host().UID)
	return nil
}
