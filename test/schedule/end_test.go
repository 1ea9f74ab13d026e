package schedule

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	simulated "github.com/macfleet/macfleet/sandbox/scaleway"
)

// infraServer is one more server of the operator's, fresh in the pool.
func infraServer(n int) simulated.ServerSpec {
	return simulated.ServerSpec{Name: poolPrefix + "new-" + strings.Repeat("x", n%7+1), Age: 48 * time.Hour}
}

// console is a person's call to the vendor.
func (s *sim) console(method, path, body string) {
	s.note("console: %s %s %s", method, path, body)
	r, err := http.NewRequestWithContext(context.Background(), method, "http://vendor/apple-silicon/v1alpha1/zones/"+zone+"/servers/"+path, strings.NewReader(body))
	s.must(err)
	r.Header.Set("X-Auth-Token", simulated.DefaultSecretKey)
	answer, err := s.vendor.RoundTripper().RoundTrip(r)
	s.must(err)
	s.must(answer.Body.Close())
}

// settle ends all faults and holds, and runs fair rounds until nothing changes.
func (s *sim) settle() {
	s.plan = quiet{}
	s.calm()
	s.note("from here on nothing fails")
	for _, c := range s.members {
		c.remakeCluster()
		if c.paused() {
			c.pause(c.object(), false)
		}
		c.giveBack()
		for _, m := range c.infra() {
			if _, paused := m.Annotations[clusterv1.PausedAnnotation]; paused && m.DeletionTimestamp == nil {
				c.edit(m, "unpauses", func() { delete(m.Annotations, clusterv1.PausedAnnotation) })
			}
		}
	}
	s.wait(20 * time.Second) // no leader overlap outlasts it
	s.rounds()
	if len(s.broken) == 0 && s.endTroubles() {
		s.rounds() // a reinstall that failed under way was given up to a person
	}
	if len(s.broken) == 0 && s.holdsDeadToken() {
		s.wait(tokenLife)
		s.rounds()
	}
}

// tokenLife is how long a bootstrap token can be used.
const tokenLife = time.Hour

// holdsDeadToken: a Mac that is set up has no Node, though the Machine's records
// say that it can join. Two managers set it up at once, and one of them died
// between revoking the token of the other and recording that. The Mac gets another
// token when the one it holds would have ended.
func (s *sim) holdsDeadToken() bool {
	for _, c := range s.members {
		for _, m := range c.infra() {
			if conditions.GetReason(m, infrav1.NodeReadyCondition) != infrav1.ReasonWaitingForNode || m.Spec.ProviderID == "" {
				continue
			}
			key := client.ObjectKey{Namespace: m.Namespace, Name: host.BootstrapSecretName(m.Name)}
			if secret, is := c.store.get("Secret", key).(*corev1.Secret); is && len(secret.Data[host.KeyTokenID]) > 0 {
				return true
			}
		}
	}
	return false
}

// Rounds end when nothing has changed for longer than anything takes: a wipe of the
// simulated vendor takes three minutes here, a back-off five, and ten go by before it
// is believed that many servers vanished at once (host.GoneAfterSuspicious). Twelve
// rounds are twelve minutes. The pauses become long only when nothing has changed for
// some rounds: whoever looks rarely misses what is seen for two minutes, a reboot.
const (
	mostRounds  = 150
	quietRounds = 12
)

// pauseAfter a round: how many there were before, and how many of them changed nothing.
func pauseAfter(rounds, still int) time.Duration {
	switch {
	case rounds%3 != 2:
		return 6 * time.Second
	case still < quietRounds/2:
		return 100 * time.Second
	}
	return 250 * time.Second
}

func (s *sim) rounds() {
	still := 0
	for n := range mostRounds {
		before := s.state()
		s.round()
		s.wait(pauseAfter(n, still))
		if still++; s.state() != before {
			still = 0
		}
		if still >= quietRounds || len(s.broken) > 0 {
			return
		}
	}
	s.violate("it never comes to rest")
}

