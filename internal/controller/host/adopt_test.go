package host

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

func (w *world) wish(trust bool) {
	w.t.Helper()
	h := w.host()
	h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: prefix, TrustDisk: trust}
	w.must(w.client.Update(w.ctx, h))
}

// foreign is a world with a server that nobody here knows.
func foreign(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "jane-test" })
	w.untilPhase(infrav1.HostForeign)
	return w
}

// abandoned is a world with a host that was let go unwiped, and whose Machine is gone.
func abandoned(t *testing.T) *world {
	t.Helper()
	w := dirty(t)
	w.must(w.client.Delete(w.ctx, w.owner()))
	return w
}

// adopting is the name of a server from its adoption to the end of its wipe.
const adopting = "adopting." + serverID

func TestAForeignHostIsAdoptedByAWipe(t *testing.T) {
	w := foreign(t)
	w.guard()
	w.wish(false)
	w.until("claimed", func() bool { return w.host().Spec.Adopt == nil })
	h := w.host()
	if h.Spec.Release == nil || h.Spec.Release.Origin != infrav1.OriginAdoption || h.Spec.ClaimRef.Name != adopting || !host.WipeAllowed(h) {
		t.Fatalf("spec %+v", h.Spec)
	}
	w.wiped()
	if diff := cmp.Diff([]string{"RenameServer " + adopting, "ReinstallServer", "RenameServer " + poolName}, w.mutations()); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
	if h := w.host(); !host.Clean(h) || h.Spec.ClaimRef != nil || len(h.Finalizers) != 0 {
		t.Errorf("host %+v", h)
	}
}

func TestANotWipedHostIsAdoptedByAWipe(t *testing.T) {
	w := abandoned(t)
	w.cloud.Forget()
	w.wish(false)
	w.wiped()
	if !host.Clean(w.host()) || w.called("ReinstallServer") != 1 {
		t.Errorf("record %+v", w.host().Spec.Record)
	}
}

func TestATrustedDiskIsNotWiped(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *world{"foreign": foreign, "not wiped": abandoned} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.cloud.Forget()
			epoch := w.host().Spec.Record.InstallEpoch
			w.wish(true)
			w.untilPhase(infrav1.HostAvailable)
			if w.called("ReinstallServer") != 0 || w.told("Warning "+host.ReasonTrusted) != 1 {
				t.Errorf("calls %v", w.cloud.Calls())
			}
			if h := w.host(); h.Spec.Adopt != nil || h.Spec.Record.InstallEpoch != epoch+1 {
				t.Errorf("spec %+v", h.Spec)
			}
		})
	}
}

// A server that was renamed for its adoption may be named by another management cluster
// before this one looks again. The wish must not take it back.
func TestAnAdoptedServerThatAnotherClusterNamesIsLeftToIt(t *testing.T) {
	for _, trust := range []bool{false, true} {
		t.Run(fmt.Sprintf("trusting %v", trust), func(t *testing.T) {
			w := foreign(t)
			w.cloud.Forget()
			w.wish(trust)
			w.cloud.OnCall = func(call cloudtest.Call) {
				if call.Name == "GetServer" && w.called("RenameServer") > 0 {
					w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "theirs-1" })
				}
			}
			for range 8 {
				w.must(w.step())
			}
			if got := w.mutations(); len(got) != 1 || w.called("RenameServer") != 1 {
				t.Errorf("want one rename: %v", got)
			}
			if h := w.host(); h.Spec.Adopt != nil || h.Spec.ClaimRef != nil || h.Spec.Record.InstallEpoch != 0 || w.told("Warning AdoptionDropped") != 1 {
				t.Errorf("spec %+v", h.Spec)
			}
		})
	}
}

