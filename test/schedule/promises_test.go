package schedule

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	simulated "github.com/macfleet/macfleet/sandbox/scaleway"
)

// grace is how old a fact may be that a manager acted on: it was read before the
// act, within one pass.
const grace = 5 * time.Second

// admit is what the API server makes of a write: what the schema refuses is
// refused, and of a manager it breaks a promise to try.
func (c *cluster) admit(before, after client.Object) error {
	s := c.sim
	if _, secret := after.(*corev1.Secret); secret {
		s.learnToken(after.(*corev1.Secret))
	} else {
		s.keepSecret(c.store.kind(after)+" "+after.GetName(), string(encode(after)))
	}
	var refusal string
	switch after := after.(type) {
	case *host.Host:
		was, _ := before.(*host.Host)
		refusal = refuseHost(was, after)
		if refusal == "" && s.current != nil {
			c.judgeHost(was, after)
		}
	case *infrav1.ScalewayAppleSiliconMachine:
		was, _ := before.(*infrav1.ScalewayAppleSiliconMachine)
		refusal = refuseMachine(was, after)
		if s.current == nil && was != nil && was.Spec.HostRef != nil && !reflect.DeepEqual(was.Spec.HostRef, after.Spec.HostRef) {
			c.forced[after.Name] = s.clock.Now() // a person took its Mac away from it
			c.departed[client.ObjectKeyFromObject(after)] = departure{was, s.clock.Now(), was.DeletionTimestamp != nil}
		}
		if refusal == "" && after.DeletionTimestamp != nil && len(after.Finalizers) == 0 {
			c.departed[client.ObjectKeyFromObject(after)] = departure{after, s.clock.Now(), was != nil && was.DeletionTimestamp != nil}
		}
	case *corev1.Node:
		if s.current != nil && before != nil && after.DeletionTimestamp != nil {
			c.judgeNode(after)
		}
	}
	if refusal == "" {
		return nil
	}
	if s.current != nil {
		s.violate("%s tried to write what the schema refuses: %s %s: %s", s.current.name, c.store.kind(after), after.GetName(), refusal)
	}
	return apierrors.NewBadRequest(refusal)
}

// refuseHost says which rule of the Host's schema a write breaks.
func refuseHost(was, now *host.Host) string {
	spec := now.Spec
	switch {
	case (spec.ServerID == "") == (spec.Order == nil):
		return "serverID or order"
	case spec.Release != nil && !host.WipeAllowed(now):
		return "release must carry the token of the claim it ends"
	case spec.Release != nil && spec.Release.Policy == infrav1.Recycle && spec.Release.PoolPrefix == "":
		return "a release to the pool names its poolPrefix"
	case was == nil:
		return ""
	case was.Spec.ServerID != spec.ServerID || was.Spec.Zone != spec.Zone:
		return "serverID and zone never change"
	case was.Spec.ClaimRef != nil && spec.ClaimRef != nil && (!host.SameClaim(*was.Spec.ClaimRef, *spec.ClaimRef) || was.Spec.ClaimRef.Cluster != spec.ClaimRef.Cluster):
		return "a claim is never changed into another"
	}
	required, before := spec.Record.Wipe.RequiredSince, was.Spec.Record.Wipe.RequiredSince
	if before != nil && (required == nil || required.Before(before)) {
		return "requiredSince neither goes nor moves back"
	}
	return ""
}

func refuseMachine(was, now *infrav1.ScalewayAppleSiliconMachine) string {
	switch {
	case was == nil || was.Spec.ProviderID == "":
		return ""
	case was.Spec.ProviderID != now.Spec.ProviderID:
		return "providerID is written once"
	case was.Spec.HostRef != nil && (now.Spec.HostRef == nil || *was.Spec.HostRef != *now.Spec.HostRef):
		return "hostRef is settled once providerID is"
	}
	return ""
}

