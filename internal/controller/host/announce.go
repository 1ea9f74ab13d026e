package host

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// The events of calls to the vendor.
const (
	eventAsked   = "VendorAsked"
	eventRefused = "VendorRefused"
	// eventUnanswered: nobody knows whether the call came through.
	eventUnanswered = "VendorUnanswered"
)

// announcing is the vendor as one Reconcile asks it: each call that is to change the host's
// server leaves an event on the Host with what was asked and how it ended. What comes of a
// call is for the next reading, and has events of its own. Readings leave none. A call that was
// taken is an event of its own each time.
type announcing struct {
	cloud.Cloud
	scope *scope
}

// told tells of one call. What was asked is part of the event's action, for of events with
// another note alone the API keeps the first: a refusal that comes again with each poll is
// counted, and another name is another event.
func (a announcing) told(call, asked, answer string, err error) {
	kind, reason := corev1.EventTypeNormal, eventAsked
	switch {
	case cloud.IsUnavailable(err):
		kind, reason, answer = corev1.EventTypeWarning, eventUnanswered, "it may have come through: "+cloud.Said(err)
	case err != nil:
		kind, reason, answer = corev1.EventTypeWarning, eventRefused, "refused: "+cloud.Said(err)
	}
	about := a.scope.host.DeepCopy()
	if err != nil { // what is refused is asked again; of two versions of an object no events are counted as one
		about.ResourceVersion = ""
	}
	a.scope.recorder.Eventf(about, nil, kind, reason, host.Bounded(call+" "+asked, host.MostAction), "%s", host.Bounded(asked+": "+answer, host.MostNote))
}

func (a announcing) RenameServer(ctx context.Context, zone, id, name string) error {
	err := a.Cloud.RenameServer(ctx, zone, id, name)
	a.told("RenameServer", fmt.Sprintf("name it %q", name), "taken", err)
	return err
}

func (a announcing) ReinstallServer(ctx context.Context, zone, id, osID string) error {
	err := a.Cloud.ReinstallServer(ctx, zone, id, osID)
	asked := "reinstall it with the default image of its type"
	if osID != "" {
		asked = "reinstall it with image " + osID
	}
	a.told("ReinstallServer", asked, "taken", err)
	return err
}

func (a announcing) DeleteServer(ctx context.Context, zone, id string) (bool, error) {
	scheduled, err := a.Cloud.DeleteServer(ctx, zone, id)
	answer := "taken"
	if scheduled {
		answer = "taken, for its billing floor"
	}
	a.told("DeleteServer", "delete it", answer, err)
	return scheduled, err
}

func (a announcing) CreateServer(ctx context.Context, zone string, order cloud.ServerOrder) (string, error) {
	id, err := a.Cloud.CreateServer(ctx, zone, order)
	a.told("CreateServer", fmt.Sprintf("make server %q of type %s", order.Name, order.Type), "taken: it is "+id, err)
	return id, err
}

func (a announcing) RebootServer(ctx context.Context, zone, id string) error {
	err := a.Cloud.RebootServer(ctx, zone, id)
	if err != nil && host.RebootTaken(err) {
		a.told("RebootServer", "reboot it", "none is needed: "+cloud.Said(err), nil)
		return err
	}
	a.told("RebootServer", "reboot it", "taken", err)
	return err
}
