package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	simulated "github.com/macfleet/macfleet/sandbox/scaleway"
)

// wild is the plan of a schedule: any call may fail, in any way.
type wild struct{ s *sim }

func (w wild) next(call operation) fault {
	if call.orders() && w.s.weather.lostOrders > 0 && w.s.chance(w.s.weather.lostOrders) {
		return []fault{failAfter, landLate, dieAfter}[w.s.dice.IntN(3)]
	}
	switch roll := w.s.dice.IntN(1000); {
	case roll < 12:
		return failBefore
	case !call.effect() && roll < 16:
		return dieBefore
	case !call.effect():
		return fine
	case roll < 24:
		return failAfter
	case roll < 31:
		return dieBefore
	case roll < 38:
		return dieAfter
	case roll < 50 && call.verb == "PATCH":
		return landLate
	}
	return fine
}

// act is one thing that may happen next, as often as its weight says.
type act struct {
	weight int
	do     func(*sim, *cluster)
}

func acts() []act {
	return []act{
		{26, (*sim).actHost},
		{26, (*sim).actMachine},
		{24, (*sim).actResume},
		{14, (*sim).actEvents},
		{6, (*sim).actInventory},
		{4, (*sim).actNode},
		{3, (*sim).actSweep},
		{9, (*sim).actRound},
		{12, func(s *sim, _ *cluster) { s.wait(s.between(100*time.Millisecond, time.Second)) }},
		{10, func(s *sim, _ *cluster) { s.wait(s.between(time.Second, 10*time.Second)) }},
		{5, func(s *sim, _ *cluster) { s.wait(s.between(10*time.Second, 80*time.Second)) }},
		{8, (*sim).actAgent},
		{12, func(_ *sim, c *cluster) { c.core() }},
		{7, (*sim).actUser},
		{1, (*sim).actLead},
	}
}

// next is one step of the history.
func (s *sim) next() {
	s.step++
	c, _ := pick(s, s.members)
	all := acts()
	if !s.seams.fair {
		all = append(all, act{1, (*sim).actDeaf})
	}
	if s.weather.person {
		all = append(all, act{6, (*sim).actPerson})
	}
	if s.harsh {
		all = append(all, troubles()...)
	}
	total := 0
	for _, a := range all {
		total += a.weight
	}
	roll := s.dice.IntN(total)
	for _, a := range all {
		if roll -= a.weight; roll < 0 {
			a.do(s, c)
			break
		}
	}
	s.clean()
	s.check()
}

func (s *sim) actHost(c *cluster) { s.actOn(c, "host", kindHost) }

func (s *sim) actMachine(c *cluster) { s.actOn(c, "machine", kindMachine) }

func (s *sim) actNode(c *cluster) { s.actOn(c, "node", "Node") }

func (s *sim) actOn(c *cluster, controller, kind string) {
	m, led := pick(s, c.active())
	key, found := pick(s, c.keys(kind))
	if led && found {
		s.begin(m.pass(controller, key), 40)
	}
}

func (s *sim) actInventory(c *cluster) {
	if m, led := pick(s, c.active()); led {
		s.begin(m.pass("inventory", client.ObjectKey{}), 20)
	}
}

func (s *sim) actSweep(c *cluster) {
	if m, led := pick(s, c.active()); led {
		s.begin(m.pass("sweep", client.ObjectKey{}), 30)
	}
}

// actRound lets a leader look at everything once, as after it has started. Any
// call can fail in it as in the passes that chance picks.
func (s *sim) actRound(c *cluster) {
	m, led := pick(s, c.active())
	if !led {
		return
	}
	m.cache.sync()
	s.begin(m.pass("inventory", client.ObjectKey{}), 10)
	for _, key := range c.keys(kindHost) {
		s.passOf(c, "host", key)
	}
	for _, key := range c.keys(kindMachine) {
		s.passOf(c, "machine", key)
	}
	s.wait(s.between(time.Second, 8*time.Second))
}

