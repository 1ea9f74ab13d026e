package host

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// showing is the phase of a claimed host: it gives the server its owner's name, and
// the owner its credentials. Four vendor calls a claim: read, rename, read back, read
// when settled.
type showing struct {
	*vendor
	staging staging
}

func (p *showing) reconcile(ctx context.Context) (ctrl.Result, error) {
	if err := p.findOwner(ctx); err != nil || p.observed.OwnerGone {
		return ctrl.Result{}, err
	}
	if wait, done, err := p.nothingToShow(ctx); done || err != nil {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	server, credentials, err := p.read(ctx)
	if err != nil {
		return p.Refused(ctx, err)
	}
	in, err := p.input(ctx, server)
	if err != nil {
		return ctrl.Result{}, err
	}
	step := host.NextShow(p.host, in)
	if step == host.ShowRename && p.owner.Spec.ProviderID != "" {
		// The server bore its owner's name before any Mac was provisioned on it. That
		// the status knows nothing of it does not make the server free again.
		step = host.ShowLost
	}
	switch step {
	case host.ShowRename:
		return p.renameToOwner(ctx)
	case host.ShowRecord:
		return p.shown()
	case host.ShowSettle:
		return ctrl.Result{RequeueAfter: p.settling()}, nil
	case host.ShowStage:
		p.condition(infrav1.NameInSyncCondition, metav1.ConditionTrue, infrav1.NameInSyncCondition, "")
		if !server.Delivered { // one that we ordered; the inventory sees when it is
			p.condition(host.CredentialsStagedCondition, metav1.ConditionFalse, infrav1.ReasonNotDelivered, "the vendor has not delivered the server yet")
			return ctrl.Result{RequeueAfter: p.InventoryInterval}, nil
		}
		return p.staging.reconcile(ctx, credentials, p.poll())
	case host.ShowGoing: // its Machine ends the claim
		p.condition(host.CredentialsStagedCondition, metav1.ConditionFalse, infrav1.ReasonDeletionScheduled, "the vendor is to delete the server: no Machine is given it")
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, nil
	default:
		p.changedByOther(ctx)
		return ctrl.Result{}, nil
	}
}

// input is a fresh reading, with what a claim's name is judged by. Only a server that is
// to be deleted is worth a look for whether its owner was given it. What was ordered for it
// bears its name until it goes, and no other order could have that.
func (p *showing) input(ctx context.Context, server cloud.Server) (host.ShowInput, error) {
	pools := p.pools()
	in := host.ShowInput{
		Name: server.Name, Began: p.readAt, Settle: p.Settle, DeletionScheduled: server.DeletionScheduled,
		Pools: []string{pools.Default, pools.Prefix(p.owner)}, FirstSeen: p.since(p.now()),
	}
	if !in.DeletionScheduled || p.owner.Spec.ProviderID != "" || host.TakesOver(p.owner) || p.host.Spec.Record.Ordered {
		in.Given = true
		return in, nil
	}
	var err error
	in.Given, err = p.staging.begun(ctx)
	return in, err
}

// nothingToShow saves the vendor's time: a claim that is shown and staged, one
// that is settling, and one that was lost need no reading until the inventory
// sees another name.
func (p *showing) nothingToShow(ctx context.Context) (wait time.Duration, done bool, err error) {
	h := p.host
	name := meta.FindStatusCondition(h.Status.Conditions, infrav1.NameInSyncCondition)
	ours := h.Status.Server.Name == h.Spec.ClaimRef.Name
	switch {
	case !ours && name != nil && name.Reason == infrav1.ReasonChangedByOther:
		return 0, true, nil
	case !ours:
		return 0, false, nil
	case h.Status.ShownSince != nil && p.settling() > 0:
		return p.settling(), true, nil
	case name == nil || name.Status != metav1.ConditionTrue ||
		!meta.IsStatusConditionTrue(h.Status.Conditions, host.CredentialsStagedCondition):
		return 0, false, nil
	}
	// As long as the claim lasts its Secret must be there: a Mac that lost its
	// agent is set up again with it. See that nobody removed it.
	staged, err := p.staging.done(ctx)
	return secretCheck, staged, err
}

// secretCheck is how often the Secret of a claim is looked for that nobody misses: a
// Machine that does wakes the host. Cluster API's own specs give an owner that was taken
// off five minutes to come back.
const secretCheck = 2 * time.Minute

// settling is the rest of the time that the name must stay.
func (p *showing) settling() time.Duration {
	now := p.now()
	return p.since(now).Shown.Add(p.Settle).Sub(now)
}

// renameToOwner asks for the owner's name, and reads it back at once.
func (p *showing) renameToOwner(ctx context.Context) (ctrl.Result, error) {
	p.condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonRenaming, "the server does not bear its owner's name yet")
	if annotations.HasPaused(p.owner) {
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, nil
	}
	if still, err := p.mayShow(ctx); err != nil || !still {
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, err
	}
	if named, again, err := p.rename(ctx, p.host.Spec.ClaimRef.Name); err != nil || !named {
		return again, err
	}
	return p.shown()
}

// mayShow proves, uncached and right before the act, that the claim still stands
// and that its Cluster is not paused.
func (p *showing) mayShow(ctx context.Context) (bool, error) {
	if p.host.Spec.ClaimRef.Cluster != "" {
		if still, err := p.clusterActive(ctx); err != nil || !still {
			return false, err
		}
	}
	// Last of all: whose the host is can change at any moment.
	now, err := p.Confirm(ctx)
	return now != nil, err
}

// shown records since when the name has been the owner's.
func (p *showing) shown() (ctrl.Result, error) {
	since := metav1.NewMicroTime(p.now().Truncate(time.Microsecond))
	p.host.Status.ShownSince = &since
	p.since(since.Time)
	p.condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonRenaming, host.NameSettles)
	return ctrl.Result{RequeueAfter: p.Settle}, nil
}
