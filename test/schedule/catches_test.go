package schedule

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// mostSeeds is how many histories a known bug may survive. Some need two managers, or
// two Machines, at one host at one moment: one history in a hundred or two has that.
const mostSeeds = 1500

// catches puts a bug back and looks for a history that shows it. The words are in
// what must be said of it.
func catches(t *testing.T, bug seams, words ...string) {
	t.Helper()
	var caught atomic.Pointer[sim]
	each(cmp.Or(bug.from, 1), mostSeeds, func(seed uint64) bool {
		o := ofSeed(seed, 250)
		o.seams = bug
		if bug.apart {
			o = inTwo(o)
		}
		if bug.fair {
			o.weather = weather{}
		}
		s := play(o)
		for _, told := range s.broken {
			for _, word := range words {
				if strings.Contains(told, word) {
					caught.CompareAndSwap(nil, s)
				}
			}
		}
		return caught.Load() == nil
	})
	s := caught.Load()
	if s == nil {
		t.Fatalf("the bug survived %d histories", mostSeeds)
	}
	t.Logf("seed %d, step %d: %.200s", s.seed, s.step, s.broken[0])
}

// withoutLock writes Hosts as Cluster API's patch helper does: what has changed
// since the read, whatever else has changed since.
type withoutLock struct {
	client.Client
	reads *sync.Map
}

func (c withoutLock) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, opts...)
	c.reads.Store(readOf(o), o.DeepCopyObject())
	return err
}

func (c withoutLock) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	before, known := c.reads.Load(readOf(o))
	if _, is := o.(*host.Host); !is || !known {
		return c.Client.Update(ctx, o, opts...)
	}
	return c.Patch(ctx, o, client.MergeFrom(before.(client.Object)))
}

// readOf names one version of an object.
func readOf(o client.Object) string { return o.GetName() + "@" + o.GetResourceVersion() }

// noting is the reader beside it.
type noting struct {
	client.Reader
	reads *sync.Map
}

func (r noting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	r.reads.Store(readOf(o), o.DeepCopyObject())
	return err
}

func TestCatchesClaimsWithoutLock(t *testing.T) {
	catches(t, seams{
		fair: true, from: 516,
		client: func(m *manager, c client.Client) client.Client { return withoutLock{c, &m.sim.reads} },
		reader: func(m *manager, r client.Reader) client.Reader { return noting{r, &m.sim.reads} },
	}, "schema refuses", "one token", "no Machine holds", "shared or not wiped", "is not clean")
}

// renameFirst gives the pool name back before the wipe.
type renameFirst struct{ cloud.Cloud }

func (c renameFirst) ReinstallServer(ctx context.Context, zone, id, os string) error {
	if err := c.RenameServer(ctx, zone, id, host.PoolName(poolPrefix, id)); err != nil {
		return err
	}
	return c.Cloud.ReinstallServer(ctx, zone, id, os)
}

func TestCatchesRenameBeforeWipe(t *testing.T) {
	catches(t, seams{cloud: func(_ *manager, c cloud.Cloud) cloud.Cloud { return renameFirst{c} }},
		"without a right", "in the pool with the disk")
}

func TestCatchesCachedDecisions(t *testing.T) {
	catches(t, seams{fair: true, from: 246, reader: func(m *manager, _ client.Reader) client.Reader { return m.cached }},
		"no Machine holds", "without a release", "without a right", "released while", "in the pool with the disk", "no Machine that is being deleted", "shared or not wiped", "is not clean")
}

// blindToPause reads Clusters as if nobody had paused them.
type blindToPause struct{ client.Reader }

func (r blindToPause) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	if cluster, is := o.(*clusterv1.Cluster); is {
		cluster.Spec.Paused = ptr.To(false)
	}
	return err
}

func TestCatchesDeletionThatIgnoresThePause(t *testing.T) {
	catches(t, seams{reader: func(_ *manager, r client.Reader) client.Reader { return blindToPause{r} }},
		"released while its Cluster is paused")
}

