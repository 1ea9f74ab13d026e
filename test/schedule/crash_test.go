package schedule

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/push"
)

// nth is the plan in which one effect befalls something: the n-th, from 0.
type nth struct {
	n   int
	how fault
	// seen are the effects so far.
	seen []string
}

func (p *nth) next(call operation) fault {
	if !call.effect() {
		return fine
	}
	p.seen = append(p.seen, call.String())
	if len(p.seen) != p.n+1 {
		return fine
	}
	return p.how
}

// story is one way through the life of a host: what is there before it, and what
// then happens.
type story struct {
	name    string
	prepare func(*sim, *cluster)
	happen  func(*sim, *cluster)
}

func stories() []story {
	none := func(*sim, *cluster) {}
	return []story{
		{"claim and bootstrap", none, wants(infrav1.MachineClass{})},
		{"order", none, wants(infrav1.MachineClass{Acquisition: infrav1.Order, Type: "M2-L"})},
		{"order cancelled", func(s *sim, c *cluster) {
			c.newMachine(infrav1.MachineClass{Acquisition: infrav1.Order, Type: "M2-L"})
			for len(s.mutations) == 0 {
				s.round()
			}
		}, deletes},
		{"recycle", runs(infrav1.MachineClass{}), deletes},
		{"recycle alone", runs(infrav1.MachineClass{}), func(s *sim, c *cluster) {
			c.deleteMachine(c.infra()[0])
			s.rounds()
		}},
		{"terminate", runs(infrav1.MachineClass{ReleasePolicy: infrav1.Terminate}), func(s *sim, c *cluster) {
			s.wait(25 * time.Hour) // beyond the floor
			deletes(s, c)
		}},
		{"terminate at the floor", runs(infrav1.MachineClass{Acquisition: infrav1.Order, Type: "M2-L"}), deletes},
		{"detach", runs(infrav1.MachineClass{ReleasePolicy: infrav1.Detach}), deletes},
		{"Cluster deleted", runs(infrav1.MachineClass{}), func(s *sim, c *cluster) {
			object := c.object()
			c.edit(object, "deletes Cluster", func() { object.Finalizers = []string{clusterv1.ClusterFinalizer} })
			s.must(c.store.delete(object, nil))
			s.rounds()
			if c.object() != nil {
				s.violate("the deletion of the Cluster never ends")
			}
		}},
		{"return to the pool", none, func(s *sim, c *cluster) {
			s.breaksFirst = true
			c.newMachine(infrav1.MachineClass{})
			s.rounds()
		}},
		{"reclaim", strands, func(s *sim, c *cluster) {
			for range 4 {
				s.whole(c.active()[0].pass("sweep", client.ObjectKey{}))
				s.clean()
				for range 11 {
					s.round()
					s.wait(time.Minute)
				}
			}
			s.rounds()
		}},
		{"server deleted in the console", runs(infrav1.MachineClass{}), func(s *sim, c *cluster) {
			server, _ := s.vendor.Server(c.infra()[0].Name)
			s.console("DELETE", server.ID, "")
			s.rounds()
			deletes(s, c)
		}},
		{"reboot by hand", runs(infrav1.MachineClass{}), func(s *sim, c *cluster) {
			server, _ := s.vendor.Server(c.infra()[0].Name)
			h := c.hostOf(server.ID)
			c.edit(h, "reboots", func() { h.Spec.Reboot = &infrav1.RebootRequest{ID: "by-hand", Reason: "by hand", Force: true} })
			s.rounds()
		}},
		{"adoption", stranger, func(s *sim, c *cluster) {
			server, _ := s.vendor.Server("somebody-else")
			h := c.hostOf(server.ID)
			c.edit(h, "adopts", func() { h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: poolPrefix} })
			s.rounds()
		}},
	}
}

func wants(class infrav1.MachineClass) func(*sim, *cluster) {
	return func(s *sim, c *cluster) {
		c.newMachine(class)
		s.rounds()
	}
}

func runs(class infrav1.MachineClass) func(*sim, *cluster) {
	return func(s *sim, c *cluster) {
		wants(class)(s, c)
		if m := c.infra()[0]; m.Status.Phase != "Running" {
			panic(fmt.Sprintf("the story needs a Machine that runs: %s", encode(m)))
		}
	}
}

func deletes(s *sim, c *cluster) {
	c.deleteMachine(c.store.all("Machine")[0])
	s.rounds()
}