// state is what must come to rest: who has what, and what was done to servers. A
// push that is tried again after all attempts are spent is no change.
func (s *sim) state() string {
	var state strings.Builder
	fmt.Fprint(&state, len(s.mutations))
	for _, c := range s.members {
		for _, object := range c.store.all(kindHost) {
			h := object.(*host.Host)
			fmt.Fprint(&state, h.Name, h.Status.Phase, h.Spec.ClaimRef, h.Spec.Release)
		}
		for _, object := range c.store.all(kindMachine) {
			m := object.(*infrav1.ScalewayAppleSiliconMachine)
			fmt.Fprint(&state, m.Name, m.DeletionTimestamp, m.Spec.ProviderID, m.Spec.HostRef, m.Status.Phase == "Running", min(m.Status.Bootstrap.Attempts, mostAttempts))
		}
		fmt.Fprint(&state, len(c.store.all("Node")), len(c.store.all("Machine")))
	}
	return state.String()
}

// round lets everybody have a turn.
func (s *sim) round() {
	s.step++
	for _, c := range s.members {
		for _, m := range c.active() {
			m.cache.sync()
			s.whole(m.pass("inventory", client.ObjectKey{}))
			for _, key := range c.keys(kindHost) {
				s.whole(m.pass("host", key))
			}
			m.cache.sync()
			for _, key := range c.keys(kindMachine) {
				s.whole(m.pass("machine", key))
			}
			for _, key := range c.keys("Node") {
				s.whole(m.pass("node", key))
			}
		}
	}
	s.finishAll()
	for _, m := range s.sortedMacs() {
		s.live(m)
	}
	for _, c := range s.members {
		c.core()
	}
	s.clean()
	s.check()
}

func (s *sim) whole(t *task) {
	if t == nil {
		return
	}
	s.step++
	before := len(s.history)
	s.note("%s", t.name)
	s.run(t, -1)
	if len(s.history) == before+1 {
		s.history = s.history[:before] // it did nothing
	}
}

// checkRest is what must be true once nothing changes any more.
func (s *sim) checkRest() {
	for _, c := range s.members {
		c.checkEnds()
		c.checkWaiting()
		c.checkHosts()
		c.checkNodes()
	}
}

// checkEnds: every deletion has ended, and no host is on its way. One that bears
// the name of a person or of another cluster is left to them.
func (c *cluster) checkEnds() {
	for _, kind := range []string{"Machine", kindMachine} {
		for _, object := range c.store.all(kind) {
			if object.GetDeletionTimestamp() != nil {
				c.sim.violate("%s %s is being deleted for ever: %s", kind, object.GetName(), encode(object))
			}
		}
	}
	for _, h := range c.hosts() {
		server, exists := c.sim.vendor.Server(h.Spec.ServerID)
		if h.Spec.Order != nil && h.Spec.Release == nil && h.DeletionTimestamp == nil {
			continue // it waits for stock
		}
		theirs := !strings.HasPrefix(server.Name, poolPrefix) && !strings.HasPrefix(server.Name, c.name+"-")
		if exists && (theirs || server.DeletionScheduled) {
			continue
		}
		if h.Spec.Release != nil || (h.DeletionTimestamp != nil && h.Spec.ClaimRef == nil) {
			c.sim.violate("the release of host %s never ends: %s", h.Name, encode(h))
		}
	}
}

// checkWaiting: no Machine waits while a host is free.
func (c *cluster) checkWaiting() {
	free := ""
	for _, h := range c.hosts() {
		if h.Status.Phase == infrav1.HostAvailable {
			free = h.Name
		}
	}
	for _, m := range c.infra() {
		if m.Spec.HostRef == nil && m.Spec.Acquisition != infrav1.Order && free != "" && c.ofThePool(m) {
			c.sim.violate("Machine %s waits though host %s is free: %s", m.Name, free, encode(m.Status))
		}
	}
}

// checkHosts: every server is an object, and every claim that is held is shown.
func (c *cluster) checkHosts() {
	for _, server := range c.sim.vendor.Servers() {
		h := c.hostOf(server.ID)
		if h == nil {
			c.sim.violate("server %s is billed and has no Host in %s", server.Name, c.name)
			continue
		}
		if h.Spec.ClaimRef == nil || h.Spec.Release != nil {
			continue
		}
		m := c.claimant(h.Spec.ClaimRef)
		if m == nil && h.Status.Phase != infrav1.HostStranded && h.Status.Phase != infrav1.HostHandedOver {
			c.sim.violate("host %s has no owner and is %s", h.Name, h.Status.Phase)
		}
		if m != nil && server.Name == m.Name && h.Status.Phase != infrav1.HostInUse {
			c.sim.violate("host %s of Machine %s is %s: %s", h.Name, m.Name, h.Status.Phase, encode(h.Status))
		}
	}
	for _, m := range c.infra() {
		c.checkRuns(m)
	}
}

