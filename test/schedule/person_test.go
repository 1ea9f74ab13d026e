package schedule

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	simulated "github.com/macfleet/macfleet/sandbox/scaleway"
)

// A person is a cluster administrator with kubectl, whom no policy stops: who
// copies, renames, backs up and restores objects, points Machines at hosts, and
// takes Hosts, Secrets and Clusters away and brings them back. Whatever is written,
// no Machine that rightfully has a Mac may lose it by that.

// tenant is a namespace beside the fleet's, without a Cluster of its own.
const tenant = "tenant"

// mostMachines is how many a person leaves in a cluster: there are few Macs.
const mostMachines = 8

// actPerson is one act of the person.
func (s *sim) actPerson(c *cluster) {
	type habit struct {
		weight int
		do     func(*sim, *cluster)
	}
	habits := []habit{
		{14, (*sim).personCopies},
		{10, (*sim).personInvents},
		{10, (*sim).personBacksUp},
		{12, (*sim).personRestores},
		{8, (*sim).personForces},
		{6, (*sim).personRenames},
		{8, (*sim).personPointsElsewhere},
		{9, (*sim).personDeletesHosts},
		{7, (*sim).personRestoresHost},
		{7, (*sim).personDeletesSecret},
		{12, (*sim).personCleansUp},
		{5, (*sim).personRemakesCluster},
		{4, (*sim).userKeepsBack},
		{4, (*sim).userPauses},
	}
	total := 0
	for _, h := range habits {
		total += h.weight
	}
	roll := s.dice.IntN(total)
	for _, h := range habits {
		if roll -= h.weight; roll < 0 {
			h.do(s, c)
			return
		}
	}
}

// manifest is an object as it is after `kubectl get -o yaml`, ready to be applied
// again: what the API server gives it anew is taken off.
func manifest[T client.Object](object T) T {
	text := object.DeepCopyObject().(T)
	text.SetUID("")
	text.SetResourceVersion("")
	text.SetDeletionTimestamp(nil)
	text.SetManagedFields(nil)
	return text
}

// apply makes an object, or writes its spec over that of the one that is there. What
// the schema refuses is told, and no more.
func (c *cluster) apply(object client.Object) {
	kind, name := c.store.kind(object), object.GetNamespace()+"/"+object.GetName()
	if secret, is := object.(*corev1.Secret); is {
		c.pinned[client.ObjectKeyFromObject(secret)] = len(secret.Data[host.KeyHostKey]) > 0
	}
	found := c.store.get(kind, client.ObjectKeyFromObject(object))
	if found == nil {
		object.SetOwnerReferences(slices.DeleteFunc(object.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return !c.owned(object, r) }))
		c.sim.note("person: creates %s %s", kind, name)
		c.sim.refused(c.store.create(object))
		return
	}
	object.SetOwnerReferences(found.GetOwnerReferences())
	object.SetFinalizers(found.GetFinalizers())
	c.sim.note("person: applies %s %s over the one that is there", kind, name)
	c.sim.refused(c.store.update(object, false))
}

// owned: the owner that a reference names is there, in the object's namespace. Who
// leaves another reference in a manifest has the object collected at once.
func (c *cluster) owned(object client.Object, r metav1.OwnerReference) bool {
	owner := c.store.get(r.Kind, client.ObjectKey{Namespace: object.GetNamespace(), Name: r.Name})
	return owner != nil && owner.GetUID() == r.UID
}

// refused notes that the API server did not take what a person wrote.
func (s *sim) refused(err error) {
	if err != nil {
		s.note("  refused: %.120s", err)
	}
}

// personCopies does `kubectl get -o yaml | sed s/name/other/ | kubectl apply`.
func (s *sim) personCopies(c *cluster) {
	m, found := pick(s, c.infra())
	if !found || len(c.infra()) >= mostMachines {
		return
	}
	c.machines++
	name := fmt.Sprintf("%s-%dc", c.name, c.machines)
	where := namespace
	if s.chance(30) {
		where = tenant
		if s.chance(50) {
			name = m.Name
			c.forged[client.ObjectKey{Namespace: where, Name: name}] = true
		}
	}
	c.copyMachine(m, where, name)
}

// copyMachine makes a copy, with or without what the manager wrote into it, and
// sometimes with a Cluster API Machine and a Secret of its own.
func (c *cluster) copyMachine(m *infrav1.ScalewayAppleSiliconMachine, where, name string) {
	s := c.sim
	made := manifest(m)
	made.Namespace, made.Name = where, name
	if s.chance(50) {
		made.Spec.ProviderID = ""
	}
	if s.chance(15) {
		made.Spec.HostRef = nil
	}
	if s.chance(50) {
		made.Finalizers = nil
	}
	if where != m.Namespace || s.chance(50) {
		made.OwnerReferences = nil
	}
	if s.chance(30) {
		c.copySecret(m, made)
	}
	if s.chance(40) {
		made.OwnerReferences = c.ownerOf(where, name)
	}
	c.apply(made)
}

