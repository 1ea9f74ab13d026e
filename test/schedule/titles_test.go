package schedule

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// title is the right to a Mac. The test keeps it by itself: it begins with a claim
// that was true when it was made, and ends with the wipe, with a detachment or with
// the server. No manifest makes one, and no function of the product is asked: it is
// made of who wrote what when, of the vendor's names and of what is on the disks.
type title struct {
	cluster *cluster
	// mac is the server's id, or the name of the Host that orders one.
	mac     string
	machine client.ObjectKey
	token   string
	// over: the Mac was released, and is to be wiped for nobody.
	over bool
	// before is the title that a claim from an old reading of the pool came upon: when
	// that claim is given up, it holds as it did.
	before *title
	// detached: it was let go as it was. Where the Host forgets that, it can come back.
	detached bool
	// forged: a person made up or copied all that shows an earlier claim, of a Mac that
	// nobody had any more.
	forged bool
}

// title of a cluster's Machine to a Mac, or nil.
func (c *cluster) title(mac string) *title {
	for _, t := range c.sim.titles {
		if t.cluster == c && t.mac == mac {
			return t
		}
	}
	return nil
}

// macOf is what titles to a Host's Mac are kept under.
func macOf(h *host.Host) string {
	if h.Spec.ServerID != "" {
		return h.Spec.ServerID
	}
	return h.Name
}

// grant begins a title, in the place of one that came to nothing.
func (c *cluster) grant(h *host.Host) {
	claim := h.Spec.ClaimRef
	before := c.title(macOf(h))
	if server, _ := c.sim.vendor.Server(macOf(h)); before != nil && before.owner() == nil && server.Name == before.machine.Name {
		c.sim.abandoned[before.mac] = server.Name
	}
	if before != nil && c.sim.rightful(before.mac) != before {
		before = nil
	}
	c.revoke(macOf(h))
	c.sim.titles = append(c.sim.titles, &title{
		cluster: c, before: before, mac: macOf(h), machine: client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}, token: claim.Token,
	})
}

// letGo ends a title without a wipe.
func (c *cluster) letGo(t *title) {
	t.over, t.detached = true, true
	if t.before != nil {
		c.revoke(t.mac)
		c.sim.titles = append(c.sim.titles, t.before)
	}
}

// revoke ends a title.
func (c *cluster) revoke(mac string) {
	c.sim.titles = slices.DeleteFunc(c.sim.titles, func(t *title) bool { return t.cluster == c && t.mac == mac })
}

// endTitles ends those to orders that are no more. The title to a server outlives it:
// lists lag, and may show it yet.
func (s *sim) endTitles() {
	s.titles = slices.DeleteFunc(s.titles, func(t *title) bool {
		return strings.HasPrefix(t.mac, "order-") && t.cluster.store.get(kindHost, client.ObjectKey{Name: t.mac}) == nil
	})
}

// means reports that the Machine's reference is to this title, in both its parts.
// An order's becomes one to the server that was made of it.
func (t *title) means(m *infrav1.ScalewayAppleSiliconMachine) bool {
	ref := m.Spec.HostRef
	if ref == nil || ref.ClaimToken != t.token {
		return false
	}
	return ref.Name == t.mac || ref.Name == zone+"-"+t.mac || ref.Name == "order-"+m.Name
}

// owner is the Machine that has the title, as it is stored, or nil: also one that
// was made anew of a backup, in the same place and with the same reference.
func (t *title) owner() *infrav1.ScalewayAppleSiliconMachine {
	m, is := t.cluster.store.get(kindMachine, t.machine).(*infrav1.ScalewayAppleSiliconMachine)
	if !is || !t.means(m) {
		return nil
	}
	return m
}

// ended reports that the owner is being deleted, or was until a moment ago: what is
// written now may have been read before it went.
func (t *title) ended() bool {
	if m := t.owner(); m != nil && m.DeletionTimestamp != nil {
		return true
	}
	last, is := t.cluster.departed[t.machine]
	return is && last.machine.DeletionTimestamp != nil && t.means(last.machine) && t.cluster.sim.clock.Since(last.at) <= grace
}

// restored reports that a person made the owner anew a moment ago, of one that was being
// deleted: what is written now may have been decided for that one.
func (t *title) restored() bool {
	last, is := t.cluster.departed[t.machine]
	return is && last.deleting && t.means(last.machine) && t.cluster.sim.clock.Since(last.at) <= grace
}

// rightful is the title to a Mac whose owner lives, is not being deleted, and has
// its name on the server, or is about to have it there; nil: the Mac is nobody's,
// or of whoever named it.
func (s *sim) rightful(mac string) *title {
	server, exists := s.vendor.Server(mac)
	if !exists {
		return nil
	}
	var found *title
	for _, t := range s.titles {
		m := t.owner()
		if t.mac != mac || t.over || t.forged || m == nil || m.DeletionTimestamp != nil {
			continue
		}
		if server.Name == m.Name {
			return t
		}
		if strings.HasPrefix(server.Name, poolPrefix) && found == nil {
			found = t
		}
	}
	return found
}

