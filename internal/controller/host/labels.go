package host

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/servertype"
)

// labelling writes the facts about the Mac as labels, for the selectors of Machines.
type labelling struct {
	*vendor
	types *servertype.Types
}

// reconcile returns when to look again for facts that could not be read, or zero.
func (p *labelling) reconcile(ctx context.Context) (again time.Duration, err error) {
	h := p.host
	if p.deleted || p.observed.Gone || h.Spec.ServerID == "" || h.Status.Server.Type == "" || !h.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	facts, again := p.types.Find(ctx, p.Cloud, h.Spec.Zone, h.Status.Server.Type, p.now())
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
