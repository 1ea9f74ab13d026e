package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/cli/timeline"
	"github.com/macfleet/macfleet/sandbox/world"
)

// restartsAgentByHand does what `macfleet machine restart-agent` does: the agent on the
// Machine's Mac is another process, and the Machine says for which request.
func (f *fleet) restartsAgentByHand(name string) {
	f.Helper()
	const id = "by-hand-1"
	before := f.agentPID()
	look := func(ctx context.Context) (act.Plan, error) {
		s, err := snapshot.Load(ctx, f.client, world.Namespace, snapshot.Machines, snapshot.Hosts, snapshot.CoreMachines, snapshot.Clusters)
		if err != nil {
			return act.Plan{}, err
		}
		m, err := explain.FindExactly(s.Machines, "machine", name)
		if err != nil {
			return act.Plan{}, err
		}
		return act.RestartAgent{ID: id}.Plan(act.OfMachine(s, m))
	}
	plan, err := look(f.Context())
	if err == nil {
		err = act.Run(f.Context(), f.client, plan, false, look)
	}
	if err != nil {
		f.Fatalf("asking for a restart of the agent: %v", err)
	}
	f.await("a restarted agent", func() (string, bool) {
		m := &infrav1.ScalewayAppleSiliconMachine{}
		f.read(name, m)
		return m.Status.Applied.Restart, m.Status.Applied.Restart == id
	})
	if now := f.agentPID(); now == before {
		f.Errorf("the agent is still process %s", now)
	}
}

// tellsOfCallsAndSteps looks whether the timeline of a Machine's Mac has the call to the vendor
// that named its server, what converge changed on it, and the proof reboot between.
func (f *fleet) tellsOfCallsAndSteps(name string) {
	f.Helper()
	s, err := snapshot.Load(f.Context(), f.client, world.Namespace, snapshot.Machines, snapshot.Hosts, snapshot.Remediations, snapshot.Nodes)
	if err != nil {
		f.Fatal(err)
	}
	m, err := explain.FindExactly(s.Machines, "machine", name)
	if err != nil {
		f.Fatal(err)
	}
	of := timeline.Of{Machine: m, Host: act.OfMachine(s, m).Host}
	if err := s.AddEvents(f.Context(), f.client, of.Names()...); err != nil {
		f.Fatal(err)
	}
	entries := timeline.Merge(s, of)
	for what, says := range map[string]string{
		"VendorAsked": fmt.Sprintf("name it %q: taken", name),
		"Converged":   "the Mac reboots, and another run follows",
	} {
		if !slices.ContainsFunc(entries, func(e timeline.Entry) bool { return e.What == what && strings.Contains(e.Says, says) }) {
			f.Errorf("the timeline lacks %s: %s: %+v", what, says, entries)
		}
	}
}
