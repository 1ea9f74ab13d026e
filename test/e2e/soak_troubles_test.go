package e2e

import (
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
)

// theirs is the name that somebody else gives a server.
const theirs = "theirs"

// soakTroubles happen to a busy fleet. What begin returns ends it; nil: it ends by itself.
var soakTroubles = []struct {
	name  string
	begin func(*soak) (mend func())
}{
	{"a Mac reboots", (*soak).rebootsAMac},
	{"a Mac has no power", (*soak).cutsPower},
	{"an agent is killed", (*soak).killsAnAgent},
	{"the fleet is smaller for a while", func(s *soak) func() {
		s.scale(soakFleet - 2)
		return func() { s.scale(soakFleet) }
	}},
	{"all Machines are replaced", (*soak).replacesAll},
	{"the profile changes", func(s *soak) func() {
		s.setProfile(fmt.Sprintf(`{"spec":{"node":{"labels":{"ci.example/turn":"t%d"}}}}`, s.random.IntN(1e6)))
		return nil
	}},
	{"the vendor is away for half an hour", func(s *soak) func() {
		mend := s.vendorFault(scaleway.Fault{Status: http.StatusServiceUnavailable})
		s.passes(30 * time.Second)
		return mend
	}},
	{"the vendor fails one call in ten", func(s *soak) func() {
		return s.vendorFault(scaleway.Fault{Status: http.StatusInternalServerError, Probability: .1})
	}},
	{"the vendor loses one answer in ten", func(s *soak) func() {
		return s.vendorFault(scaleway.Fault{Drop: true, When: scaleway.AfterEffect, Probability: .1})
	}},
	{"the vendor's lists lag", func(s *soak) func() {
		return s.turn(func(k *scaleway.Knobs, on bool) {
			k.ListLag = map[bool]scaleway.Duration{true: scaleway.Duration(2 * time.Second)}[on]
		})
	}},
	{"reinstalls fail", func(s *soak) func() {
		return s.turn(func(k *scaleway.Knobs, on bool) { k.Reinstall = map[bool]string{true: scaleway.EndsInError}[on] })
	}},
	{"the manager is killed", func(s *soak) func() {
		s.restartManager("in a soak")
		return nil
	}},
	{"a free Mac is kept out of the pool", (*soak).quarantines},
	{"somebody else names a free Mac", (*soak).namesAFreeMac},
	{"a Mac is drained", (*soak).drains},
	{"a Mac is given back at its floor, and one is bought", (*soak).replacesAServer},
	{"a Machine is lost and restored from a backup", (*soak).restoresAMachine},
}

func (s *soak) rebootsAMac() func() {
	if m, _ := s.anyMac(); m != nil {
		s.must(m.Reboot(s.Context()))
	}
	return nil
}

func (s *soak) cutsPower() func() {
	m, _ := s.anyMac()
	if m == nil {
		return nil
	}
	s.must(m.Stop(s.Context()))
	return func() { s.must(m.Start(s.Context())) }
}

func (s *soak) killsAnAgent() func() {
	if m, _ := s.anyMac(); m != nil {
		_, _ = m.AsRoot(s.Context(), "/bin/launchctl kickstart -k system/dev.macfleet.tart-kubelet") // it may be off
	}
	return nil
}

// anyMac is one of the fleet's, and its Machine; nil: none is.
func (s *soak) anyMac() (m *mac.Mac, machine string) {
	owners := s.owners()
	for _, n := range s.nodes() {
		for id, owner := range owners {
			if owner != n.Name || !nodeReady(n) {
				continue
			}
			if at, found := s.world.Mac(id); found && (m == nil || s.random.IntN(2) == 0) {
				m, machine = at, owner
			}
		}
	}
	return m, machine
}

// anyFree is a host that nobody has.
func (s *soak) anyFree() (id string, is bool) {
	for _, h := range s.hosts() {
		if h.Status.Phase == infrav1.HostAvailable {
			return h.Spec.ServerID, true
		}
	}
	return "", false
}

