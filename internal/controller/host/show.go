package host

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// renameDeadline bounds a rename; Settle is longer, so that one which timed out
// has landed, or never will, when the name is read for good.
const renameDeadline = 2 * time.Second

// show gives the server its owner's name, and the owner its credentials. Four
// vendor calls a claim: read, rename, read back, read when settled.
func (p *pass) show(ctx context.Context) (ctrl.Result, error) {
	if err := p.findOwner(ctx); err != nil || p.seen.OwnerGone {
		return ctrl.Result{}, err
	}
	if wait, done, err := p.nothingToShow(ctx); done || err != nil {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	pools, err := p.pools(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	server, credentials, err := p.read(ctx)
	if err != nil {
		return p.vendor(ctx, err)
	}
	look := host.ShowLook{Name: server.Name, Began: p.began, Settle: p.Settle, Pools: pools, Known: p.known.note(p.host, p.Clock.Now())}
	step := host.NextShow(p.host, look)
	if step == host.ShowRename && p.owner.Spec.ProviderID != "" {
		// The server bore its owner's name before any Mac was provisioned on it. That
		// the status knows nothing of it does not make the server free again.
		step = host.ShowLost
	}
	switch step {
	case host.ShowRename:
		return p.rename(ctx)
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
		return p.stage(ctx, credentials)
	default:
		p.changedByOther(ctx)
		return ctrl.Result{}, nil
	}
}

// nothingToShow saves the vendor's time: a claim that is shown and staged, one
// that is settling, and one that was lost need no reading until the inventory
// sees another name.
func (p *pass) nothingToShow(ctx context.Context) (wait time.Duration, done bool, err error) {
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
	staged, err := p.isStaged(ctx)
	return p.InventoryInterval, staged, err
}

// settling is the rest of the time that the name must stay.
func (p *pass) settling() time.Duration {
	now := p.Clock.Now()
	return p.known.note(p.host, now).Shown.Add(p.Settle).Sub(now)
}

// rename asks for the owner's name, and reads it back at once.
func (p *pass) rename(ctx context.Context) (ctrl.Result, error) {
	p.condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonRenaming, "the server does not bear its owner's name yet")
	if annotations.HasPaused(p.owner) {
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, nil
	}
	if still, err := p.mayShow(ctx); err != nil || !still {
		return ctrl.Result{RequeueAfter: p.InventoryInterval}, err
	}
	if p.outdated() {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	h := p.host
	if err := p.askName(ctx, h.Spec.ClaimRef.Name); err != nil {
		return p.renameRefused(ctx, err)
	}
	server, _, err := p.read(ctx)
	if err != nil {
		return p.vendor(ctx, err)
	}
	if server.Name != h.Spec.ClaimRef.Name {
		return ctrl.Result{RequeueAfter: p.poll()}, nil
	}
	return p.shown()
}

func (p *pass) askName(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, renameDeadline)
	defer cancel()
	return p.Cloud.RenameServer(ctx, p.host.Spec.Zone, p.host.Spec.ServerID, name)
}

// renameRefused waits: also a rename that failed may still land, and the next
// reading tells.
func (p *pass) renameRefused(ctx context.Context, err error) (ctrl.Result, error) {
	p.seen.Refusal = refusal(err)
	if p.host.Spec.Release == nil {
		p.condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonRenaming, host.Refused(p.seen.Refusal))
	}
	if cloud.IsUnavailable(err) {
		ctrl.LoggerFrom(ctx).Info("A rename did not come back; reading again", "error", err.Error())
		return ctrl.Result{RequeueAfter: p.poll()}, nil
	}
	return p.vendor(ctx, err)
}

// mayShow proves, uncached and right before the act, that the claim still stands
// and that its Cluster is not paused.
func (p *pass) mayShow(ctx context.Context) (bool, error) {
	if p.host.Spec.ClaimRef.Cluster != "" {
		if still, err := p.clusterStill(ctx); err != nil || !still {
			return false, err
		}
	}
	// Last of all: whose the host is can change at any moment.
	now, err := p.fresh(ctx)
	return now != nil, err
}

// shown records since when the name has been the owner's.
func (p *pass) shown() (ctrl.Result, error) {
	since := metav1.NewMicroTime(p.Clock.Now().Truncate(time.Microsecond))
	p.host.Status.ShownSince = &since
	p.known.note(p.host, since.Time)
	p.condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonRenaming, "the name must stay for a moment")
	return ctrl.Result{RequeueAfter: p.Settle}, nil
}

// changedByOther leaves the host to whose name it bears.
func (p *pass) changedByOther(ctx context.Context) {
	name := p.host.Status.Server.Name
	message := fmt.Sprintf("the server was named %q by somebody else", name)
	before := meta.FindStatusCondition(p.host.Status.Conditions, infrav1.NameInSyncCondition)
	if before == nil || before.Reason != infrav1.ReasonChangedByOther {
		p.event(corev1.EventTypeWarning, "ForeignName", message)
		ctrl.LoggerFrom(ctx).Info("The server was named by somebody else", "server", name)
	}
	p.condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonChangedByOther, message)
}