// releaseTheVanished takes a Machine that is gone for one that was deleted.
func releaseTheVanished(ctx context.Context, m *manager, name string) {
	h := &host.Host{}
	if m.fresh.Get(ctx, types.NamespacedName{Name: name}, h) != nil || h.Spec.ClaimRef == nil || h.Spec.Release != nil {
		return
	}
	owner := &infrav1.ScalewayAppleSiliconMachine{}
	key := types.NamespacedName{Namespace: h.Spec.ClaimRef.Namespace, Name: h.Spec.ClaimRef.Name}
	if err := m.fresh.Get(ctx, key, owner); client.IgnoreNotFound(err) != nil || err == nil {
		return
	}
	h.Finalizers = []string{infrav1.HostFinalizer}
	h.Spec.Release = &infrav1.Release{
		Token: h.Spec.ClaimRef.Token, Policy: infrav1.Recycle, PoolPrefix: poolPrefix, RequestedAt: metav1.NewMicroTime(m.sim.clock.Now()),
	}
	_ = m.cached.Update(ctx, h) // the next pass tries again
}

func TestCatchesReleaseOfAVanishedMachine(t *testing.T) {
	catches(t, seams{extra: releaseTheVanished}, "no Machine that is being deleted holds it")
}

// endWhatNobodyNamed ends a claim that no Machine made as if somebody else had named the server.
func endWhatNobodyNamed(ctx context.Context, m *manager, name string) {
	h := &host.Host{}
	if m.fresh.Get(ctx, types.NamespacedName{Name: name}, h) != nil || h.Spec.Release == nil ||
		h.Spec.ClaimRef == nil || h.Spec.ClaimRef.Namespace != host.NoNamespace {
		return
	}
	h.Spec.ClaimRef, h.Spec.Release = nil, nil
	_ = m.cached.Update(ctx, h) // the next pass tries again
}

func TestCatchesTheEndOfAClaimThatNobodyElseNamed(t *testing.T) {
	catches(t, seams{from: 90, extra: endWhatNobodyNamed}, "freed without an observed wipe")
}

// deafToFloor knows a floor by its status alone, and so not by the type that the
// SDK makes of it: what it gets is just a call that failed.
type deafToFloor struct {
	cloud.Cloud
	m *manager
}

func (c deafToFloor) DeleteServer(ctx context.Context, zone, id string) (bool, error) {
	if server, _, err := c.GetServer(ctx, zone, id); err == nil && server.DeletableAt.After(c.m.sim.clock.Now()) {
		return false, fmt.Errorf("delete server %s: precondition is not respected", id)
	}
	return c.Cloud.DeleteServer(ctx, zone, id)
}

func TestCatchesTheFloorByItsStatusAlone(t *testing.T) {
	catches(t, seams{cloud: func(m *manager, c cloud.Cloud) cloud.Cloud { return deafToFloor{c, m} }},
		"never ends")
}

// strayHistory strands a host and has the sweep take it back, unless its Cluster
// is paused right before, of which the watches do not tell yet.
func strayHistory(t *testing.T, pause bool, bug seams) *sim {
	t.Helper()
	s := newSim(settings{seed: 1, reclaims: true, seams: bug})
	defer s.close()
	c := s.members[0]
	c.newMachine(infrav1.MachineClass{})
	s.rounds()
	c.deleteMachine(c.store.all("Machine")[0])
	c.core()
	m := c.infra()[0]
	strip(m, infrav1.MachineFinalizer)
	s.must(c.store.update(m, false))
	for _, mac := range s.sortedMacs() {
		mac.disk.agent = nil // it is switched off
	}
	s.round()
	s.round()
	manager := c.active()[0]
	s.whole(manager.pass("sweep", client.ObjectKey{}))
	s.wait(11 * time.Minute)
	s.round()
	if pause {
		c.pause(c.object(), true)
		s.wait(2 * grace)
	}
	s.whole(manager.pass("sweep", client.ObjectKey{}))
	released := false
	for _, h := range c.hosts() {
		released = released || h.Spec.Release != nil && h.Spec.Release.Origin == infrav1.OriginReclaim
	}
	if released == pause && bug.sweep == nil {
		t.Errorf("paused = %t, taken back = %t\n%s", pause, released, s.told())
	}
	return s
}

func TestCatchesASweepThatDoesNotLookAgain(t *testing.T) {
	for _, pause := range []bool{false, true} {
		if s := strayHistory(t, pause, seams{}); len(s.broken) > 0 {
			t.Errorf("paused = %t: %s", pause, s.broken)
		}
	}
	bug := seams{sweep: func(m *manager, _ client.Reader) client.Reader { return m.cached }}
	if s := strayHistory(t, true, bug); len(s.broken) == 0 {
		t.Errorf("the bug survived:\n%s", s.told())
	}
}
