package host

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// orderObject is a Host that is an order, for package order.
type orderObject struct {
	*vendor
}

func (o orderObject) Host() *host.Host { return o.host }

func (o orderObject) Report(status metav1.ConditionStatus, reason, message string) {
	o.condition(infrav1.OrderedCondition, status, reason, message)
}

func (o orderObject) Delete(ctx context.Context) error {
	if err := o.removeFinalizer(ctx, func(*host.Host) {}); err != nil {
		return err
	}
	return o.delete(ctx)
}
