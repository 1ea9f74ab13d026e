package schedule

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/remote"
	simulated "github.com/macfleet/macfleet/sandbox/scaleway"
)

const zone = "fr-par-1"

// settings of one history; the zero value is one cluster, four Macs and no fault.
type settings struct {
	seed     uint64
	steps    int
	clusters int
	servers  int
	// harsh: there are the troubles of harsh_test.go, too.
	harsh bool
	// reclaims: the sweep takes strays back; otherwise chance decides.
	reclaims bool
	// apart: each of the two managers works for a namespace of its own.
	apart   bool
	weather weather
	seams   seams
}

// sim is one history: the whole world, and who does what next.
type sim struct {
	settings

	dice    *rand.Rand
	clock   *clocktesting.FakeClock
	scheme  *runtime.Scheme
	agent   push.Agent
	vendor  *simulated.Vendor
	macs    map[string]*mac
	members []*cluster

	plan    plan
	current *task
	tasks   []*task
	late    []landing

	step      int
	history   []string
	broken    []string
	secrets   []string
	mutations []mutation
	// titles are who has which Mac.
	titles []*title
	grants int
	// reads are what clients without a lock have read.
	reads sync.Map
	// breaksFirst: the first Mac that is converged is broken until it is wiped;
	// broke says which it was, and in which install.
	breaksFirst bool
	broke       string
	// named are servers that a person gave another name in the console.
	named map[string]bool
	// renamed is when a server's name last changed.
	renamed map[string]time.Time
	// unasked is when a request for a reboot went with its host's claim.
	unasked map[string]time.Time
	// redirected are the Machines that a person pointed elsewhere. A server that was
	// ordered for one comes all the same, under its name; the Node of the Mac that it had
	// is that person's to delete, as the Machine's condition says.
	redirected map[string]bool
	// abandoned are servers, by their ids, with the name of a Machine that no longer meant its
	// claim when another one came upon it: they bear it until somebody names them anew.
	abandoned map[string]string
	// releasedAt is when a manager last released a server's host.
	releasedAt map[string]time.Time
	// spoilsAll: every reinstall fails.
	spoilsAll bool
	// rights of the managers at the vendor, until they are given back.
	rights     simulated.Rights
	rightsBack time.Time
}

// dummyBuild is the agent that Macs get, made once: it is compressed.
var dummyBuild = sync.OnceValues(func() (*remote.Build, error) { return remote.NewBuild([]byte("agent")) })

var testScheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // kinds that do not fit together
		}
	}
	return s
})

// quiet is the plan in which nothing fails.
type quiet struct{}

func (quiet) next(operation) fault { return fine }

func newSim(o settings) *sim {
	s := &sim{
		settings: o, dice: rand.New(rand.NewPCG(o.seed, 1)), scheme: testScheme(), macs: map[string]*mac{}, plan: quiet{},
		clock: clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), named: map[string]bool{}, renamed: map[string]time.Time{}, releasedAt: map[string]time.Time{}, unasked: map[string]time.Time{}, redirected: map[string]bool{}, abandoned: map[string]string{},
	}
	build, err := dummyBuild()
	s.must(err)
	s.agent = push.Agent{Version: "v1", Build: build}
	timings := simulated.DefaultTimings()
	timings.Reinstall = 3 * time.Minute
	var bytes [32]byte
	bytes[0], bytes[1], bytes[2] = byte(o.seed), byte(o.seed>>8), byte(o.seed>>16)
	s.vendor = simulated.New(simulated.Options{
		Clock: s.clock, Inline: true, Random: rand.NewChaCha8(bytes), Hardware: racks{s}, Timings: &timings, JournalLimit: 1000,
	})
	for n := range max(s.servers, 4) {
		age := 48 * time.Hour // beyond the floor
		if n == 0 {
			age = time.Hour
		}
		_, err := s.vendor.AddServer(context.Background(), simulated.ServerSpec{Name: fmt.Sprintf("%s%d", poolPrefix, n), Age: age})
		s.must(err)
	}
	for _, name := range []string{"a", "b"}[:max(o.clusters, 1)] {
		s.members = append(s.members, s.newCluster(name))
	}
	s.lags()
	return s
}

// close ends what is still waiting.
func (s *sim) close() {
	for _, c := range s.members {
		for _, m := range c.managers {
			m.dead = true
		}
	}
	s.finishAll()
	s.vendor.Close()
}

func (s *sim) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("step %d: %v", s.step, err)) // the test's own world is wrong
	}
}

func (s *sim) note(format string, args ...any) {
	s.history = append(s.history, fmt.Sprintf("%d %s ", s.step, s.clock.Now().Format("15:04:05.0"))+fmt.Sprintf(format, args...))
}