// judgeHost checks a manager's write of a Host against the promises.
func (c *cluster) judgeHost(was, now *host.Host) {
	if was == nil {
		if now.Spec.ClaimRef != nil && now.Spec.Release == nil {
			c.judgeTitle(was, now)
		}
		return
	}
	if was.DeletionTimestamp == nil && now.DeletionTimestamp != nil && c.sim.serverExists(now.Spec.ServerID) {
		c.sim.violate("host %s is forgotten, and its server bills", now.Name)
	}
	if was.Spec.Reboot != nil && now.Spec.Reboot == nil && now.Spec.ClaimRef == nil {
		c.sim.unasked[now.Spec.ServerID] = c.sim.clock.Now()
	}
	if was.Spec.Release == nil && now.Spec.Release != nil {
		c.sim.releasedAt[now.Spec.ServerID] = c.sim.clock.Now()
		c.judgeRelease(was, now)
	}
	claimed, claims := was.Spec.ClaimRef, now.Spec.ClaimRef
	switch {
	case claimed == nil && claims != nil:
		c.judgeClaim(was, now)
	case claimed != nil && claims == nil && was.Spec.Release == nil:
		c.judgeDetach(was)
		if t := c.title(macOf(was)); t != nil {
			c.letGo(t)
		}
	case claimed != nil && claims == nil:
		c.revoke(macOf(was))
		wipe := now.Spec.Record.Wipe
		wiped := wipe.ObservedAt != nil && wipe.ObservedAt.After(wipe.RequiredSince.Time)
		if c.sim.serverExists(now.Spec.ServerID) && !wiped && !c.endsForAnother(was, now) {
			c.sim.violate("host %s was freed without an observed wipe", now.Name)
		}
	}
}

// endsForAnother: a claim that no Machine made ends without a wipe where somebody else has
// named the server. Until a wipe is seen the host is not clean, and judgeClaim holds
// everybody to that.
func (c *cluster) endsForAnother(was, now *host.Host) bool {
	id, claim := now.Spec.ServerID, was.Spec.ClaimRef
	server, exists := c.sim.vendor.Server(id)
	return claim.Namespace == host.NoNamespace && !host.Clean(now) && exists && (c.sim.named[id] || server.Name != claim.Name)
}

// judgeDetach: a claim ends without a wipe only for a Machine that is deleted, or
// where the server is gone or another's.
func (c *cluster) judgeDetach(was *host.Host) {
	t := c.sim.rightful(was.Spec.ServerID)
	server, exists := c.sim.vendor.Server(was.Spec.ServerID)
	if exists && !c.sim.named[server.ID] && t != nil && t.cluster == c && server.Name == t.machine.Name && !t.restored() {
		c.sim.violate("the claim of Machine %s on host %s is ended", t.machine, was.Name)
	}
}

func (c *cluster) judgeClaim(was, now *host.Host) {
	claim := now.Spec.ClaimRef
	if now.Spec.Release != nil {
		return // the sweep's or an adoption's: judged as a release
	}
	c.judgeTitle(was, now)
	if c.orderOf(claim.Token) != nil {
		return // it is what became of the order
	}
	m := c.claimant(claim)
	gone, went := c.departed[client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}]
	if m == nil && went && c.sim.clock.Since(gone.at) <= grace {
		return // it was read before it went; the host is stranded now
	}
	if m == nil {
		c.sim.violate("host %s was claimed with a token that no Machine holds", now.Name)
		return
	}
	server, exists := c.sim.vendor.Server(now.Spec.ServerID)
	again := exists && (server.Name == claim.Name || was.Status.Server.Name == claim.Name)
	if !again && !host.Clean(was) {
		c.sim.violate("host %s was claimed though it is not clean", now.Name)
	}
}

