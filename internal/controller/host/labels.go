package host

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/memo"
)

// How soon the vendor is asked again for the types of a zone.
const (
	// askTypesAgain: the zone's types did not hold a server's type.
	askTypesAgain = time.Hour
	// retryTypes: they could not be read.
	retryTypes = 5 * time.Minute
)

// zoneTypes are the types of servers that a zone has: facts that hardly change.
type zoneTypes struct {
	byName map[string]cloud.ServerType
	// next is when the vendor may be asked again.
	next time.Time
	// unread: it was not told what the zone has, or is just being asked.
	unread bool
}

// labelling writes the facts about the Mac as labels, for the selectors of Machines.
type labelling struct {
	*vendor
	zones *memo.Memo[string, zoneTypes]
}

// reconcile returns when to look again for facts that could not be read, or zero.
func (p *labelling) reconcile(ctx context.Context) (again time.Duration, err error) {
	h := p.host
	if p.deleted || p.observed.Gone || h.Spec.ServerID == "" || h.Status.Server.Type == "" || !h.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	facts, again := p.serverType(ctx)
	want := host.Labels(h, facts)
	want[corev1.LabelTopologyZone] = h.Spec.Zone
	missing := maps.Clone(want)
	maps.DeleteFunc(missing, func(key, value string) bool { return h.Labels[key] == value })
	if len(missing) == 0 {
		return again, nil
	}
	return again, p.Update(ctx, func(h *host.Host) {
		if h.Labels == nil {
			h.Labels = map[string]string{}
		}
		maps.Copy(h.Labels, want)
	})
}

// serverType is what is known of the type of the host's server. What is not known
// leaves out the labels it would have made; again, where it is not zero, is when to
// look again.
func (p *labelling) serverType(ctx context.Context) (found cloud.ServerType, again time.Duration) {
	zone, name, now, ask := p.host.Spec.Zone, p.host.Status.Server.Type, p.now(), false
	known := p.zones.Change(zone, func(z *zoneTypes) {
		if _, is := z.byName[name]; !is && !now.Before(z.next) { // one asks for all
			z.next, z.unread, ask = now.Add(renameDeadline), true, true
		}
	})
	found, is := known.byName[name]
	switch {
	case !ask && !is && known.unread:
		return found, known.next.Sub(now)
	case !ask:
		return found, 0
	}
	list, err := p.Cloud.ServerTypes(ctx, zone)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("The types of servers cannot be read; labels of chip, memory and disk wait", "error", err.Error())
		p.zones.Set(zone, zoneTypes{known.byName, now.Add(retryTypes), true})
		return found, retryTypes
	}
	byName := make(map[string]cloud.ServerType, len(list))
	for _, one := range list {
		byName[one.Name] = one
	}
	p.zones.Set(zone, zoneTypes{byName, now.Add(askTypesAgain), false})
	return byName[name], 0
}
