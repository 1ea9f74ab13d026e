package act

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// Mac is a host with those that have it.
type Mac struct {
	// Host is nil where it was asked for by a Machine that has none, or whose host may not be seen.
	Host *infrav1.ScalewayAppleSiliconHost
	// Machine holds its claim; nil: none does.
	Machine *infrav1.ScalewayAppleSiliconMachine
	// Core is that Machine's, which people delete.
	Core *clusterv1.Machine
	// Cluster is that Machine's; nil: it is not to be seen.
	Cluster *clusterv1.Cluster
	// Pools are the prefixes that Machines and releases name.
	Pools []string
	// Guests are the Pods that run on it, [namespace/]name, and Hidden says why they cannot be
	// told.
	Guests []string
	Hidden string
	// Staying are those of the Guests that nothing waits for: their controller would put them back at once.
	Staying []string
	// Checks are the health checks that look at its Machine, where these were read, and
	// ChecksHidden says why they cannot be told.
	Checks       []clusterv1.MachineHealthCheck
	ChecksHidden string
	// Original is the host that its Machine names by a providerID and another has, where it was
	// asked for by that Machine. HostsHidden and CoreHidden say why that, and the Core, cannot be
	// told.
	Original                *infrav1.ScalewayAppleSiliconHost
	HostsHidden, CoreHidden string
}

// MacOf finds those that have a host.
func MacOf(s *snapshot.Snapshot, h *infrav1.ScalewayAppleSiliconHost) Mac {
	mac := Mac{Host: h}
	for i := range s.Machines {
		m := &s.Machines[i]
		if host.MeansClaim(h, m) {
			mac.Machine = m
		}
		mac.addPool(m.Spec.AdoptPoolPrefix)
	}
	for i := range s.Hosts {
		if release := s.Hosts[i].Spec.Release; release != nil {
			mac.addPool(release.PoolPrefix)
		}
		if s.Hosts[i].Status.Phase == infrav1.HostAvailable {
			prefix, found := strings.CutSuffix(s.Hosts[i].Status.Server.Name, s.Hosts[i].Spec.ServerID)
			if found {
				mac.addPool(prefix)
			}
		}
	}
	if mac.Machine != nil {
		mac.Core = coreOf(s, mac.Machine)
	}
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if m := mac.Machine; m != nil && c.Namespace == m.Namespace && c.Name == m.Labels[clusterv1.ClusterNameLabel] {
			mac.Cluster = c
		}
	}
	mac.addGuests(s)
	return mac
}

// addGuests finds the Pods on it.
func (m *Mac) addGuests(s *snapshot.Snapshot) {
	m.Guests, m.Hidden = show.Guests(s)[m.Node()], s.Lacks(snapshot.Pods)
	for i := range s.Pods {
		if p := &s.Pods[i]; slices.Contains(m.Guests, p.Namespace+"/"+p.Name) && workload.Stays(p) {
			m.Staying = append(m.Staying, p.Namespace+"/"+p.Name)
		}
	}
}

// Node is the name of the Node that it is, or was for its last owner; empty: it was none.
func (m Mac) Node() string {
	switch {
	case m.Host == nil && m.Machine != nil && m.Machine.Spec.HostRef != nil:
		return m.Machine.Name
	case m.Host == nil || m.Host.Spec.ClaimRef == nil:
		return ""
	}
	return m.Host.Spec.ClaimRef.Name
}

func (m *Mac) addPool(prefix string) {
	if prefix != "" && !slices.Contains(m.Pools, prefix) {
		m.Pools = append(m.Pools, prefix)
	}
}

func (m Mac) owner() string { return m.Machine.Namespace + "/" + m.Machine.Name }

// pool is the one that was named, or the only one that is known.
func (m Mac) pool(named string) (string, error) {
	switch {
	case named != "":
		return named, nil
	case len(m.Pools) == 1:
		return m.Pools[0], nil
	case len(m.Pools) == 0:
		return "", fmt.Errorf("no pool is known here: name one with --pool, such as tuist-pool-")
	}
	return "", fmt.Errorf("there are several pools: name one with --pool, of %s", strings.Join(m.Pools, ", "))
}

// Release records the release that a stranded host lacks, or gives up one that is being
// wiped.
type Release struct {
	Pool, OS  string
	Terminate bool
	Now       time.Time
}