// judgeRelease: a Machine that is merely gone is no licence to wipe.
func (c *cluster) judgeRelease(was, now *host.Host) {
	s, release := c.sim, now.Spec.Release
	if disturbs(release) {
		c.judgeStorm(now)
	}
	t := c.title(macOf(now))
	var m *infrav1.ScalewayAppleSiliconMachine
	if t != nil && (t.token == release.Token || release.Origin == infrav1.OriginReclaim || release.Origin == infrav1.OriginAdoption) {
		m = t.owner()
		t.over = t.over || release.Policy != infrav1.Reinstall
	}
	if order := c.orderOf(release.Token); order != nil && order.Spec.Release != nil && order.Spec.Release.Policy == release.Policy {
		return // it goes along to what became of the order
	}
	if now.Spec.Order != nil && c.releasedAlike(release) {
		return // what became of the order went before it
	}
	switch release.Origin {
	case infrav1.OriginReclaim, infrav1.OriginAdoption:
		if m != nil {
			s.violate("host %s is released by %s though Machine %s holds it", now.Name, release.Origin, m.Name)
		}
		c.judgeSweep(now)
		return
	case infrav1.OriginRecovery:
		if m == nil && t != nil && t.token == release.Token && t.ended() {
			return // it went a moment ago
		}
		if m == nil || m.Spec.ProviderID != "" || m.DeletionTimestamp != nil {
			s.violate("host %s is released by recovery of no Machine that could be given another", now.Name)
		}
		return
	}
	if t == nil || t.token != release.Token || !t.ended() {
		s.violate("host %s is released, but no Machine that is being deleted holds it%s", now.Name, s.whoHas(t))
		return
	}
	if m == nil {
		return // it was being deleted until a moment ago
	}
	if _, moving := m.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moving {
		s.violate("host %s is released by a Machine that was moved", now.Name)
	}
	// A Machine in the tenant's namespace has no Cluster that could be paused.
	if m.Namespace == namespace && c.paused() && s.clock.Since(c.pausedAt) > grace {
		s.violate("host %s is released while its Cluster is paused", now.Name)
	}
}

// judgeSweep: what the sweep takes back, or a person adopts, is nobody's.
func (c *cluster) judgeSweep(now *host.Host) {
	s := c.sim
	server, exists := s.vendor.Server(now.Spec.ServerID)
	if !exists {
		return // deleted at the vendor since it was read: there is nothing to take
	}
	if c.machineNamed(server.Name) != nil {
		s.violate("host %s is taken back though there is a Machine of its name", now.Name)
	}
	if now.Spec.Release.Origin != infrav1.OriginReclaim {
		return
	}
	// Only the first namespace's Cluster is ever paused.
	if now.Spec.ClaimRef.Namespace != second && c.paused() && s.clock.Since(c.pausedAt) > grace {
		s.violate("host %s is taken back while its Cluster is paused", now.Name)
	}
	if c.reclaims == "" || !strings.HasPrefix(now.Status.Server.Name, c.reclaims) {
		s.violate("host %s is taken back though its server is named %s", now.Name, server.Name)
	}
}

func (s *sim) serverExists(id string) bool {
	_, exists := s.vendor.Server(id)
	return exists
}

// wish is what a request asks of a server.
type wish struct {
	Name             string `json:"name"`
	ScheduleDeletion bool   `json:"schedule_deletion"`
}

func (s *sim) wish(r *http.Request) (w wish) {
	if r.Body == nil || r.Body == http.NoBody {
		return w
	}
	text, err := io.ReadAll(r.Body)
	s.must(err)
	r.Body = io.NopCloser(bytes.NewReader(text))
	if len(text) > 0 {
		s.must(json.Unmarshal(text, &w))
	}
	return w
}