// violate notes a broken promise. The history ends there.
func (s *sim) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.note("BROKEN: %s", text)
	s.broken = append(s.broken, text)
}

var identifiers = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|bootstrap-token-[a-z0-9]{6}|bootstrap token [a-z0-9]{6}`)

// told is the history with each identifier replaced by the number of its first
// appearance: tokens are random, and differ between two runs of a seed.
func (s *sim) told() string {
	numbers := map[string]string{}
	return identifiers.ReplaceAllStringFunc(strings.Join(s.history, "\n"), func(id string) string {
		if numbers[id] == "" {
			numbers[id] = fmt.Sprintf("#%d", len(numbers)+1)
		}
		return numbers[id]
	})
}

func (s *sim) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.dice.Int64N(int64(most-least)))
}

func (s *sim) chance(percent int) bool { return s.dice.IntN(100) < percent }

func pick[T any](s *sim, from []T) (one T, found bool) {
	if len(from) == 0 {
		return one, false
	}
	return from[s.dice.IntN(len(from))], true
}

// wait moves the clock. What takes part in the world cannot stand still for
// longer than a call's deadline: before a long wait everything under way ends.
func (s *sim) wait(d time.Duration) {
	until := s.clock.Now().Add(d)
	for _, t := range slices.Clone(s.tasks) {
		if t.started && !t.done && until.Sub(t.waits) > lateMost {
			s.run(t, -1)
		}
	}
	s.land(until)
	s.clock.SetTime(until)
	if s.rights != simulated.FullRights && until.After(s.rightsBack) {
		s.giveRights()
	}
	s.clean()
	s.endOverlaps()
}

// land lets everything come about that is due until then.
func (s *sim) land(until time.Time) {
	slices.SortStableFunc(s.late, func(a, b landing) int { return a.due.Compare(b.due) })
	for len(s.late) > 0 && !s.late[0].due.After(until) {
		next := s.late[0]
		s.late = s.late[1:]
		if next.due.After(s.clock.Now()) {
			s.clock.SetTime(next.due)
		}
		s.note("lands: %s", next.what)
		next.act()
	}
}

// clean forgets what has ended, and puts new processes in the place of dead ones.
func (s *sim) clean() {
	for _, c := range s.members {
		for i, m := range c.managers {
			if !m.dead {
				continue
			}
			s.finish(m)
			s.note("%s starts anew", m.name)
			c.managers[i] = s.startManager(c, i+1)
		}
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(t *task) bool { return t.done })
}

// finish runs all tasks of a manager to their end; those of a dead one do nothing.
func (s *sim) finish(m *manager) {
	for _, t := range slices.Clone(s.tasks) {
		if t.manager == m && !t.done {
			s.run(t, -1)
		}
	}
}

func (s *sim) finishAll() {
	for len(s.tasks) > 0 {
		for _, t := range slices.Clone(s.tasks) {
			if !t.done {
				s.run(t, -1)
			}
		}
		s.tasks = slices.DeleteFunc(s.tasks, func(t *task) bool { return t.done })
	}
}

// endOverlaps takes the leadership, and with it the process, from managers that
// kept it too long.
func (s *sim) endOverlaps() {
	for _, c := range s.members {
		if !s.apart && c.leads[0] && c.leads[1] && s.clock.Now().After(c.overlapEnds) {
			old := s.dice.IntN(2)
			c.leads[old] = false
			c.managers[old].dead = true
			s.note("%s no longer leads", c.managers[old].name)
		}
	}
	s.cleanDead()
}

func (s *sim) cleanDead() {
	for _, c := range s.members {
		if c.managers[0].dead || c.managers[1].dead {
			s.clean()
			return
		}
	}
}

// begin starts a pass, and lets it run to its end or to one of its calls.
func (s *sim) begin(t *task, interrupt int) {
	if t == nil {
		return
	}
	s.note("%s", t.name)
	s.tasks = append(s.tasks, t)
	turns := -1
	if s.chance(interrupt) {
		turns = s.dice.IntN(8)
	}
	s.run(t, turns)
	s.clean()
}

func shortKey(key client.ObjectKey) string {
	return strings.TrimPrefix(strings.TrimPrefix(key.String(), namespace+"/"), "/")
}

// keys of a kind's objects, in the store.
func (c *cluster) keys(kind string) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, object := range c.store.all(kind) {
		keys = append(keys, client.ObjectKeyFromObject(object))
	}
	return keys
}

func (s *sim) sortedMacs() []*mac {
	var all []*mac
	for _, id := range slices.Sorted(maps.Keys(s.macs)) {
		all = append(all, s.macs[id])
	}
	return all
}
