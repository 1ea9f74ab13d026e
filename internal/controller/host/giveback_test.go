package host

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// A Mac that no Machine has, and that a person gives back, goes with its object.
func TestAMacThatNobodyHasIsGivenBack(t *testing.T) {
	w := newWorld(t)
	w.another(1)
	w.untilPhase(infrav1.HostAvailable)
	w.licensed(infrav1.Terminate)
	h := w.host()
	host.GiveBack(h, "by-hand", w.clock.Now())
	w.must(w.client.Update(w.ctx, h))
	w.until("removed", func() bool { return w.host() == nil })
	if diff := cmp.Diff([]string{"ReinstallServer", "DeleteServer"}, w.mutations()); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
}

// Who deletes the object of a Mac that is given back forgets neither its wipe nor its return.
func TestAMacThatIsGivenBackOutlivesItsObjectsDeletion(t *testing.T) {
	w := newWorld(t)
	w.another(1)
	w.untilPhase(infrav1.HostAvailable)
	w.during("ReinstallServer", func() { w.must(w.client.Delete(w.ctx, w.host())) })
	h := w.host()
	host.GiveBack(h, "by-hand", w.clock.Now())
	w.must(w.client.Update(w.ctx, h))
	w.until("removed", func() bool { return w.called("ReinstallServer") == 1 && w.host() == nil })
	if diff := cmp.Diff([]string{"ReinstallServer", "DeleteServer"}, w.mutations()); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
}

// Lists lag: another management cluster claimed the Mac before a person, or the policy for
// unknown pasts, released it here. It is theirs, also when they let it go much later.
func TestAMacThatAnotherClusterHadFirstIsLetGo(t *testing.T) {
	for name, release := range map[string]func(*host.Host, time.Time){
		"given back": func(h *host.Host, now time.Time) { host.GiveBack(h, "by-hand", now) },
		"adopted": func(h *host.Host, now time.Time) {
			h.Finalizers = []string{infrav1.HostFinalizer}
			h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: prefix}
			host.Adopt(h, "by-hand", now)
		},
		"unseen": func(h *host.Host, now time.Time) { host.WipeUnseen(h, prefix, "by-policy", now) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.another(1)
			w.untilPhase(infrav1.HostAvailable)
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "other-cluster-7" })
			h := w.host()
			release(h, w.clock.Now())
			w.must(w.client.Update(w.ctx, h))
			if _, err := w.reconcile(); err != nil { // before any list
				t.Fatal(err)
			}
			if h = w.host(); h.Spec.ClaimRef != nil || h.Spec.Release != nil || len(h.Finalizers) != 0 || w.told("Warning ForeignName") != 1 {
				t.Fatalf("held: %+v", h)
			}
			w.untilPhase(infrav1.HostForeign)
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = poolName }) // days later
			w.untilPhase(infrav1.HostDirty)                                       // no wipe was seen here
			w.clock.Step(DefaultReinstallTimeout)
			for range 4 {
				w.must(w.step())
			}
			if got := w.mutations(); len(got) != 0 || w.phase() != infrav1.HostDirty {
				t.Errorf("phase %s, mutations %v", w.phase(), got)
			}
		})
	}
}

// Another management cluster took the Mac after its deletion was scheduled: that a reading
// shows the schedule hides no name from the give-back, which would have it deleted again.
func TestAMacThatAnotherClusterTookAfterItsScheduleIsLetGo(t *testing.T) {
	for name, wiped := range map[string]bool{"being wiped": false, "wiped": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.untilPhase(infrav1.HostAvailable)
			w.cloud.Floor = true
			h := w.host()
			host.GiveBack(h, "by-hand", w.clock.Now())
			w.must(w.client.Update(w.ctx, h))
			w.untilPhase(infrav1.HostRetiring)
			if wiped {
				w.cloud.Finish(serverID)
				w.until("observed", func() bool { return w.host().Spec.Record.Wipe.ObservedAt != nil })
			}
			w.must(w.step())
			w.cloud.Forget()
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "other-cluster-7" })
			w.until("let go", func() bool { return w.host().Spec.ClaimRef == nil })
			if h = w.host(); h.Spec.Release != nil || len(h.Finalizers) != 0 || w.told("Warning ForeignName") != 1 {
				t.Fatalf("held: %+v", h)
			}
			w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletionScheduled = false }) // for its new owner
			w.stepFor(20 * time.Minute)
			if got := w.mutations(); len(got) != 0 || w.phase() == infrav1.HostAvailable {
				t.Errorf("phase %s, mutations %v", w.phase(), got)
			}
		})
	}
}

// Another management cluster with a pool of its own took the Mac while its release was held,
// and has freed it: it is in their pool, and theirs.
func TestAMacThatAnotherClusterFreesIsNotWiped(t *testing.T) {
	for _, policy := range []infrav1.ReleasePolicy{infrav1.Recycle, infrav1.Terminate} {
		w := inUse(t)
		w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "other-cluster-7" })
		w.releaseAs(policy)
		w.stepFor(time.Minute)
		w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "theirs-" + serverID })
		w.stepFor(time.Hour)
		if got := w.mutations(); len(got) != 0 || w.reason(infrav1.NameInSyncCondition) != infrav1.ReasonChangedByOther {
			t.Errorf("%s: mutations %v, NameInSync %s", policy, got, w.reason(infrav1.NameInSyncCondition))
		}
	}
}

// A free Mac of another cluster's pool is Foreign here, also by a look that fails in between.
func TestAMacOfAnotherClustersPoolIsForeign(t *testing.T) {
	w := newWorld(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "theirs-" + serverID })
	w.untilPhase(infrav1.HostForeign)
	h := w.host()
	h.Spec.Quarantine = &infrav1.Quarantine{Reason: "over", Until: ptr.To(metav1.NewTime(w.clock.Now()))}
	w.must(w.client.Update(w.ctx, h))
	next := w.written()
	w.writeFault = func(n int) (error, error) {
		if n == next {
			return errors.New("the end of the quarantine meets a conflict"), nil
		}
		return nil, nil
	}
	if _, err := w.reconcile(); err == nil || w.phase() != infrav1.HostForeign {
		t.Errorf("phase %s, error %v", w.phase(), err)
	}
}