// licence checks a manager's right to change a server, at the moment it asks. It
// returns the name that the server is to bear.
func (s *sim) licence(m *manager, r *http.Request) string {
	path := lastPart(r.URL.Path)
	id, verb, _ := strings.Cut(strings.TrimPrefix(path, "servers/"), "/")
	asks := s.wish(r)
	if path == "servers" && !m.dead {
		m.cluster.licenceOrder(asks.Name)
	}
	if !strings.HasPrefix(path, "servers/") || m.dead {
		return asks.Name
	}
	h := m.cluster.hostOf(id)
	if last, known := m.cluster.lost[id]; h == nil && known && s.clock.Since(last.at) <= grace {
		h = last.host // the pass has read it before it went
	}
	if h == nil {
		s.violate("%s %s without a Host", r.Method, path)
		return asks.Name
	}
	m.judgeApart(h, actOf(r.Method, verb))
	s.licenceFor(h, r.Method, verb, asks)
	s.judgeAct(m.cluster, h, actOf(r.Method, verb), asks.Name)
	return asks.Name
}

// actOf is a request about a server in one word.
func actOf(method, verb string) string {
	switch {
	case verb != "":
		return verb
	case method == http.MethodPatch:
		return "rename"
	}
	return "delete"
}

// licenceOrder: a server is ordered for an order that stands, or that a person deleted since
// the pass has read it.
func (c *cluster) licenceOrder(name string) {
	is := func(h *host.Host) bool {
		return h.Spec.Order != nil && h.Spec.Order.Name == name && h.Spec.Release == nil && h.DeletionTimestamp == nil
	}
	stands := slices.ContainsFunc(c.hosts(), is)
	for _, last := range c.lost {
		stands = stands || is(last.host) && c.sim.clock.Since(last.at) <= grace
	}
	if !stands {
		c.sim.violate("a server %s is ordered, and no order of it stands", name)
	}
}

func (s *sim) licenceFor(h *host.Host, method, verb string, asks wish) {
	s.naming(h, method, verb, asks)
	release, wipe := h.Spec.Release, h.Spec.Record.Wipe
	switch {
	case verb == "reinstall":
		if !host.WipeAllowed(h) || wipe.RequestedAt == nil {
			s.violate("reinstall of %s without a release", h.Name)
		}
	case verb == "reboot":
		taken, was := s.unasked[h.Spec.ServerID]
		if h.Spec.Reboot == nil && !(was && s.clock.Since(taken) <= grace) {
			s.violate("reboot of %s without a request", h.Name)
		}
	case method == http.MethodDelete, asks.ScheduleDeletion:
		if !host.WipeAllowed(h) || release.Policy != infrav1.Terminate {
			s.violate("deletion of %s without a release", h.Name)
		}
	case asks.Name != "":
		s.licenceName(h, asks.Name)
	}
}

func (s *sim) licenceName(h *host.Host, name string) {
	claim, release := h.Spec.ClaimRef, h.Spec.Release
	justNow := s.clock.Since(s.releasedAt[h.Spec.ServerID]) <= grace // the pass has read it before
	wiped := release != nil && h.Spec.Record.Wipe.ObservedAt != nil
	switch {
	case claim != nil && name == claim.Name && (release == nil || justNow):
	case wiped && name == host.PoolName(release.PoolPrefix, h.Spec.ServerID):
	case release == nil && h.Spec.Adopt != nil && (h.Spec.Adopt.TrustDisk || !host.InPool(name, h.Spec.ServerID, poolPrefix)):
	default:
		s.violate("%s is named %s without a right to it", h.Name, name)
	}
}

// touched checks that a Mac which is written to is its Machine's: by its Host, by
// its server's name, and by what is on its disk.
func (s *sim) touched(c *cluster, m *mac, machine string) {
	t := c.title(m.id)
	if t != nil && t.forged {
		return // what the Mac has on its disk refuses it
	}
	if m.disk.owner != "" && m.disk.owner != c.name+"/"+machine {
		s.violate("Machine %s/%s came upon the disk of %s: shared or not wiped", c.name, machine, m.disk.owner)
	}
	if t != nil && !t.over && t.owner() != nil && t.machine.Name != machine {
		s.violate("Machine %s/%s wrote to the Mac of Machine %s", c.name, machine, t.machine)
	}
	h := c.hostOf(m.id)
	if h == nil || h.Spec.ClaimRef == nil || h.Spec.ClaimRef.Name != machine {
		return // Hosts may be lost; then the disk decides
	}
	server, _ := s.vendor.Server(m.id)
	if server.Name != machine && !s.named[m.id] && h.Spec.Release == nil {
		s.violate("Machine %s/%s wrote to a Mac whose server is named %s", c.name, machine, server.Name)
	}
}