// Plan is for a host that no Machine has any more.
func (r Release) Plan(m Mac) (Plan, error) {
	h := m.Host
	switch release := h.Spec.Release; {
	case release != nil && release.Policy == infrav1.Reinstall && m.Machine != nil:
		return Plan{}, fmt.Errorf("host %s is reinstalled for Machine %s, which keeps it. To take it away: macfleet host wipe %s", h.Name, m.owner(), h.Name)
	case release != nil && r.Terminate && release.Policy != infrav1.Terminate && host.ReleaseHeld(h):
		return Plan{}, fmt.Errorf("%w; or let it go as it is, NOT wiped: macfleet host detach %s", renamed(h, "wiped"), h.Name)
	case release != nil && r.Terminate && release.Policy != infrav1.Terminate:
		return terminated(h), nil
	case release != nil:
		return Plan{}, fmt.Errorf("host %s is being released already, recorded %s: macfleet explain host %s", h.Name, since(&release.RequestedAt), h.Name)
	case h.Spec.ClaimRef == nil && h.Status.Phase == infrav1.HostAvailable:
		return Plan{}, fmt.Errorf("host %s has no claim that could be released: it is Available, clean and free for the next Machine. To give it back to the vendor: macfleet host wipe %s --terminate", h.Name, h.Name)
	case h.Spec.ClaimRef == nil && host.Clean(h) && host.InPool(h.Status.Server.Name, h.Spec.ServerID, m.Pools...):
		return Plan{}, fmt.Errorf("host %s has no claim that could be released: it is %s, and no Machine had it since it was wiped, trusted or first seen. To give it back to the vendor: macfleet host wipe %s --terminate", h.Name, h.Status.Phase, h.Name)
	case h.Spec.ClaimRef == nil:
		return Plan{}, fmt.Errorf("host %s has no claim that could be released: it is %s. To wipe it: macfleet host wipe %s", h.Name, h.Status.Phase, h.Name)
	case m.Machine != nil:
		return Plan{}, fmt.Errorf("host %s is not stranded: Machine %s has it. To take it away: macfleet host wipe %s", h.Name, m.owner(), h.Name)
	case r.Terminate && r.Pool != "":
		return Plan{}, fmt.Errorf("host %s goes back to the vendor with --terminate, and to no pool: leave --pool out", h.Name)
	case h.Status.Phase != infrav1.HostStranded:
		return Plan{}, fmt.Errorf("host %s is %s and not Stranded: macfleet explain host %s", h.Name, h.Status.Phase, h.Name)
	case host.ChangedByOther(h):
		return Plan{}, renamed(h, "wiped")
	}
	return r.stranded(m)
}

// onceWiped is when a Mac goes back to the vendor, which waits for no end of a wipe.
const onceWiped = "when its wipe has begun, or is late or refused"

// terminated turns a release to the pool into one to the vendor.
func terminated(h *infrav1.ScalewayAppleSiliconHost) Plan {
	what := fmt.Sprintf("host %s, whose release was recorded %s, is given back to the vendor", h.Name, since(&h.Spec.Release.RequestedAt))
	var p Plan
	if host.WipeFailedTwice(h) {
		p.say("%s, and does not go back to the pool: its wipe came to nothing twice, so that happens at once or after one more try, perhaps NOT wiped", what)
	} else {
		p.say("%s %s, and does not go back to the pool", what, onceWiped)
	}
	p.patch(h, spec(map[string]any{"release": map[string]any{"policy": infrav1.Terminate}}))
	return p
}

// renamed: whoever names a claimed server has it, and nothing is done to what is theirs.
func renamed(h *infrav1.ScalewayAppleSiliconHost, done string) error {
	return fmt.Errorf("host %s would not be %s: somebody named its server %s at the vendor, and it is theirs until it is named %s again. Name it so in the vendor's console, then try again", h.Name, done, h.Status.Server.Name, h.Spec.ClaimRef.Name)
}

func (r Release) stranded(m Mac) (Plan, error) {
	h, claim := m.Host, m.Host.Spec.ClaimRef
	system := cmp.Or(r.OS, h.Status.Server.OSFamily)
	fields := map[string]any{"token": claim.Token, "policy": infrav1.Recycle, "requestedAt": r.Now.UTC().Format("2006-01-02T15:04:05.000000Z")}
	if system != "" {
		fields["osFamily"] = system
	}
	var p Plan
	p.say("host %s loses the claim of Machine %s/%s, which is gone", h.Name, claim.Namespace, claim.Name)
	p.end(m)
	if r.Terminate {
		fields["policy"] = infrav1.Terminate
		p.say("it is given back to the vendor, at its billing floor, %s", onceWiped)
	} else {
		pool, err := m.pool(r.Pool)
		if err != nil {
			return Plan{}, err
		}
		fields["poolPrefix"] = pool
		p.say("all that is on its disk is wiped, then it is Available in the pool %s, with macOS %s", pool, cmp.Or(system, "as the vendor's default is"))
	}
	p.patch(h, spec(map[string]any{"release": fields}))
	return p, nil
}