func (s *soak) replacesAll() func() {
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: world.Fleet}}
	patch := fmt.Appendf(nil, `{"spec":{"rollout":{"after":%q}}}`, time.Now().UTC().Format(time.RFC3339))
	s.must(s.client.Patch(s.Context(), deployment, client.RawPatch("application/merge-patch+json", patch)))
	return nil
}

func (s *soak) turn(knob func(k *scaleway.Knobs, on bool)) func() {
	set := func(on bool) { s.must(s.world.Vendor().Turn(func(k *scaleway.Knobs) { knob(k, on) })) }
	set(true)
	return func() { set(false) }
}

func (s *soak) quarantines() func() {
	id, is := s.anyFree()
	if !is {
		return nil
	}
	s.patchHost(id, `{"spec":{"quarantine":{"reason":"fans scream"}}}`)
	return func() { s.patchHost(id, `{"spec":{"quarantine":null}}`) }
}

// namesAFreeMac gives it its name back later: its Machine's, where a claim was quicker.
func (s *soak) namesAFreeMac() func() {
	id, is := s.anyFree()
	if !is {
		return nil
	}
	name := s.server(id).Name
	s.world.Vendor().Rename(id, theirs)
	return func() {
		if claim := s.hostOf(id).Spec.ClaimRef; claim != nil {
			name = claim.Name
		}
		s.world.Vendor().Rename(id, name)
	}
}

func (s *soak) drains() func() {
	_, node := s.anyMac()
	if node == "" {
		return nil
	}
	s.try(nil, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=30s")
	return func() { s.try(nil, "uncordon", node) } // which may be gone
}

// replacesAServer deletes a Machine whose server goes back to the vendor, and buys another one.
func (s *soak) replacesAServer() func() {
	for id, owner := range s.owners() {
		var m infrav1.ScalewayAppleSiliconMachine
		if s.client.Get(s.Context(), client.ObjectKey{Namespace: world.Namespace, Name: owner}, &m) != nil || m.DeletionTimestamp != nil {
			continue
		}
		s.world.Vendor().SetFloor(id, time.Now().Add(time.Minute)) // an hour
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"terminate"}}}`, infrav1.ReleasePolicyAnnotation)
		s.must(s.client.Patch(s.Context(), &m, client.RawPatch("application/merge-patch+json", patch)))
		core := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: owner}}
		s.must(client.IgnoreNotFound(s.client.Delete(s.Context(), core)))
		return s.buys(id)
	}
	return nil
}

// buys a server once the other one is gone.
func (s *soak) buys(instead string) func() {
	return func() {
		s.await("the server to be given back", func() (string, bool) {
			_, there := s.world.Vendor().Server(instead)
			return s.phases(), !there
		})
		_, err := s.world.Vendor().AddServer(s.Context(), scaleway.ServerSpec{
			Name: fmt.Sprintf("%sbought-%d", world.PoolPrefix, s.random.IntN(1e6)), Type: world.ServerType, Zone: world.Zone, OS: world.OS,
		})
		s.must(err)
	}
}

// restoresAMachine has both objects of a Machine gone by force, and comes with them from a backup.
func (s *soak) restoresAMachine() func() {
	_, name := s.anyMac()
	for _, core := range s.machines() {
		if core.Name != name {
			continue
		}
		var infra infrav1.ScalewayAppleSiliconMachine
		s.must(s.client.Get(s.Context(), client.ObjectKey{Namespace: world.Namespace, Name: name}, &infra))
		s.pauseSets(true) // no replacement meanwhile
		s.forceAway(&core, &infra)
		owner := &clusterv1.Machine{ObjectMeta: kept(&core), Spec: *core.Spec.DeepCopy()}
		s.create(owner)
		again := manifest(&infra)
		again.OwnerReferences = nil
		s.create(again)
		return func() { s.pauseSets(false) }
	}
	return nil
}

func (s *soak) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