// ownerOf makes a Cluster API Machine, and returns the reference to it.
func (c *cluster) ownerOf(where, name string) []metav1.OwnerReference {
	if c.store.get("Machine", client.ObjectKey{Namespace: where, Name: name}) != nil {
		return nil
	}
	owner := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: where, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: c.name}, Finalizers: []string{coreHolds}},
		Spec: clusterv1.MachineSpec{
			ClusterName:       c.name,
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kindMachine, Name: name},
		},
	}
	c.sim.must(c.store.create(owner))
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: owner.UID, Controller: ptr.To(true)}}
}

// copySecret copies what is staged for a Machine to another.
func (c *cluster) copySecret(from, to *infrav1.ScalewayAppleSiliconMachine) {
	key := client.ObjectKey{Namespace: from.Namespace, Name: host.BootstrapSecretName(from.Name)}
	secret, is := c.store.get("Secret", key).(*corev1.Secret)
	if !is {
		return
	}
	made := manifest(secret)
	made.Namespace, made.Name, made.OwnerReferences = to.Namespace, host.BootstrapSecretName(to.Name), nil
	c.apply(made)
}

// personInvents makes a Machine that is named like a server, whosever that is, with
// a reference to it.
func (s *sim) personInvents(c *cluster) {
	server, found := pick(s, s.vendor.Servers())
	if !found || len(c.infra()) >= mostMachines {
		return
	}
	where := namespace
	if s.chance(30) {
		where = tenant
	}
	if c.store.get(kindMachine, client.ObjectKey{Namespace: where, Name: server.Name}) != nil {
		return
	}
	if s.ofAnother(c, server.Name) && !c.knowsName(server) {
		return
	}
	made := &infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: where, Name: server.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: c.name}},
		Spec: infrav1.ScalewayAppleSiliconMachineSpec{
			HostRef: &infrav1.HostReference{Name: zone + "-" + server.ID, ClaimToken: c.anyToken(server.ID)},
		},
	}
	if s.chance(50) && !s.ofAnother(c, server.Name) {
		made.OwnerReferences = c.ownerOf(where, server.Name)
	}
	c.forge(made, server.ID)
	c.apply(made)
}

// ofAnother: the name is one that another cluster gives. Names must differ in a
// vendor's project, so no Machine of it is given a Mac of the pool here.
func (s *sim) ofAnother(c *cluster, name string) bool {
	return slices.ContainsFunc(s.members, func(other *cluster) bool { return other != c && strings.HasPrefix(name, other.name+"-") })
}

// knowsName: the cluster has seen the server's name, and no list shows an older one.
// Before, a Mac that another cluster has just taken looks like one of the pool here:
// a namesake of its Machine would take it too, and neither could tell the other's
// name from its own.
func (c *cluster) knowsName(server simulated.Server) bool {
	h := c.hostOf(server.ID)
	at, renamed := c.sim.renamed[server.ID]
	return h != nil && h.Status.Server.Name == server.Name && (!renamed || c.sim.clock.Since(at) > mostLag+grace)
}

// forge makes up what an earlier claim would have left. All of it is told from the
// truth by nothing but what the rightful Machine has, so the Macs of another cluster,
// of which this one knows nothing, are not forged for: there only half of it is.
func (c *cluster) forge(m *infrav1.ScalewayAppleSiliconMachine, server string) {
	s := c.sim
	whole := !s.ofAnother(c, m.Name) && !slices.ContainsFunc(s.titles, func(t *title) bool { return t.mac == server && t.cluster != c })
	token := m.Spec.HostRef.ClaimToken
	switch s.dice.IntN(3) {
	case 0:
		if whole && !strings.HasPrefix(m.Name, poolPrefix) {
			m.Spec.ProviderID = infrav1.ProviderIDPrefix + zone + "/" + server
		}
	case 1:
		if !whole {
			token = "00000000-0000-4000-8000-ffffffffffff"
		}
		c.apply(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: host.BootstrapSecretName(m.Name)},
			Data:       map[string][]byte{host.KeyClaimToken: []byte(token), host.KeyInstallEpoch: []byte("1")},
		})
	default:
		return
	}
	c.forged[client.ObjectKeyFromObject(m)] = whole
}