// Adopt takes a host into the pool.
type Adopt struct {
	Pool              string
	TrustDisk, Cancel bool
}

// Plan is for a host that nobody here has.
func (a Adopt) Plan(m Mac) (Plan, error) {
	h := m.Host
	var p Plan
	switch {
	case a.Cancel && h.Spec.Adopt == nil:
		return Plan{}, fmt.Errorf("host %s is not being adopted", h.Name)
	case a.Cancel:
		p.say("host %s is not adopted any more", h.Name)
		p.patch(h, spec(map[string]any{"adopt": nil}))
		return p, nil
	case m.Machine != nil:
		return Plan{}, fmt.Errorf("host %s is not free to be adopted: Machine %s has it", h.Name, m.owner())
	case h.Spec.Record.HandedOverAt != nil:
		return Plan{}, fmt.Errorf("host %s went to another management cluster. If that is gone for good, end the claim first: macfleet host detach %s", h.Name, h.Name)
	case h.Spec.Release != nil:
		return Plan{}, fmt.Errorf("host %s is being released already, recorded %s: macfleet explain host %s", h.Name, since(&h.Spec.Release.RequestedAt), h.Name)
	case h.Spec.ClaimRef != nil:
		return Plan{}, fmt.Errorf("host %s bears the claim of a Machine that is gone: macfleet host release %s", h.Name, h.Name)
	}
	pool, err := m.pool(a.Pool)
	if err != nil {
		return Plan{}, err
	}
	if h.Status.Phase == infrav1.HostAvailable && host.InPool(h.Status.Server.Name, h.Spec.ServerID, pool) {
		return Plan{}, fmt.Errorf("host %s is Available in the pool %s already", h.Name, pool)
	}
	// The manager drops such a wish: what keeps the host out of the pool is nothing on its disk.
	if !a.TrustDisk && host.Clean(h) && host.InPool(h.Status.Server.Name, h.Spec.ServerID, pool) {
		return Plan{}, fmt.Errorf("host %s is in the pool %s already, and no Machine had it since it was wiped, trusted or first seen: an adoption wipes nothing. It is %s: macfleet explain host %s", h.Name, pool, h.Status.Phase, h.Name)
	}
	// Each field is sent: an earlier wish to trust the disk must not outlive this one.
	fields := map[string]any{"poolPrefix": pool, "trustDisk": a.TrustDisk}
	p.say("host %s, whose server is named %s, joins the pool %s", h.Name, cmp.Or(h.Status.Server.Name, "nothing"), pool)
	if a.TrustDisk {
		p.say("it is only renamed and NOT wiped: you answer for what is on its disk")
	} else {
		p.say("all that is on its disk is wiped before")
	}
	if h.Spec.Maintenance != nil {
		p.say("that waits until its maintenance (%s) ends", h.Spec.Maintenance.Reason)
	}
	p.patch(h, spec(map[string]any{"adopt": fields}))
	return p, nil
}

// Wipe wipes a host, whoever has it.
type Wipe struct {
	Release
	// Token is for the claim of a host that nobody has, and that is given back.
	Token string
}

// Plan is the recipe for the phase that the host is in.
func (w Wipe) Plan(m Mac) (Plan, error) {
	h := m.Host
	switch {
	case m.Machine != nil && (w.Pool != "" || w.OS != ""):
		return Plan{}, fmt.Errorf("host %s goes back to the pool and with the macOS that Machine %s names: leave --pool and --os out", h.Name, m.owner())
	case m.Machine != nil && host.ChangedByOther(h):
		return Plan{}, fmt.Errorf("%w; or let it go as it is, Foreign and NOT wiped: macfleet host detach %s", renamed(h, "wiped"), h.Name)
	case m.Machine != nil:
		policy := infrav1.Recycle
		if w.Terminate {
			policy = infrav1.Terminate
		}
		return deleteMachine(m, policy)
	case h.Spec.ClaimRef != nil || h.Spec.Release != nil:
		return w.Release.Plan(m)
	case w.Terminate:
		return w.giveBack(m)
	case h.Status.Phase == infrav1.HostAvailable && w.Pool == "":
		return Plan{}, fmt.Errorf("host %s is clean and Available: nothing is to be wiped", h.Name)
	case w.OS != "":
		return Plan{}, fmt.Errorf("host %s is wiped to the macOS that it has: leave --os out", h.Name)
	}
	return Adopt{Pool: w.Pool}.Plan(m)
}