// checkRuns: a Machine with a host has its Node.
func (c *cluster) checkRuns(m *infrav1.ScalewayAppleSiliconMachine) {
	if m.Spec.HostRef == nil {
		return
	}
	h, _ := c.store.get(kindHost, client.ObjectKey{Name: m.Spec.HostRef.Name}).(*host.Host)
	if h == nil {
		return
	}
	server, exists := c.sim.vendor.Server(h.Spec.ServerID)
	t := c.title(h.Spec.ServerID)
	if !exists || server.Name != m.Name || server.Status != simulated.StatusReady || t == nil || t.over || t.forged || t.owner() == nil || t.owner().UID != m.UID {
		return
	}
	if h.Spec.ClaimRef == nil && (c.doubted(m) || !c.proved(m, server.ID)) || c.twice(t) {
		return
	}
	if c.sim.redirected[m.Name] && conditions.GetReason(m, infrav1.ReadyCondition) == infrav1.ReasonProviderIDMismatch {
		return
	}
	if c.pinnedBefore(m, h) {
		return
	}
	if m.Status.Phase != "Running" && !spent(m) && !c.saysItRan(m) && !c.nodeless[m.Name] {
		c.sim.violate("Machine %s does not come to run: %s; host %s", m.Name, encode(m.Status), encode(h))
	}
}

// twice: the Machine had a Mac before this one, and a person took the reference to it
// away, or gave it to a namesake. That one bears the name, and so does its Node.
func (c *cluster) twice(t *title) bool {
	return slices.ContainsFunc(c.sim.titles, func(other *title) bool {
		same := other.machine == t.machine || other.forged && other.machine.Name == t.machine.Name
		return other.cluster == c && same && other.mac != t.mac && c.sim.serverExists(other.mac)
	})
}

// proved: the Machine has something left of the claim that the server's Host has lost. A
// person may have restored a hostRef of before, while its status is of the Mac since.
func (c *cluster) proved(m *infrav1.ScalewayAppleSiliconMachine, serverID string) bool {
	secret, _ := c.store.get("Secret", client.ObjectKey{Namespace: m.Namespace, Name: host.BootstrapSecretName(m.Name)}).(*corev1.Secret)
	staged := secret != nil && string(secret.Data[host.KeyClaimToken]) == m.Spec.HostRef.ClaimToken
	return staged || strings.HasSuffix(m.Spec.ProviderID, "/"+serverID) || m.Status.ServerID == serverID
}

// doubted: its Host was lost, and another Machine of its name, in another namespace,
// has as much to show for itself. Nobody touches the Mac before a person decides.
func (c *cluster) doubted(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return slices.ContainsFunc(c.infra(), func(other *infrav1.ScalewayAppleSiliconMachine) bool {
		return other.Name == m.Name && other.Namespace != m.Namespace && (other.Spec.HostRef != nil || other.Spec.ProviderID != "")
	})
}

// spent: its host came to nothing, and the storm guard holds back the next wipe.
func spent(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return m.Spec.ProviderID == "" && m.Status.Bootstrap.Attempts >= mostAttempts
}

// pinnedBefore: a person restored or copied the Secret of a Mac that was wiped since. Its host
// key is another one now, and whether it is the same Mac is for them to say.
func (c *cluster) pinnedBefore(m *infrav1.ScalewayAppleSiliconMachine, h *host.Host) bool {
	mac, pin := c.sim.macs[h.Spec.ServerID], h.Spec.Record.HostKey
	secret := client.ObjectKey{Namespace: m.Namespace, Name: host.BootstrapSecretName(m.Name)}
	return c.pinned[secret] && mac != nil && pin != nil &&
		pin.Epoch == h.Spec.Record.InstallEpoch && pin.SHA256 != mac.hostKey(mac.install)
}