// judgeTitle judges a manager's claim, and begins the title that it makes. A claim
// is true when its Machine has had the Mac all along, when the Mac comes from the
// pool, or when it was ordered for the Machine.
func (c *cluster) judgeTitle(was, now *host.Host) {
	s, claim := c.sim, now.Spec.ClaimRef
	machine := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}
	t := c.title(macOf(now))
	switch {
	case t != nil && !t.over && t.machine == machine:
		t.token = claim.Token // a person may have changed it, and this is its Mac all the same
		if was != nil && (was.Spec.Maintenance != nil || was.Spec.Quarantine != nil && was.Spec.Quarantine.Until == nil) && !c.fromPool(was) {
			s.violate("host %s, which people keep back, was claimed again", now.Name)
		}
		return
	case now.Spec.Order != nil:
	case c.orderTitle(machine, claim.Token):
	case was != nil && c.fromPool(was):
	case t != nil && t.detached && t.machine == machine && t.token == claim.Token && was != nil && was.Spec.Record.DetachedAt == nil:
	case c.forged[machine] && !s.proved(macOf(now)): // nobody is there who could tell better
		c.grant(now)
		c.title(macOf(now)).forged = true
		return
	default:
		s.violate("host %s was claimed for Machine %s, which never had it%s", now.Name, machine, s.whoHas(t))
		return
	}
	c.grant(now)
}

// proved: there is somebody who rightfully has the Mac, and can show something for it.
func (s *sim) proved(mac string) bool {
	t := s.rightful(mac)
	return t != nil && t.cluster.proved(t.owner(), t.mac)
}

// inventedFor: the server is, of all clusters, only of a Machine for which a person made
// up everything.
func (c *cluster) inventedFor(server string) bool {
	t := c.title(server)
	return t != nil && t.forged && c.sim.rightful(server) == nil
}

// orderTitle: the Machine has ordered a server with this token.
func (c *cluster) orderTitle(machine client.ObjectKey, token string) bool {
	t := c.title("order-" + machine.Name)
	return t != nil && t.machine == machine && t.token == token
}

// fromPool: the Mac is free to take, by its name at the vendor, or by the last
// reading of it: then the name tells in time that somebody else has it.
func (c *cluster) fromPool(was *host.Host) bool {
	server, exists := c.sim.vendor.Server(was.Spec.ServerID)
	return exists && strings.HasPrefix(server.Name, poolPrefix) || strings.HasPrefix(was.Status.Server.Name, poolPrefix)
}

func (s *sim) whoHas(t *title) string {
	if t == nil {
		return ""
	}
	return "; it is that of Machine " + t.machine.String()
}

// judgeAct judges a manager's request to the vendor by who has the Mac.
func (s *sim) judgeAct(c *cluster, h *host.Host, what, name string) {
	t := s.rightful(h.Spec.ServerID)
	if at, renamed := s.renamed[h.Spec.ServerID]; t == nil || renamed && s.clock.Since(at) <= grace {
		return // it may have been taken for what it was
	}
	reinstalls := h.Spec.Release != nil && h.Spec.Release.Policy == infrav1.Reinstall
	server, _ := s.vendor.Server(h.Spec.ServerID)
	switch {
	case t.cluster != c && server.Name != t.machine.Name: // clusters see each other by names alone
	case t.cluster == c && h.Spec.Release != nil && h.Spec.Release.Token == t.token && reinstalls:
	case what == "rename" && name == t.machine.Name:
	case what == "rename" && c != t.cluster && c.shows(h, name): // both took it from the pool at once
	case what == "reboot" && h.Spec.Reboot != nil && s.asked(h.Spec.Reboot.ID):
	case what == "reboot" && t.cluster == c && h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Token == t.token:
	case what == "reboot" && h.Spec.Reboot == nil: // judged by the request that was there
	default:
		s.violate("%s %s of %s, the Mac of Machine %s/%s", what, name, h.Name, t.cluster.name, t.machine)
	}
}

// shows: the name is that of the cluster's own, true claim.
func (c *cluster) shows(h *host.Host, name string) bool {
	t := c.title(macOf(h))
	return t != nil && t.owner() != nil && name == t.machine.Name
}

// asked: the reboot is a person's.
func (s *sim) asked(id string) bool { return strings.HasPrefix(id, "by-hand") }

// judgeNode judges the deletion of a Node: that of a Mac that is rightfully a
// Machine's stays, unless its own controller begins anew with it.
func (c *cluster) judgeNode(node *corev1.Node) {
	s := c.sim
	id := node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
	t := s.rightful(id)
	if t == nil || t.cluster != c || t.machine.Name != node.Name || c.retires(t.machine) || t.restored() {
		return
	}
	if s.current != nil && s.current.machine == t.machine && t.owner().Spec.ProviderID == "" {
		return
	}
	h := c.hostOf(id)
	if h != nil && h.Spec.Release != nil {
		return // its disk is wiped for the same Machine
	}
	if server, _ := s.vendor.Server(id); server.Name != node.Name && (h == nil || h.Spec.ClaimRef == nil) {
		return // another cluster wiped it and has put it into the pool, and nobody claims it here
	}
	s.violate("Node %s of the Mac of Machine %s is deleted", node.Name, t.machine)
}

// retires: the Machine is being deleted, or its Cluster is.
func (c *cluster) retires(machine client.ObjectKey) bool {
	if m := c.store.get("Machine", machine); m != nil && m.GetDeletionTimestamp() != nil {
		return true
	}
	object := c.object()
	return object != nil && object.DeletionTimestamp != nil
}