// deleteMachine deletes the Machine that has the host, with this policy in place of its
// own. The policy is written first, and under the lock: a Machine that has another Mac by
// then is not deleted.
func deleteMachine(m Mac, policy infrav1.ReleasePolicy) (Plan, error) {
	if m.Core == nil {
		return Plan{}, fmt.Errorf("the Cluster API Machine of %s is not to be seen: delete it with kubectl", m.owner())
	}
	var p Plan
	p.patch(m.Machine, annotation(infrav1.ReleasePolicyAnnotation, strings.ToLower(string(policy))))
	p.say("Machine %s is deleted: its Pods are drained, and its Node goes", m.owner())
	p.end(m)
	if owner := metav1.GetControllerOf(m.Core); owner != nil {
		p.say("%s %s replaces it, with another Mac", owner.Kind, owner.Name)
	}
	what := "host " + m.Host.Name
	if m.Host.Spec.Order != nil {
		p.say("%s is an order, of which no server came yet: it is cancelled", what)
		what = "a server that comes of it all the same"
	}
	switch policy {
	case infrav1.Terminate:
		p.say("%s is given back to the vendor, at its billing floor, %s", what, onceWiped)
	case infrav1.Detach:
		p.say("%s is let go as it is: NOT wiped, Foreign, and to be adopted before anybody has it again", what)
	default:
		p.say("%s is wiped and goes back to the pool, which takes 15 to 20 minutes", what)
	}
	p.waitForCluster(m)
	p.delete(m.Core)
	return p, nil
}

// waitForCluster says what holds a deletion up, and shows nowhere once it is recorded.
func (p *Plan) waitForCluster(m Mac) {
	if c := m.Cluster; c != nil && ptr.Deref(c.Spec.Paused, false) {
		p.say("that waits while its Cluster %s/%s is paused, and begins as soon as it is resumed", c.Namespace, c.Name)
	}
}

// Detach lets a host go without a wipe.
type Detach struct {
	// Elsewhere: somebody else has the Mac; neither it nor the vendor is touched.
	Elsewhere bool
}

// Plan is for a host that a Machine has, that went to another management cluster, or whose
// release is held because its server is somebody else's.
func (d Detach) Plan(m Mac) (Plan, error) {
	h := m.Host
	switch {
	case h.Spec.Record.HandedOverAt != nil && m.Machine != nil:
		return Plan{}, fmt.Errorf("host %s was handed over, and Machine %s is here: it is being moved back", h.Name, m.owner())
	case h.Spec.Record.HandedOverAt != nil:
		var p Plan
		p.say("the claim of host %s ends here, without a wipe; it went to another management cluster %s", h.Name, since(h.Spec.Record.HandedOverAt))
		p.say("it is Foreign then, and can be adopted: do this only if that cluster is gone for good")
		p.patch(h, spec(map[string]any{"claimRef": nil, "record": map[string]any{"handedOverAt": nil}}))
		return p, nil
	case m.Machine == nil && host.ReleaseHeld(h):
		var p Plan
		p.say("the claim and the release of host %s end here, without a wipe: somebody named its server %q", h.Name, h.Status.Server.Name)
		p.patch(h, spec(map[string]any{"claimRef": nil, "release": nil}))
		return p, nil
	case m.Machine == nil:
		return Plan{}, fmt.Errorf("no Machine has host %s: it is %s", h.Name, h.Status.Phase)
	case h.Spec.Order != nil:
		return Plan{}, fmt.Errorf("host %s is an order, of which no server came yet: there is nothing to let go. To cancel it: macfleet host wipe %s --terminate", h.Name, h.Name)
	case d.Elsewhere:
		return takeOff(m)
	}
	return deleteMachine(m, infrav1.Detach)
}

// takeOff takes a Machine off a Mac that somebody else has: pause, forget, delete.
func takeOff(m Mac) (Plan, error) {
	if m.Core == nil {
		return Plan{}, fmt.Errorf("the Cluster API Machine of %s is not to be seen: delete it with kubectl", m.owner())
	}
	var p Plan
	p.say("Machine %s is paused, loses its server's id, and is deleted: its Pods are drained and its Node goes", m.owner())
	p.end(m)
	p.say("host %s and its server are not touched: it is Foreign, or its other owner's", m.Host.Name)
	p.patch(m.Machine, annotation(clusterv1.PausedAnnotation, "true"))
	p.Steps = append(p.Steps, Step{Object: m.Machine, Patch: map[string]any{"status": map[string]any{"serverID": nil}}, Status: true})
	p.waitForCluster(m)
	p.delete(m.Core)
	return p, nil
}