// strands leaves a host without its Machine, seen by one sweep, and switched off.
func strands(s *sim, c *cluster) {
	runs(infrav1.MachineClass{})(s, c)
	c.deleteMachine(c.store.all("Machine")[0])
	c.core()
	m := c.infra()[0]
	strip(m, infrav1.MachineFinalizer)
	s.must(c.store.update(m, false))
	for _, mac := range s.sortedMacs() {
		mac.disk.agent = nil
	}
	s.round()
	s.round()
}

func stranger(s *sim, _ *cluster) {
	s.round()
	s.console("PATCH", s.vendor.Servers()[0].ID, `{"name":"somebody-else"}`)
	s.named[s.vendor.Servers()[0].ID] = true
	s.round()
	s.round()
}

// tell plays a story under a plan, which begins with what happens.
func tell(o story, p plan) *sim {
	s := newSim(settings{seed: 7, reclaims: true})
	defer s.close()
	s.round()
	s.wait(6 * time.Second)
	o.prepare(s, s.members[0])
	s.plan, s.grants = p, 0
	o.happen(s, s.members[0])
	s.plan = quiet{}
	s.rounds()
	s.checkRest()
	return s
}

// outcome is how a story ended, and how often what must happen once did.
func outcome(s *sim) []string {
	var lines []string
	for i, server := range s.vendor.Servers() {
		lines = append(lines, fmt.Sprintf("server %d %s %s installs=%d scheduled=%t", i, strings.ReplaceAll(server.Name, server.ID, "<id>"), server.Status, server.Installs, server.DeletionScheduled))
	}
	c := s.members[0]
	for _, h := range c.hosts() {
		lines = append(lines, fmt.Sprintf("host %s claimed=%t released=%t clean=%t", h.Status.Phase, h.Spec.ClaimRef != nil, h.Spec.Release != nil, h.Spec.Record.Wipe.ObservedAt != nil))
	}
	for _, m := range c.infra() {
		lines = append(lines, fmt.Sprintf("machine %s %s", m.Name, m.Status.Phase))
	}
	for _, kind := range []string{"Machine", "Node", "Secret"} {
		lines = append(lines, fmt.Sprintf("%d of %s", len(c.store.all(kind)), kind))
	}
	times := map[string]int{}
	for _, m := range s.mutations {
		if m.name == "" { // a rename may be repeated
			times[m.what]++
		}
	}
	for what, n := range times {
		if n > 1 {
			lines = append(lines, fmt.Sprintf("%s: %d times", what, n))
		}
	}
	return append(lines, fmt.Sprintf("password attempts %d", s.grants))
}

// losesAttempt: the process dies between recording the password's one attempt and
// making it. Then the Mac is given back, wiped, and another taken.
func losesAttempt(effects []string, p *nth) bool {
	granted := func(n int) bool { return n < len(effects) && strings.Contains(effects[n], "grant mac") }
	return (p.how == dieBefore && granted(p.n)) || (p.how == dieAfter && granted(p.n+1))
}

// TestCrashSweep dies right before and right after each effect of each story.
func TestCrashSweep(t *testing.T) {
	for _, o := range stories() {
		t.Run(o.name, func(t *testing.T) {
			count := &nth{n: -1}
			calm := tell(o, count)
			if len(calm.broken) > 0 {
				t.Fatalf("undisturbed: %s\n%s", calm.broken, tail(calm.told(), 40))
			}
			want := outcome(calm)
			each(0, 2*len(count.seen), func(i uint64) bool {
				p := &nth{n: int(i / 2), how: dieBefore + fault(i%2)}
				s := tell(o, p)
				where := fmt.Sprintf("effect %d, %s%s", p.n, p.seen[min(p.n, len(p.seen)-1)], p.how)
				if len(s.broken) > 0 {
					t.Errorf("%s: %s\n%s", where, s.broken, tail(s.told(), 60))
					return false
				}
				if diff := cmp.Diff(want, outcome(s)); diff != "" && !losesAttempt(count.seen, p) {
					t.Errorf("%s: %s\n%s", where, diff, tail(s.told(), 60))
					return false
				}
				return true
			})
			t.Logf("%d effects, two deaths at each", len(count.seen))
		})
	}
}

// breaks has the first Mac that is converged fail until it is wiped.
func (s *sim) breaks(m *mac) error {
	if s.breaksFirst && s.broke == "" {
		s.broke = fmt.Sprintf("%s.%d", m.id, m.install)
	}
	if !m.disk.broken && s.broke != fmt.Sprintf("%s.%d", m.id, m.install) {
		return nil
	}
	return &push.Failure{Step: "converge", Class: document.Retry, Err: errors.New("the Mac is broken")}
}
