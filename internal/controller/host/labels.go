package host

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// How soon the vendor is asked again for the types of a zone.
const (
	// askTypesAgain: the zone's types did not hold a server's type.
	askTypesAgain = time.Hour
	// retryTypes: they could not be read.
	retryTypes = 5 * time.Minute
)

// kinds remembers what kinds of servers each zone has: facts that hardly change.
type kinds struct {
	mu    sync.Mutex
	zones map[string]zoneKinds
}

type zoneKinds struct {
	byName map[string]cloud.ServerType
	// next is when the vendor may be asked again.
	next time.Time
	// unread: it was not told what the zone has, or is just being asked.
	unread bool
}

// find returns a type, as far as it is known. What is not known leaves out the
// labels it would have made; again, where it is not zero, is when to look again.
func (k *kinds) find(zone, name string, now time.Time, ask func() ([]cloud.ServerType, error)) (kind cloud.ServerType, again time.Duration) {
	k.mu.Lock()
	known := k.zones[zone]
	kind, is := known.byName[name]
	if is || now.Before(known.next) {
		k.mu.Unlock()
		if !is && known.unread {
			again = known.next.Sub(now)
		}
		return kind, again
	}
	k.keep(zone, zoneKinds{known.byName, now.Add(renameDeadline), true}) // one asks for all
	k.mu.Unlock()
	list, err := ask()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.keep(zone, zoneKinds{known.byName, now.Add(retryTypes), true})
		return kind, retryTypes
	}
	byName := make(map[string]cloud.ServerType, len(list))
	for _, one := range list {
		byName[one.Name] = one
	}
	k.keep(zone, zoneKinds{byName, now.Add(askTypesAgain), false})
	return byName[name], 0
}

func (k *kinds) keep(zone string, what zoneKinds) {
	if k.zones == nil {
		k.zones = map[string]zoneKinds{}
	}
	k.zones[zone] = what
}

// label writes the facts about the Mac as labels, for the selectors of Machines. It
// returns when to look again for facts that could not be read, or zero.
func (p *pass) label(ctx context.Context) (again time.Duration, err error) {
	h := p.host
	if p.ended || p.seen.Gone || h.Spec.ServerID == "" || h.Status.Server.Type == "" || !h.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	facts, again := p.kinds.find(h.Spec.Zone, h.Status.Server.Type, p.Clock.Now(), func() ([]cloud.ServerType, error) {
		list, err := p.Cloud.ServerTypes(ctx, h.Spec.Zone)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("The types of servers cannot be read; labels of chip, memory and disk wait", "error", err.Error())
		}
		return list, err
	})
	want := host.Labels(h, facts)
	want[corev1.LabelTopologyZone] = h.Spec.Zone
	missing := maps.Clone(want)
	maps.DeleteFunc(missing, func(key, value string) bool { return h.Labels[key] == value })
	if len(missing) == 0 {
		return again, nil
	}
	return again, p.update(ctx, func(h *host.Host) {
		if h.Labels == nil {
			h.Labels = map[string]string{}
		}
		maps.Copy(h.Labels, want)
	})
}