// anyToken is the one of the claim on a server, which everybody may read, or one
// that is made up.
func (c *cluster) anyToken(server string) string {
	h := c.hostOf(server)
	if h != nil && h.Spec.ClaimRef != nil && c.sim.chance(50) {
		return h.Spec.ClaimRef.Token
	}
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", c.sim.dice.IntN(1000))
}

// personRenames copies a Machine under another name and deletes the first.
func (s *sim) personRenames(c *cluster) {
	m, found := pick(s, c.infra())
	if !found {
		return
	}
	c.machines++
	c.copyMachine(m, m.Namespace, fmt.Sprintf("%s-%dn", c.name, c.machines))
	if s.chance(50) {
		c.expunge(m)
		return
	}
	if now := c.store.get(kindMachine, client.ObjectKeyFromObject(m)); now != nil {
		c.deleteMachine(now)
	}
}

// personPointsElsewhere edits a Machine's references.
func (s *sim) personPointsElsewhere(c *cluster) {
	m, found := pick(s, c.infra())
	other, known := pick(s, c.hosts())
	if !found || !known {
		return
	}
	was := m.Spec.HostRef.DeepCopy()
	switch s.dice.IntN(4) {
	case 0:
		prefix, _ := pick(s, []string{"", poolPrefix, "other-pool-"})
		m.Spec.AdoptPoolPrefix = prefix
	case 1:
		m.Spec.HostRef = &infrav1.HostReference{Name: other.Name, ClaimToken: c.anyToken(other.Spec.ServerID)}
	case 2:
		if m.Spec.HostRef != nil {
			m.Spec.HostRef.ClaimToken = c.anyToken(other.Spec.ServerID)
		}
	default:
		m.Spec.HostRef = nil
	}
	if !equality.Semantic.DeepEqual(was, m.Spec.HostRef) {
		s.redirected[m.Name] = true
	}
	s.note("person: edits the references of Machine %s/%s", m.Namespace, m.Name)
	s.refused(c.store.update(m, false))
}

// personDeletesSecret deletes what is staged for a Machine, or a fleet's SSH key.
func (s *sim) personDeletesSecret(c *cluster) {
	secrets := slices.DeleteFunc(c.store.all("Secret"), func(o client.Object) bool { return o.GetNamespace() == metav1.NamespaceSystem })
	if secret, found := pick(s, secrets); found {
		s.note("person: deletes Secret %s/%s", secret.GetNamespace(), secret.GetName())
		s.must(c.store.delete(secret, nil))
	}
}

// personCleansUp deletes a Machine that nobody's Mac depends on.
func (s *sim) personCleansUp(c *cluster) {
	m, found := pick(s, slices.DeleteFunc(c.infra(), c.hasMac))
	if !found {
		return
	}
	if owner := c.store.get("Machine", client.ObjectKeyFromObject(m)); owner != nil && s.chance(60) {
		c.deleteMachine(owner)
		return
	}
	if s.chance(20) && m.Spec.HostRef != nil { // the recipe for detaching by hand
		c.edit(m, "pauses", func() { metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.PausedAnnotation, "") })
		m.Status.ServerID = ""
		s.must(c.store.update(m, true))
	}
	c.deleteMachine(m)
}

// hasMac: the Machine has a title.
func (c *cluster) hasMac(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return slices.ContainsFunc(c.sim.titles, func(t *title) bool {
		return t.cluster == c && t.machine == client.ObjectKeyFromObject(m) && t.means(m)
	})
}

// adopts does what core does for an infra machine that lost the reference to its
// owner.
func (c *cluster) adopts(m *clusterv1.Machine) {
	found, is := c.store.get(kindMachine, client.ObjectKeyFromObject(m)).(*infrav1.ScalewayAppleSiliconMachine)
	if !is || slices.ContainsFunc(found.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == m.UID }) {
		return
	}
	infra := found.DeepCopy()
	infra.OwnerReferences = append(slices.DeleteFunc(infra.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "Machine" }),
		metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.Name, UID: m.UID, Controller: ptr.To(true)})
	c.sim.must(c.store.update(infra, false))
}

// ofThePool: the Machine can take a Mac of the pool, for it has an owner, a Cluster
// and the pool's prefix.
func (c *cluster) ofThePool(m *infrav1.ScalewayAppleSiliconMachine) bool {
	owned := c.store.get("Machine", client.ObjectKeyFromObject(m)) != nil
	prefix := m.Spec.AdoptPoolPrefix
	return owned && slices.Contains(c.namespaces(), m.Namespace) && m.Spec.ProviderID == "" && (prefix == "" || prefix == poolPrefix) && !strings.HasPrefix(m.Name, poolPrefix)
}