// check compares the promises with the truth.
func (s *sim) check() {
	s.endTitles()
	names := map[string]bool{}
	for _, server := range s.vendor.Servers() {
		m := s.macs[server.ID]
		if strings.HasPrefix(server.Name, "a-") || strings.HasPrefix(server.Name, "b-") {
			if s.stranded(server.ID) || s.madeUp(server.ID) {
				continue
			}
			if whose := server.Name + s.whose(server.ID); !s.released(server.ID) && !s.redirected[server.Name] {
				if names[whose] {
					s.violate("two servers are named %s", server.Name)
				}
				names[whose] = true
			}
		}
		if m == nil {
			continue // not delivered
		}
		if strings.HasPrefix(server.Name, poolPrefix) && server.Status == simulated.StatusReady && m.disk.owner != "" {
			s.violate("server %s is in the pool with the disk of %s", server.Name, m.disk.owner)
		}
	}
	for _, c := range s.members {
		c.checkClaims()
	}
}

// released: the server bears the name of a Machine that gave it back, until it is
// wiped. That Machine may have another meanwhile.
func (s *sim) released(id string) bool {
	for _, c := range s.members {
		if h := c.hostOf(id); h != nil && h.Spec.Release != nil {
			return true
		}
	}
	return false
}

// whose is the cluster whose Machine has the server: a person can name Machines of
// two clusters alike.
func (s *sim) whose(id string) string {
	for _, t := range s.titles {
		if t.mac == id && !strings.HasPrefix(t.machine.Name, t.cluster.name+"-") {
			return " of " + t.cluster.name
		}
	}
	return ""
}

// stranded: a Machine had the server, and is gone, or was brought back from a time
// before it had it.
func (s *sim) stranded(id string) bool {
	server, _ := s.vendor.Server(id)
	found := false
	for _, t := range s.titles {
		if t.mac != id || t.machine.Name != server.Name {
			continue
		}
		if t.owner() != nil {
			return false
		}
		found = true
	}
	return found || s.abandoned[id] == server.Name
}

// madeUp: all that shows a claim on the server is a person's invention.
func (s *sim) madeUp(id string) bool {
	return slices.ContainsFunc(s.titles, func(t *title) bool { return t.mac == id && t.forged })
}

// checkClaims: no Machine holds two hosts with one token.
func (c *cluster) checkClaims() {
	holds := map[string]string{}
	for _, object := range c.store.tables[kindHost] {
		h := object.(*host.Host)
		if h.Spec.ClaimRef == nil || h.Spec.Order != nil {
			continue
		}
		claim := h.Spec.ClaimRef // a person can give one token to two Machines
		token := claim.Token + " of " + claim.Namespace + "/" + claim.Name
		if other := holds[token]; other != "" && h.Spec.Release == nil {
			c.sim.violate("hosts %s and %s are held with one token", h.Name, other)
		}
		holds[token] = h.Name
	}
}

// learnToken remembers what must not be told: the secret half of a bootstrap token.
func (s *sim) learnToken(secret *corev1.Secret) {
	if text := secret.Data["token-secret"]; len(text) > 0 {
		s.secrets = append(s.secrets, string(text))
	}
}

// keepSecret checks a text that people can read.
func (s *sim) keepSecret(where, text string) {
	for _, secret := range s.secrets {
		if strings.Contains(text, secret) {
			s.violate("a secret is told in %s", where)
			return
		}
	}
	if strings.Contains(text, "PRIVATE KEY") {
		s.violate("a private key is told in %s", where)
	}
}