func TestAdoptionTakesNothingFromALiveMachine(t *testing.T) {
	machine := func(change func(*infrav1.ScalewayAppleSiliconMachine)) func(*world) {
		return func(w *world) {
			m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "m-7"}}
			change(m)
			w.must(w.client.Create(w.ctx, m))
		}
	}
	edit := func(change func(*host.Host)) func(*world) {
		return func(w *world) {
			h := w.host()
			change(h)
			w.must(w.client.Update(w.ctx, h))
		}
	}
	for name, row := range map[string]struct {
		arrange func(*world)
		reason  string
	}{
		"by name":      {machine(func(m *infrav1.ScalewayAppleSiliconMachine) { m.Name = "jane-test" }), host.ReasonOwned},
		"by server id": {machine(func(m *infrav1.ScalewayAppleSiliconMachine) { m.Status.ServerID = serverID }), host.ReasonOwned},
		"by choice": {machine(func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Spec.HostRef = &infrav1.HostReference{Name: host.ObjectName(zone, serverID), ClaimToken: "t-7"}
		}), host.ReasonOwned},
		"handed over": {edit(func(h *host.Host) { at := metav1.NowMicro(); h.Spec.Record.HandedOverAt = &at }), ""},
		"maintenance": {edit(func(h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{} }), infrav1.ReasonMaintenance},
		"prefix":      {machine(func(m *infrav1.ScalewayAppleSiliconMachine) { m.Name = prefix + "macs-1" }), host.ReasonBadPrefix},
	} {
		for _, trust := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, trusting %v", name, trust), func(t *testing.T) {
				w := foreign(t)
				row.arrange(w)
				w.cloud.Forget()
				w.wish(trust)
				for range 4 {
					w.must(w.step())
				}
				if h := w.host(); len(w.mutations()) != 0 || h.Spec.Release != nil || h.Spec.Adopt == nil {
					t.Errorf("mutations %v, spec %+v", w.mutations(), h.Spec)
				}
				if got := w.reason(host.AdoptedCondition); row.reason != "" && (got != row.reason || w.told("Warning AdoptionWaits") != 1) {
					t.Errorf("reason %q", got)
				}
			})
		}
	}
}

func TestAMachineOfANamespaceThatIsNotWatchedKeepsItsMac(t *testing.T) {
	w := foreign(t)
	w.confine()
	w.machine("m-7", func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Namespace, m.Spec.ProviderID = "elsewhere", host.ProviderID(zone, serverID)
	})
	w.wish(false)
	w.steps(4)
	if h := w.host(); len(w.mutations()) != 0 || h.Spec.Release != nil || w.reason(host.AdoptedCondition) != host.ReasonOwned {
		t.Errorf("mutations %v, spec %+v", w.mutations(), h.Spec)
	}
}

// The name is that of a Machine with another Mac: a person may adopt it, unless it works.
func TestTheSecondServerOfAMachinesNameIsAdopted(t *testing.T) {
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
		t.Run("Node Ready "+string(ready), func(t *testing.T) {
			w := foreign(t)
			w.machine("jane-test", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.ProviderID = host.ProviderID(zone, strayID(1)) })
			w.must(w.client.Create(w.ctx, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "jane-test"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
			}))
			if got := testutil.ToFloat64(w.counted().orphans.WithLabelValues(zone, "foreign")); got != 1 {
				t.Errorf("counted %v times", got)
			}
			w.cloud.Forget()
			w.wish(false)
			if ready == corev1.ConditionFalse {
				w.wiped()
				return
			}
			for range 4 {
				w.must(w.step())
			}
			if len(w.mutations()) != 0 || w.reason(host.AdoptedCondition) != host.ReasonOwned {
				t.Errorf("mutations %v", w.mutations())
			}
		})
	}
}

func TestAMachineThatComesMeanwhileKeepsItsMac(t *testing.T) {
	w := foreign(t)
	w.wish(true)
	w.cloud.Forget()
	w.cloud.OnCall = func(call cloudtest.Call) {
		m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "jane-test"}}
		if call.Name == "GetServer" && w.client.Get(w.ctx, client.ObjectKeyFromObject(m), m) != nil {
			w.must(w.client.Create(w.ctx, m))
		}
	}
	for range 3 {
		w.must(w.step())
	}
	if len(w.mutations()) != 0 || w.reason(host.AdoptedCondition) != host.ReasonOwned {
		t.Errorf("mutations %v", w.mutations())
	}
}