// passOf is a pass of whoever leads now, and the jobs that it began.
func (s *sim) passOf(c *cluster, controller string, key types.NamespacedName) {
	s.step++
	m, led := pick(s, c.active())
	if !led {
		return
	}
	if s.chance(80) {
		m.cache.sync()
	}
	s.begin(m.pass(controller, key), 10)
	for _, t := range slices.Clone(s.tasks) {
		if t.manager == m && !t.started && s.chance(60) {
			s.run(t, -1)
		}
	}
	s.clean()
	s.check()
}

// actResume goes on with what waits, or begins a job.
func (s *sim) actResume(*cluster) {
	t, found := pick(s, s.tasks)
	if !found {
		return
	}
	turns := -1
	if s.chance(40) {
		turns = 1 + s.dice.IntN(6)
	}
	s.note("%s goes on", t.name)
	s.run(t, turns)
}

// actEvents has a manager see some of what has happened.
func (s *sim) actEvents(c *cluster) {
	m, led := pick(s, c.active())
	if !led {
		return
	}
	if s.chance(60) {
		m.cache.sync()
		return
	}
	kind, _ := pick(s, []string{kindHost, kindMachine, "Cluster", "Machine", "Node"})
	m.cache.deliver(kind, 1+s.dice.IntN(3))
}

func (s *sim) actAgent(*cluster) {
	if m, found := pick(s, s.sortedMacs()); found {
		s.live(m)
	}
}

// actLead lets the other manager lead; the old one does not know for a while.
func (s *sim) actLead(c *cluster) {
	if c.leads[0] && c.leads[1] {
		return
	}
	c.leads = [2]bool{true, true}
	c.overlapEnds = s.clock.Now().Add(s.between(time.Second, 15*time.Second))
	s.note("two managers lead %s", c.name)
}

// personActs is how many in all the weights of actUser are.
func (s *sim) personActs() int {
	if s.seams.fair {
		return 100
	}
	return 110
}

// actUser is a person's act.
func (s *sim) actUser(c *cluster) {
	switch roll := s.dice.IntN(s.personActs()); {
	case roll < 45:
		if len(c.store.all("Machine")) < 4 {
			c.newMachine(s.anyClass())
		}
	case roll < 65:
		s.userDeletes(c)
	case roll < 75:
		s.userPauses(c)
	case roll < 78:
		s.userPausesCluster(c)
	case roll < 88:
		s.userInConsole()
	case roll < 92:
		s.userLosesStatus(c)
	case roll < 95:
		s.userLosesHosts(c)
	case roll < 97:
		s.userForces(c)
	case roll < 99:
		s.userEditsHost(c)
	case roll < 100:
		s.wait(s.between(10*time.Minute, 20*time.Minute))
	case roll < 104:
		s.userKeepsBack(c)
	case roll < 108:
		s.userDeletesNode(c)
	default:
		s.userEditsHost(c)
	}
}

// userEditsHost asks for a reboot, or takes a foreign host into the pool.
func (s *sim) userEditsHost(c *cluster) {
	if !s.seams.fair && s.chance(40) {
		s.userAdopts(c)
		return
	}
	h, found := pick(s, c.hosts())
	switch {
	case !found || h.Spec.ServerID == "" || h.Spec.Reboot != nil:
	default:
		c.edit(h, "reboots", func() {
			h.Spec.Reboot = &infrav1.RebootRequest{ID: fmt.Sprintf("by-hand-%d", s.step), Reason: "by hand", Force: s.chance(50)}
		})
	}
}

func (s *sim) userDeletes(c *cluster) {
	machines := c.store.all("Machine")
	if s.chance(15) {
		machines = c.store.all(kindMachine) // the infra machine alone
	}
	m, found := pick(s, machines)
	if !found {
		return
	}
	if infra, is := c.store.get(kindMachine, client.ObjectKeyFromObject(m)).(*infrav1.ScalewayAppleSiliconMachine); is && s.chance(25) {
		policy, _ := pick(s, []string{"terminate", "detach", "recycle", "nonsense"})
		infra = infra.DeepCopyObject().(*infrav1.ScalewayAppleSiliconMachine)
		c.edit(infra, "annotates "+policy, func() { metav1.SetMetaDataAnnotation(&infra.ObjectMeta, infrav1.ReleasePolicyAnnotation, policy) })
		m = c.store.get(c.store.kind(m), client.ObjectKeyFromObject(m))
	}
	c.deleteMachine(m)
}

