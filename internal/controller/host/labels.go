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

// askTypesAgain is how soon the vendor is asked again for the types of a zone
// that did not hold a server's type, or that could not be read.
const askTypesAgain = time.Hour

// kinds remembers what kinds of servers each zone has: facts that hardly change.
type kinds struct {
	mu    sync.Mutex
	zones map[string]zoneTypes
}

type zoneTypes struct {
	at     time.Time
	byName map[string]cloud.ServerType
}

// find returns a type; it asks at most once an hour for what it does not know.
// What cannot be known leaves out the labels that it would have made.
func (t *kinds) find(zone, name string, now time.Time, ask func() ([]cloud.ServerType, error)) (cloud.ServerType, bool) {
	t.mu.Lock()
	known := t.zones[zone]
	found, is := known.byName[name]
	if is || (!known.at.IsZero() && now.Sub(known.at) < askTypesAgain) {
		t.mu.Unlock()
		return found, is
	}
	if t.zones == nil {
		t.zones = map[string]zoneTypes{}
	}
	t.zones[zone] = zoneTypes{now, known.byName} // others don't ask meanwhile
	t.mu.Unlock()
	list, err := ask()
	if err != nil {
		return cloud.ServerType{}, false
	}
	byName := make(map[string]cloud.ServerType, len(list))
	for _, one := range list {
		byName[one.Name] = one
	}
	t.mu.Lock()
	t.zones[zone] = zoneTypes{now, byName}
	t.mu.Unlock()
	found, is = byName[name]
	return found, is
}

// label writes the facts about the Mac as labels, for the selectors of Machines.
func (p *pass) label(ctx context.Context) error {
	h := p.host
	if p.ended || p.seen.Gone || h.Spec.ServerID == "" || h.Status.Server.Type == "" || !h.DeletionTimestamp.IsZero() {
		return nil
	}
	facts, _ := p.kinds.find(h.Spec.Zone, h.Status.Server.Type, p.Clock.Now(), func() ([]cloud.ServerType, error) {
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
		return nil
	}
	return p.update(ctx, func(h *host.Host) {
		if h.Labels == nil {
			h.Labels = map[string]string{}
		}
		maps.Copy(h.Labels, want)
	})
}
