package schedule

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// backup is what a person has kept of a Machine.
type backup struct {
	owner   *clusterv1.Machine
	machine *infrav1.ScalewayAppleSiliconMachine
	secret  *corev1.Secret
}

// keepBackups is how many are kept, the newest.
const keepBackups = 6

func (s *sim) personBacksUp(c *cluster) {
	for _, m := range c.infra() {
		c.backUp(m)
	}
	s.note("person: backs up %d Machines of %s", len(c.infra()), c.name)
}

func (c *cluster) backUp(m *infrav1.ScalewayAppleSiliconMachine) {
	if m.DeletionTimestamp != nil {
		return
	}
	b := backup{machine: manifest(m)}
	if owner, is := c.store.get("Machine", client.ObjectKeyFromObject(m)).(*clusterv1.Machine); is && owner.DeletionTimestamp == nil {
		b.owner = manifest(owner)
	}
	if secret, is := c.store.get("Secret", client.ObjectKey{Namespace: m.Namespace, Name: host.BootstrapSecretName(m.Name)}).(*corev1.Secret); is {
		b.secret = manifest(secret)
	}
	c.backups = append(c.backups, b)
	c.backups = c.backups[max(0, len(c.backups)-keepBackups):]
}

// personRestores brings one Machine back, or all, of any time, over what is there.
func (s *sim) personRestores(c *cluster) {
	if s.chance(30) {
		for _, b := range slices.Clone(c.backups) {
			c.restore(b)
		}
		return
	}
	if b, found := pick(s, c.backups); found {
		c.restore(b)
	}
}

// restore makes what is kept anew. Its owner is found again by Cluster API core.
func (c *cluster) restore(b backup) {
	s := c.sim
	if b.owner != nil {
		c.apply(manifest(b.owner))
	}
	m := manifest(b.machine)
	m.OwnerReferences = nil
	if owner := c.store.get("Machine", client.ObjectKeyFromObject(m)); owner != nil && b.owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.Name, UID: owner.GetUID(), Controller: ptr.To(true)}}
	}
	if s.chance(20) {
		m.UID = types.UID("of-another-life") // kept in the manifest: the API server refuses it while the other is there
	}
	if s.chance(30) {
		m.Finalizers = nil
	}
	c.apply(m)
	if b.secret != nil && s.chance(50) {
		secret := manifest(b.secret)
		secret.OwnerReferences = nil
		c.apply(secret)
	}
}

// personForces deletes a Machine past its finalizers, and mostly brings it back, at
// once or with a later act.
func (s *sim) personForces(c *cluster) {
	m, found := pick(s, c.infra())
	if !found {
		return
	}
	c.backUp(m)
	c.expunge(m)
	if n := len(c.backups); n > 0 && s.chance(60) {
		c.restore(c.backups[n-1])
	}
}

// expunge deletes a Machine and its owner past their finalizers.
func (c *cluster) expunge(m *infrav1.ScalewayAppleSiliconMachine) {
	s, key := c.sim, client.ObjectKeyFromObject(m)
	s.note("person: force-deletes Machine %s", key)
	c.forced[m.Name] = s.clock.Now()
	for _, kind := range []string{kindMachine, "Machine"} {
		found := c.store.get(kind, key)
		if found == nil {
			continue
		}
		object := found.DeepCopyObject().(client.Object)
		object.SetFinalizers(nil)
		s.must(c.store.update(object, false))
		s.must(client.IgnoreNotFound(c.store.delete(object, nil)))
	}
}

// personDeletesHosts deletes some Hosts; the inventory finds their servers again.
func (s *sim) personDeletesHosts(c *cluster) {
	for _, h := range c.hosts() {
		if s.chance(40) {
			c.loseHost(h)
		}
	}
}

func (c *cluster) loseHost(h *host.Host) {
	c.sim.note("person: deletes Host %s", h.Name)
	delete(c.disturbed, string(h.UID))
	c.lost[cmp.Or(h.Spec.ServerID, h.Name)] = lostHost{h, c.sim.clock.Now()}
	c.sim.must(c.store.delete(h.DeepCopy(), nil))
}

// personRestoresHost deletes a Host and makes it anew of its YAML, or of one from the
// time before anybody had it.
func (s *sim) personRestoresHost(c *cluster) {
	h, found := pick(s, c.hosts())
	if !found || h.DeletionTimestamp != nil {
		return
	}
	c.loseHost(h)
	if c.store.get(kindHost, client.ObjectKeyFromObject(h)) != nil {
		return // a finalizer holds it
	}
	made := manifest(h)
	if s.chance(30) && h.Spec.ServerID != "" {
		made.Spec = infrav1.ScalewayAppleSiliconHostSpec{ServerID: h.Spec.ServerID, Zone: h.Spec.Zone}
		if s.chance(50) {
			made.Spec.Maintenance = &infrav1.Maintenance{Reason: byHand}
		}
	}
	c.apply(made)
}

// personRemakesCluster deletes the Cluster alone, past its finalizers, and makes it
// anew, at once or later.
func (s *sim) personRemakesCluster(c *cluster) {
	object := c.object()
	if object == nil {
		c.remakeCluster()
		return
	}
	s.note("person: deletes Cluster %s and leaves what it had", c.name)
	c.kept = manifest(object)
	object.Finalizers = nil
	s.must(c.store.update(object, false))
	s.must(client.IgnoreNotFound(c.store.delete(object, nil)))
	if s.chance(60) {
		c.remakeCluster()
	}
}

// remakeCluster brings back a Cluster that a person deleted.
func (c *cluster) remakeCluster() {
	if c.object() != nil || c.kept == nil {
		return
	}
	object := manifest(c.kept)
	c.apply(object)
	c.pausedAt = time.Time{}
	if c.paused() {
		c.pausedAt = c.sim.clock.Now() // while there was no Cluster, nothing was paused
	}
	object = c.object()
	object.Status.Initialization.InfrastructureProvisioned = ptr.To(true) // core finds it so
	c.sim.must(c.store.update(object, true))
}
