package host

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/requeue"
)

// renameDeadline bounds a rename; Settle is longer, so that one which timed out
// has landed, or never will, when the name is read for good.
const renameDeadline = 2 * time.Second

// vendor is the vendor's server of the scope's host. Phases that ask the vendor embed
// it, and the scope with it.
type vendor struct {
	*scope
	*Options
	// Cloud is that of the Options, and leaves events of what it was asked.
	Cloud     cloud.Cloud
	inventory *Inventory
	firstSeen *firstSeen
	// readAt is when the last reading of this Reconcile was asked for.
	readAt time.Time
}

// observe takes over what the inventory saw since this object was written. What another
// manager has written since is newer: the older one would be written over it, and over that
// the newer one, as fast as events come, until the next list.
func (v *vendor) observe() {
	v.since(v.observed.Now)
	seen, known := v.reading()
	if !known {
		return
	}
	v.observed.Gone = seen.gone
	// A reading is as old as what showed the server last, also while newer lists lack it.
	newer := v.known.writtenByOthers(v.host, v.observed.Now).After(seen.at)
	if newer && (seen.missingSince.IsZero() || v.host.Status.MissingSince != nil) {
		return
	}
	if seen.missingSince.IsZero() {
		v.host.Status.MissingSince = nil
		v.host.Status.Server = serverStatus(seen.server)
		return
	}
	since := metav1.NewMicroTime(seen.missingSince.Truncate(time.Microsecond))
	v.host.Status.MissingSince = &since
}

// reading is the newest one that the inventory has of the server.
func (v *vendor) reading() (reading, bool) {
	return v.inventory.readings.newest(v.host.Spec.Zone, v.host.Spec.ServerID)
}

// since is when this manager first saw the times on the host's record.
func (v *vendor) since(now time.Time) host.FirstSeen { return v.firstSeen.note(v.host, now) }

// read asks the vendor for the server as it is now.
func (v *vendor) read(ctx context.Context) (cloud.Server, cloud.Credentials, error) {
	v.readAt = v.now()
	v.since(v.readAt) // the reading is newer than what is known before it
	server, credentials, err := v.Cloud.GetServer(ctx, v.host.Spec.Zone, v.host.Spec.ServerID)
	if err == nil {
		v.inventory.readings.put(server, v.readAt)
		v.host.Status.MissingSince = nil
		v.host.Status.Server = serverStatus(server)
	}
	return server, credentials, err
}

// tooOld: the reading that an act is decided by is so old that a rename of another
// manager, begun after it, may have been read back already as settled.
func (v *vendor) tooOld() bool {
	return v.now().Sub(v.readAt) > max(v.Settle-renameDeadline, v.Settle/2)
}

// Refused turns a vendor error into what the work queue should do: refusals that
// pass by themselves are polled, and everything else backs off. No single answer
// proves that a server is gone: it begins the next list now, and the lists decide.
func (v *vendor) Refused(ctx context.Context, err error) (ctrl.Result, error) {
	v.observed.Refusal = cloud.Said(err)
	switch {
	case cloud.IsNotFound(err):
		ctrl.LoggerFrom(ctx).Info("The vendor says that it has no such server; the next lists decide", "error", err.Error())
		v.inventory.ListNow()
		return ctrl.Result{RequeueAfter: v.InventoryInterval}, nil
	case cloud.IsTransient(err), cloud.IsLocked(err), cloud.IsThrottled(err):
		ctrl.LoggerFrom(ctx).V(1).Info("The vendor refused for now", "error", err.Error())
		return ctrl.Result{RequeueAfter: v.poll()}, nil
	}
	return ctrl.Result{}, err
}

// rename gives the server a name, and reads it back. What it returns when the name does
// not read back is when to look again.
func (v *vendor) rename(ctx context.Context, name string) (named bool, again ctrl.Result, err error) {
	if v.tooOld() {
		return false, ctrl.Result{RequeueAfter: requeue.Delay}, nil
	}
	if err := v.askName(ctx, name); err != nil {
		again, err = v.renameRefused(ctx, err)
		return false, again, err
	}
	server, _, err := v.read(ctx)
	switch {
	case err != nil:
		again, err = v.Refused(ctx, err)
		return false, again, err
	case server.Name != name:
		return false, ctrl.Result{RequeueAfter: v.poll()}, nil
	}
	return true, ctrl.Result{}, nil
}

func (v *vendor) askName(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, renameDeadline)
	defer cancel()
	return v.Cloud.RenameServer(ctx, v.host.Spec.Zone, v.host.Spec.ServerID, name)
}

// renameRefused waits: also a rename that failed may still land, and the next
// reading tells.
func (v *vendor) renameRefused(ctx context.Context, err error) (ctrl.Result, error) {
	v.observed.Refusal = cloud.Said(err)
	if v.host.Spec.Release == nil {
		v.condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonRenaming, host.Refused(v.observed.Refusal))
	}
	if cloud.IsUnavailable(err) {
		ctrl.LoggerFrom(ctx).Info("A rename did not come back; reading again", "error", err.Error())
		return ctrl.Result{RequeueAfter: v.poll()}, nil
	}
	return v.Refused(ctx, err)
}

// changedByOther leaves the host to whoever named its server.
func (v *vendor) changedByOther(ctx context.Context) {
	name := v.host.Status.Server.Name
	message := fmt.Sprintf("the server was named %q by somebody else", name)
	if v.reasonOf(infrav1.NameInSyncCondition) != infrav1.ReasonChangedByOther {
		v.event(corev1.EventTypeWarning, "ForeignName", message)
		ctrl.LoggerFrom(ctx).Info("The server was named by somebody else", "server", name)
	}
	v.condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonChangedByOther, message)
}

func serverStatus(s cloud.Server) infrav1.ServerStatus {
	out := infrav1.ServerStatus{
		Name: s.Name, Status: string(s.Status), Type: s.Type, Delivered: s.Delivered, OS: s.OSName, OSFamily: s.OSFamily,
		IP: s.IP, SSHUser: s.SSHUser, DeletionScheduled: s.DeletionScheduled, Commitment: s.Commitment,
	}
	if !s.DeletableAt.IsZero() {
		at := metav1.NewTime(s.DeletableAt.Truncate(time.Second)) // the API keeps no less
		out.DeletableAt = &at
	}
	return out
}
