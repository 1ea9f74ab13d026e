// Package servertype remembers what types of servers a vendor's zones have, so that the
// vendor is asked for facts that hardly change once an hour at most.
package servertype

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/memo"
)

// How soon the vendor is asked again for the types of a zone.
const (
	// AskAgain: the zone's types did not hold a type.
	AskAgain = time.Hour
	// Retry: they could not be read.
	Retry = 5 * time.Minute
	// asking is how long others wait for the one who asks.
	asking = 2 * time.Second
)

// Lister reads the types of a zone.
type Lister interface {
	ServerTypes(ctx context.Context, zone string) ([]cloud.ServerType, error)
}

// zoneTypes are the types of servers that a zone has.
type zoneTypes struct {
	byName map[string]cloud.ServerType
	// next is when the vendor may be asked again.
	next time.Time
	// unread: it was not told what the zone has, or is just being asked.
	unread bool
}

// Types of servers by zone. Its zero value knows none.
type Types struct{ zones memo.Memo[string, zoneTypes] }

// Find is what is known of a type of a zone, or nothing. Again, where it is not zero, is
// when to look again for what could not be read.
func (t *Types) Find(ctx context.Context, vendor Lister, zone, name string, now time.Time) (found cloud.ServerType, again time.Duration) {
	ask := false
	known := t.zones.Change(zone, func(z *zoneTypes) {
		if _, is := z.byName[name]; !is && !now.Before(z.next) { // one asks for all
			z.next, z.unread, ask = now.Add(asking), true, true
		}
	})
	found, is := known.byName[name]
	switch {
	case !ask && !is && known.unread:
		return found, known.next.Sub(now)
	case !ask:
		return found, 0
	}
	list, err := vendor.ServerTypes(ctx, zone)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("The types of servers cannot be read; what is known of chip, CPUs, memory and disk waits", "zone", zone, "error", err.Error())
		t.zones.Set(zone, zoneTypes{known.byName, now.Add(Retry), true})
		return found, Retry
	}
	byName := make(map[string]cloud.ServerType, len(list))
	for _, one := range list {
		byName[one.Name] = one
	}
	t.zones.Set(zone, zoneTypes{byName, now.Add(AskAgain), false})
	return byName[name], 0
}