// saysItRan: a person made up a Machine with a providerID, so that it never gets another
// Mac, and the one that it was given comes to nothing.
func (c *cluster) saysItRan(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return c.forged[client.ObjectKeyFromObject(m)] && m.Spec.ProviderID != "" && m.Status.Bootstrap.Attempts >= mostAttempts
}

// checkNodes: a Node is that of a Machine with its Mac. Where a Machine was forced
// away nobody may judge its Mac.
func (c *cluster) checkNodes() {
	for _, node := range of[*corev1.Node](c.store, "Node") {
		if c.sim.weather.person && c.copied(node) {
			continue
		}
		c.checkNode(node)
		held := false
		for _, m := range c.infra() {
			held = held || m.Name == node.Name && m.Spec.HostRef != nil
		}
		if _, forced := c.forced[node.Name]; !held && !forced {
			c.sim.violate("Node %s has no Machine: its Mac has left", node.Name)
		}
	}
}

// copied: a person's Machine still means the Mac of the Node, so that nothing tells
// for certain that it left.
func (c *cluster) copied(node *corev1.Node) bool {
	id := node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
	return slices.ContainsFunc(c.infra(), func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		return m.Spec.ProviderID == node.Spec.ProviderID || m.Name == node.Name || strings.HasSuffix(hostName(m), id)
	})
}

// checkNode: a Mac that was let go has no Node. Where a person deleted the Host,
// nothing tells any more that it was.
func (c *cluster) checkNode(node *corev1.Node) {
	for _, h := range c.hosts() {
		_, lost := c.lost[h.Spec.ServerID]
		if lost || host.ProviderID(h.Spec.Zone, h.Spec.ServerID) != node.Spec.ProviderID {
			continue
		}
		letGo := h.Spec.ClaimRef == nil && h.Spec.Record.HandedOverAt == nil || host.Ending(h)
		if letGo {
			c.sim.violate("host %s was let go, and Node %s bears its providerID: %s", h.Name, node.Name, encode(h))
		}
	}
}

// loseEverything is promise 8: without status, and without Hosts, the world is
// found again, and nothing is done to a server. Only a Machine that had no Mac
// may get one meanwhile, and one whose Mac came to nothing may give that back. Where a
// person made up all that shows a claim on a Mac whose own Machine is gone, a Host that
// forgets tells no more whose it was: its Machine gets the Mac, as docs/promises.md says,
// finds another's disk, and has it wiped.
func (s *sim) loseEverything() {
	s.note("from here on no server may be changed")
	for _, lose := range []func(*cluster){(*cluster).loseStatus, (*cluster).loseHosts} {
		before, running, useless := len(s.mutations), s.running(), s.useless()
		for _, c := range s.members {
			lose(c)
		}
		s.rounds()
		for _, m := range s.mutations[before:] {
			if (m.name == "" || running[m.name]) && !useless(m.what) && !m.invented {
				s.violate("cluster %s: %s, after records were lost", m.cluster, m.what)
			}
		}
		again := s.running()
		for _, name := range slices.Sorted(maps.Keys(running)) {
			if !again[name] {
				s.violate("Machine %s ran before records were lost, and does not after", name)
			}
		}
		if s.checkRest(); len(s.broken) > 0 {
			return
		}
	}
}

// useless reports that a change is one of a server whose bootstrap has failed too
// often, and that waits for the storm guard.
func (s *sim) useless() func(what string) bool {
	var ids []string
	for _, c := range s.members {
		for _, m := range c.infra() {
			if h, is := c.store.get(kindHost, client.ObjectKey{Name: hostName(m)}).(*host.Host); is && spent(m) {
				ids = append(ids, h.Spec.ServerID)
			}
		}
	}
	return func(what string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(what, id) })
	}
}

func hostName(m *infrav1.ScalewayAppleSiliconMachine) string {
	if m.Spec.HostRef == nil {
		return ""
	}
	return m.Spec.HostRef.Name
}

// running are the Machines that run, by name.
func (s *sim) running() map[string]bool {
	names := map[string]bool{}
	for _, c := range s.members {
		for _, m := range c.infra() {
			if m.Status.Phase == "Running" {
				names[m.Name] = true
			}
		}
	}
	return names
}
