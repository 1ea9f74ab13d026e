package schedule

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// byHand is what people give as their reason.
const byHand = "by hand"

// userKeepsBack puts a host into maintenance or quarantine, or ends that.
func (s *sim) userKeepsBack(c *cluster) {
	h, found := pick(s, c.hosts())
	switch {
	case !found:
	case h.Spec.Maintenance != nil:
		c.edit(h, "ends the maintenance of", func() { h.Spec.Maintenance = nil })
	case h.Spec.Quarantine != nil:
		c.edit(h, "ends the quarantine of", func() { h.Spec.Quarantine = nil })
	case s.chance(50):
		c.edit(h, "keeps for maintenance", func() { h.Spec.Maintenance = &infrav1.Maintenance{Reason: byHand} })
	default:
		c.edit(h, "quarantines", func() {
			h.Spec.Quarantine = &infrav1.Quarantine{Reason: byHand}
			if s.chance(50) {
				h.Spec.Quarantine.Until = ptr.To(metav1.NewTime(s.clock.Now().Add(10 * time.Minute).Truncate(time.Second)))
			}
		})
	}
}

// giveBack ends what people keep back.
func (c *cluster) giveBack() {
	for _, h := range c.hosts() {
		if q := h.Spec.Quarantine; h.Spec.Maintenance != nil || q != nil && q.Reason == byHand {
			c.edit(h, "gives back", func() { h.Spec.Maintenance, h.Spec.Quarantine = nil, nil })
		}
	}
}

// userAdopts takes a host into the pool that is nobody's, whatever it is named:
// sometimes without a wipe, where its disk is clean.
func (s *sim) userAdopts(c *cluster) {
	h, found := pick(s, slices.DeleteFunc(c.hosts(), func(h *host.Host) bool { return !s.nobodys(h) }))
	if !found {
		return
	}
	server, _ := s.vendor.Server(h.Spec.ServerID)
	m := s.macs[h.Spec.ServerID]
	trust := m.disk.owner == "" && server.Status == "ready" && s.chance(50)
	what := map[bool]string{false: "adopts", true: "adopts, without a wipe,"}[trust]
	c.edit(h, what, func() { h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: poolPrefix, TrustDisk: trust} })
}

// nobodys: no Machine of any cluster bears the server's name, and none has a claim
// on it or lives on in a release.
func (s *sim) nobodys(h *host.Host) bool {
	id := h.Spec.ServerID
	server, exists := s.vendor.Server(id)
	if !exists || s.macs[id] == nil || strings.HasPrefix(server.Name, poolPrefix) {
		return false
	}
	for _, c := range s.members {
		if h := c.hostOf(id); h == nil || h.Spec.ClaimRef != nil || h.Spec.Record.HandedOverAt != nil {
			return false
		}
		for _, m := range c.infra() {
			if m.Name == server.Name {
				return false
			}
		}
	}
	return true
}

// userDeletesNode deletes a Node with kubectl. It does not come back by itself:
// that takes a health check, which nobody has here.
func (s *sim) userDeletesNode(c *cluster) {
	if node, found := pick(s, of[*corev1.Node](c.store, "Node")); found {
		s.note("user: deletes Node %s", node.Name)
		c.nodeless[node.Name] = true
		s.must(c.store.delete(node, nil))
	}
}

// actDeaf has a Mac's SSH hang for a while; its agent lives on.
func (s *sim) actDeaf(*cluster) {
	if m, found := pick(s, s.sortedMacs()); found {
		m.deafUntil = s.clock.Now().Add(s.between(time.Minute, 15*time.Minute))
		s.note("SSH to %s hangs", m.id)
	}
}
