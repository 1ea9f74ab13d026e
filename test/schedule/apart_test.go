package schedule

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hostctl "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/internal/host"
)

// Two releases in one cluster: each of the two managers works for the Machines of one
// namespace, whose Cluster has the same name in both, leads there alone, and has no other
// in its cache. They share the Hosts, the Nodes and the pool.

// second is the namespace of the other release.
const second = "second"

// apartly is the history of a seed in two namespaces, for every fourth. What an administrator
// does to objects is left out: that is done in one of them.
func apartly(o settings) settings {
	if *apartFlag && o.seed%4 == 0 {
		return inTwo(o)
	}
	return o
}

func inTwo(o settings) settings {
	o.apart, o.weather.person = true, false
	return o
}

// namespaces are those of a cluster's Machines.
func (c *cluster) namespaces() []string {
	if c.sim.apart {
		return []string{namespace, second}
	}
	return []string{namespace}
}

// anyNamespace is where somebody wants one more Machine.
func (c *cluster) anyNamespace() string {
	in, _ := pick(c.sim, c.namespaces())
	return in
}

// hidden is the namespace that the n-th manager of a cluster, from 1, does not see; empty: none.
func (s *sim) hidden(n int) string {
	if !s.apart {
		return ""
	}
	return []string{second, namespace}[n-1]
}

// machineNamed is the infra machine of a name, of whichever namespace.
func (c *cluster) machineNamed(name string) client.Object {
	for _, in := range c.namespaces() {
		if m := c.store.get(kindMachine, client.ObjectKey{Namespace: in, Name: name}); m != nil {
			return m
		}
	}
	return nil
}

// errHidden is how a cache of one namespace answers for another.
func errHidden(key client.ObjectKey) error {
	return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
}

// judgeApart: a manager asks the vendor nothing about a Mac that is claimed from the other
// namespace. A pass may have read the Host before, and the clocks differ.
func (m *manager) judgeApart(h *host.Host, what string) {
	claim, since := h.Spec.ClaimRef, h.Spec.Record.Wipe.RequiredSince
	if claim == nil || since == nil || m.hidden == "" || claim.Namespace != m.hidden {
		return
	}
	if m.sim.clock.Since(since.Time) > grace+2*mostSkew {
		m.sim.violate("%s of %s, which is claimed in the namespace of the other manager, by %s", what, h.Name, m.name)
	}
}

// Two managers that both work for all namespaces, as before there were two, each did
// what the other did: a Mac was wiped, and an order sent, by both.
func TestCatchesAManagerThatDoesForTheOther(t *testing.T) {
	catches(t, seams{
		apart:   true,
		options: func(o *hostctl.Options) { o.Namespace = "" },
	}, "claimed in the namespace of the other manager")
}