func TestAWishThatIsTakenBackMeanwhileRenamesNothing(t *testing.T) {
	for name, change := range map[string]func(*host.Host){
		"taken back":  func(h *host.Host) { h.Spec.Adopt = nil },
		"maintenance": func(h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{} },
		"claimed": func(h *host.Host) {
			host.Claim(h, infrav1.ClaimReference{Namespace: "fleet", Name: "jane-test", Token: "t-8"}, h.CreationTimestamp.Time)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := foreign(t)
			w.wish(true)
			w.cloud.Forget()
			done := false
			w.cloud.OnCall = func(call cloudtest.Call) {
				if call.Name == "GetServer" && !done {
					done = true
					h := w.host()
					change(h)
					w.must(w.client.Update(w.ctx, h))
				}
			}
			_, err := w.reconcile()
			if !done || len(w.mutations()) != 0 {
				t.Errorf("%v: mutations %v after %v", done, w.mutations(), err)
			}
		})
	}
}

// A wish of before a claim must not lie in wait for its end: trusting the disk
// then would let an unwiped Mac into the pool.
func TestAWishForAClaimedHostIsDropped(t *testing.T) {
	w := inUse(t)
	w.wish(true)
	w.must(w.step())
	if w.host().Spec.Adopt != nil || w.told("Warning AdoptionDropped") != 1 || w.phase() != infrav1.HostInUse {
		t.Errorf("spec %+v", w.host().Spec)
	}
}

func TestAHostBeingAdoptedIsNotAvailable(t *testing.T) {
	w := foreign(t)
	w.wish(true)
	w.cloud.OnCall = func(call cloudtest.Call) {
		if call.Name == "RenameServer" {
			w.killed = true // right after the rename: the disk is not trusted yet
		}
	}
	w.until("named", func() bool { return w.serverName() == poolName })
	w.inventory.Sweep(w.ctx)
	h := w.host()
	h.Status.Server.Name = poolName
	if got := host.Unavailable(h, prefix); got != host.SkipAdopting {
		t.Errorf("skipped as %q", got)
	}
	w.untilPhase(infrav1.HostAvailable)
}

func TestACrashOfAnAdoptionConverges(t *testing.T) {
	for _, trust := range []bool{false, true} {
		for _, kind := range []string{"vendor", "api"} {
			for _, after := range []bool{false, true} {
				for n := range 10 {
					t.Run(fmt.Sprintf("trusting %v, %s call %d, after its effect: %v", trust, kind, n, after), func(t *testing.T) {
						t.Parallel()
						w := foreign(t)
						w.failOnce(kind, n, after)
						w.wish(trust)
						if !trust {
							w.wiped()
						}
						w.untilPhase(infrav1.HostAvailable)
						if h := w.host(); w.serverName() != poolName || h.Spec.Adopt != nil || h.Spec.ClaimRef != nil {
							t.Errorf("spec %+v", h.Spec)
						}
					})
				}
			}
		}
	}
}

// The recipe of docs/operate/hosts.md: a person records the release of a host
// whose Machine vanished.
func TestAStrandedHostIsWipedOnceAPersonReleasesIt(t *testing.T) {
	w := inUse(t)
	w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1"}}))
	w.untilPhase(infrav1.HostStranded)
	for range 5 {
		w.clock.Step(time.Hour)
		w.must(w.step())
	}
	if len(w.mutations()) != 0 {
		t.Fatalf("mutations %v", w.mutations())
	}
	w.guard()
	patch := `{"spec":{"release":{"token":"t-1","policy":"Recycle","poolPrefix":"tuist-pool-","requestedAt":"2026-11-20T18:00:00.000000Z"}}}`
	w.must(w.client.Patch(w.ctx, w.host(), client.RawPatch("application/merge-patch+json", []byte(patch))))
	w.wiped()
	w.checkFree()
}
