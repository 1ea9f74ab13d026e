package machine

import (
	"cmp"
	"context"
	"maps"
	"math/bits"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// queue of Machines to look at.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// hostEvents wakes the Machines that mean a host, and, when it becomes free or
// other than it was, those that wait for one like it, in turns. A host that stays
// free as it was wakes nobody: whoever waits has looked at it already.
func (r *Reconciler) hostEvents() handler.EventHandler {
	wake := func(ctx context.Context, q queue, before, now client.Object) {
		meant, waiting := r.ofHost(ctx, asHost(before), asHost(now))
		for _, request := range meant {
			q.Add(request)
		}
		for rank, request := range waiting {
			q.AddAfter(request, turn(rank))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, q, nil, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { wake(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, q, nil, e.Object) },
	}
}

func asHost(object client.Object) *host.Host {
	h, _ := object.(*host.Host)
	return h
}

// turnTime is how long a claim takes to be seen by those that come later.
const turnTime = 250 * time.Millisecond

// turn is how long a waiting Machine leaves a freed host to those before it: one
// host needs one Machine, and a crowd that reaches for it at once only meets
// conflicts. The first comes at once, and each turn is twice as large as all before.
func turn(rank int) time.Duration {
	return time.Duration(bits.Len(uint(rank))) * turnTime
}

// ofHost are the Machines to wake for a host: those that mean it, and those that
// wait for one like it, the ones that this host prefers first. Before is nil where
// it was not known.
func (r *Reconciler) ofHost(ctx context.Context, before, now *host.Host) (meant, waiting []reconcile.Request) {
	if now == nil {
		return nil, nil
	}
	free := available(now) && !(available(before) && alike(before, now))
	meant = r.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		if ref := m.Spec.HostRef; ref != nil {
			return ref.Name == now.Name || host.MeansClaim(now, m)
		}
		if legacy, is := host.LegacyServer(m); is {
			return legacy.ServerID == now.Spec.ServerID
		}
		return now.Name == host.OrderName(m.Name) // an older order, which this Machine's may wait for
	})
	if !free {
		return meant, nil
	}
	waiting = r.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		_, legacy := host.LegacyServer(m)
		return m.Spec.HostRef == nil && m.DeletionTimestamp.IsZero() && !legacy && !ordered(m) && r.mayFit(m, now)
	})
	slices.SortFunc(waiting, func(a, b reconcile.Request) int {
		return cmp.Compare(host.Lot(b.Namespace, b.Name, now), host.Lot(a.Namespace, a.Name, now))
	})
	return meant, waiting
}

func available(h *host.Host) bool {
	return h != nil && h.Spec.ClaimRef == nil && h.Status.Phase == infrav1.HostAvailable
}

// alike: what a Machine may ask of a host has not changed.
func alike(a, b *host.Host) bool {
	return maps.Equal(a.Labels, b.Labels) && a.Status.Server.Type == b.Status.Server.Type &&
		a.Status.Server.OSFamily == b.Status.Server.OSFamily && a.Status.Server.Name == b.Status.Server.Name
}

// mayFit leaves out Machines that by their own words cannot take the host. A zone
// that comes from elsewhere is not looked up here: the Machine will see.
func (r *Reconciler) mayFit(m *infrav1.ScalewayAppleSiliconMachine, h *host.Host) bool {
	wish, err := r.wish(&visit{machine: m})
	if err != nil {
		return false
	}
	if wish.Zone == "" {
		wish.Zone = h.Spec.Zone
	}
	return host.Fits(wish, h)
}
