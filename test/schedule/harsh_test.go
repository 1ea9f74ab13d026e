package schedule

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	simulated "github.com/macfleet/macfleet/sandbox/scaleway"
)

// Troubles of harsh histories: reinstalls fail, often twice running, and the server may
// turn ready later with its old disk; the managers lose rights at the vendor for a
// while; and two managers lead for minutes, in one install epoch.

// errSpoiled is how a reinstall fails.
var errSpoiled = errors.New("the image was not written")

// spoilt is how many in a hundred reinstalls of a harsh history fail.
const spoilt = 45

func troubles() []act {
	return []act{
		{10, (*sim).actMend},
		{1, (*sim).actRights},
		{1, (*sim).actRivals},
	}
}

// spoils decides about a reinstall that begins.
func (s *sim) spoils() bool {
	_, wild := s.plan.(wild)
	return s.spoilsAll || s.harsh && wild && s.chance(spoilt)
}

// actMend has the vendor switch a server on whose reinstall failed, as it was: after
// everybody who waits for its wipe was told that it failed, and gave it up.
func (s *sim) actMend(*cluster) {
	for _, m := range s.sortedMacs() {
		server, exists := s.vendor.Server(m.id)
		if !exists || server.Status != simulated.StatusError || !s.givenUp(m.id) {
			continue
		}
		s.note("vendor: %s is ready again, with its old disk", m.id)
		s.vendor.SetStatus(m.id, simulated.StatusReady)
		m.up, m.spoiled = true, false
		return
	}
}

// givenUp: whoever asked for the server's wipe has given it up for now.
func (s *sim) givenUp(id string) bool {
	for _, c := range s.members {
		h := c.hostOf(id)
		if h == nil || h.Spec.Record.Wipe.RequestedAt == nil || h.Spec.Record.Wipe.ObservedAt != nil {
			continue
		}
		// In a history of chance nobody may have read the failure of a start that counts still.
		if !host.WipeAbandoned(h, s.clock.Now()) || !s.spoilsAll && h.Spec.Record.Wipe.StartedAt != nil {
			return false
		}
	}
	return true
}

// mostRightless is how long lists are empty at most: longer ones are believed after
// host.GoneAfterSuspicious, as long as the credentials work.
const mostRightless = 8 * time.Minute

// actRights takes rights from the managers, or gives them back.
func (s *sim) actRights(*cluster) {
	if s.rights != simulated.FullRights {
		s.giveRights()
		return
	}
	s.rights, _ = pick(s, []simulated.Rights{simulated.EmptyLists, simulated.NoRights, simulated.ReadOnly})
	s.rightsBack = s.clock.Now().Add(s.between(30*time.Second, mostRightless))
	s.note("vendor: rights are now %q", s.rights)
}

func (s *sim) giveRights() {
	s.rights = simulated.FullRights
	s.note("vendor: all rights are back")
}

// actRivals lets both managers lead, for long.
func (s *sim) actRivals(c *cluster) {
	if s.apart {
		return
	}
	c.leads = [2]bool{true, true}
	c.overlapEnds = s.clock.Now().Add(s.between(time.Minute, 10*time.Minute))
	s.note("two managers lead %s for long", c.name)
}

// endTroubles ends long overlaps, and mends what would not end by itself. It reports
// whether a wipe was left to a person.
func (s *sim) endTroubles() (left bool) {
	if !s.harsh {
		return false
	}
	if s.rights != simulated.FullRights {
		s.giveRights()
	}
	for _, c := range s.members {
		if soon := s.clock.Now().Add(time.Second); c.overlapEnds.After(soon) {
			c.overlapEnds = soon
		}
		for _, h := range c.hosts() {
			if host.QuarantinedForWipe(h) {
				c.edit(h, "ends the quarantine of", func() { h.Spec.Quarantine = nil })
				left = true
			}
		}
	}
	return left
}

// keepsStart writes Hosts as if a wipe that is given up kept the start that was seen.
type keepsStart struct {
	client.Client
	m *manager
}

func (c keepsStart) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	h, is := o.(*host.Host)
	stored, found := c.m.cluster.store.get(kindHost, client.ObjectKeyFromObject(o)).(*host.Host)
	if is && found && h.Spec.Record.Wipe.Repeats > 1 && h.Spec.Record.Wipe.StartedAt == nil && h.Spec.Record.Wipe.RequestedAt.Equal(stored.Spec.Record.Wipe.RequestedAt) {
		h.Spec.Record.Wipe.StartedAt = stored.Spec.Record.Wipe.StartedAt
	}
	return c.Client.Update(ctx, o, opts...)
}

// failedTwice is the history of a Mac whose reinstall fails for as often as it is asked
// for, until it is given up; then the server turns ready with its old disk.
func failedTwice(t *testing.T, bug seams) *sim {
	t.Helper()
	s := newSim(settings{seed: 1, seams: bug})
	defer s.close()
	c := s.members[0]
	c.newMachine(infrav1.MachineClass{})
	s.rounds()
	s.spoilsAll = true
	c.deleteMachine(c.store.all("Machine")[0])
	erred := map[string]bool{}
	mended := func() bool {
		for _, m := range s.sortedMacs() {
			server, _ := s.vendor.Server(m.id)
			was := erred[m.id]
			erred[m.id] = server.Status == simulated.StatusError
			if was && erred[m.id] {
				s.actMend(c) // all have read the error in the round before
				return m.up
			}
		}
		return false
	}
	for n := 0; !mended(); n++ {
		if n == 100 {
			t.Fatalf("no reinstall is given up\n%s", tail(s.told(), 60))
		}
		s.round()
		s.wait(10 * time.Second)
	}
	for range 10 {
		s.round()
		s.wait(10 * time.Second)
	}
	return s
}

// A server that turned ready after its reinstall had failed for the second time was
// taken for wiped.
func TestCatchesAStartThatOutlivesItsFailure(t *testing.T) {
	if s := failedTwice(t, seams{}); len(s.broken) > 0 {
		t.Errorf("%s\n%s", s.broken, tail(s.told(), 60))
	}
	bug := seams{client: func(m *manager, c client.Client) client.Client { return keepsStart{c, m} }}
	if s := failedTwice(t, bug); len(s.broken) == 0 {
		t.Errorf("the bug survived:\n%s", tail(s.told(), 60))
	}
}

// renameWhileWiped gives the pool name back as soon as the reinstall is asked for.
type renameWhileWiped struct{ cloud.Cloud }

func (c renameWhileWiped) ReinstallServer(ctx context.Context, zone, id, os string) error {
	if err := c.Cloud.ReinstallServer(ctx, zone, id, os); err != nil {
		return err
	}
	return c.RenameServer(ctx, zone, id, host.PoolName(poolPrefix, id))
}

// A server whose reinstall had failed for good had its pool name already, and was in
// the pool, for any other cluster to take, when it was ready again with its old disk.
func TestCatchesRenameBeforeTheWipeEnds(t *testing.T) {
	s := failedTwice(t, seams{cloud: func(_ *manager, c cloud.Cloud) cloud.Cloud { return renameWhileWiped{c} }})
	if !slices.ContainsFunc(s.broken, func(b string) bool { return strings.Contains(b, "without a right to it") }) {
		t.Errorf("the bug survived: %s\n%s", s.broken, tail(s.told(), 60))
	}
}