// userForces removes a finalizer, so that a Machine is gone without a release.
func (s *sim) userForces(c *cluster) {
	if m, found := pick(s, c.infra()); found {
		c.forced[m.Name] = s.clock.Now()
		c.edit(m, "takes the finalizer off", func() { strip(m, infrav1.MachineFinalizer) })
		if c.store.get(kindMachine, client.ObjectKeyFromObject(m)) != nil {
			c.deleteMachine(m)
		}
	}
}

// userPauses pauses a Machine or lets it go on, and sometimes follows the recipe
// for detaching by hand.
func (s *sim) userPauses(c *cluster) {
	m, found := pick(s, c.infra())
	if !found {
		return
	}
	_, paused := m.Annotations[clusterv1.PausedAnnotation]
	if paused {
		c.edit(m, "unpauses", func() { delete(m.Annotations, clusterv1.PausedAnnotation) })
		return
	}
	c.edit(m, "pauses", func() { metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.PausedAnnotation, "") })
	if !s.chance(40) || m.Spec.HostRef == nil {
		return
	}
	m.Status.ServerID = ""
	s.must(c.store.update(m, true))
	s.note("user: detaches %s by hand", m.Name)
	c.deleteMachine(m)
}

func (s *sim) userPausesCluster(c *cluster) {
	object := c.object()
	if object == nil {
		return
	}
	c.pause(object, !c.paused())
}

func (c *cluster) pause(object *clusterv1.Cluster, paused bool) {
	c.pausedAt = time.Time{}
	if paused {
		c.pausedAt = c.sim.clock.Now()
	}
	c.edit(object, fmt.Sprintf("sets paused=%t on Cluster", paused), func() { object.Spec.Paused = ptr.To(paused) })
}

// userInConsole changes a server behind everybody's back.
func (s *sim) userInConsole() {
	server, found := pick(s, s.vendor.Servers())
	if !found {
		return
	}
	switch roll := s.dice.IntN(100); {
	case roll < 40:
		s.named[server.ID] = true
		s.renamed[server.ID] = s.clock.Now()
		s.console("PATCH", server.ID, `{"name":"somebody-else"}`)
	case roll < 70 && len(s.vendor.Servers()) > 2:
		s.console("DELETE", server.ID, "")
	case roll < 85:
		// One whose reinstall failed comes up with its old disk. Where nobody has read the
		// failure yet, no status tells that from a wipe: the disk does, at the first contact.
		if server.Status != simulated.StatusError || s.givenUp(server.ID) {
			s.console("POST", server.ID+"/reboot", "{}")
		}
	default:
		s.addServer()
	}
}

func (s *sim) addServer() {
	if len(s.vendor.Servers()) >= 6 {
		return
	}
	server, err := s.vendor.AddServer(context.Background(), infraServer(s.step))
	s.must(err)
	s.note("console: new server %s", server.Name)
}

func (s *sim) userLosesStatus(c *cluster) {
	s.note("user: all status of %s is lost", c.name)
	c.loseStatus()
}

func (s *sim) userLosesHosts(c *cluster) {
	s.note("user: all Hosts of %s are lost", c.name)
	c.loseHosts()
}

func (c *cluster) loseStatus() {
	for _, h := range c.hosts() {
		h.Status = infrav1.ScalewayAppleSiliconHostStatus{}
		c.sim.must(c.store.update(h, true))
	}
	for _, m := range c.infra() {
		m.Status = infrav1.ScalewayAppleSiliconMachineStatus{}
		c.sim.must(c.store.update(m, true))
	}
}

// loseHosts deletes the objects; a finalizer holds those that are being released.
func (c *cluster) loseHosts() {
	clear(c.disturbed) // the records say it, and they are lost
	for _, h := range c.hosts() {
		c.lost[cmp.Or(h.Spec.ServerID, h.Name)] = lostHost{h.DeepCopy(), c.sim.clock.Now()}
		c.sim.must(c.store.delete(h, nil))
	}
}
