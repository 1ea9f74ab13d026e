package host

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// stillOurs fails the test when a wipe counts that never began.
func (w *world) stillOurs() {
	w.t.Helper()
	wipe := w.host().Spec.Record.Wipe
	if wipe.StartedAt != nil || wipe.ObservedAt != nil || w.phase() != infrav1.HostReleasing || w.serverName() != "m-1" {
		w.t.Fatalf("phase %s, named %s, record %+v", w.phase(), w.serverName(), wipe)
	}
}

func TestAnAcknowledgedReinstallThatNeverBeginsIsAskedForAgainAfterAMinute(t *testing.T) {
	w := inUse(t)
	w.guard()
	guarded := w.cloud.OnCall
	w.cloud.OnCall = func(call cloudtest.Call) {
		guarded(call)
		if call.Name == "ReinstallServer" {
			w.cloud.Finish(serverID) // a yes, and nothing happens
		}
	}
	w.release()
	w.until("acknowledged", func() bool { return len(w.mutations()) == 1 })
	for began := w.clock.Now(); w.clock.Since(began) < host.RepeatWipe-20*time.Second; {
		w.must(w.step())
		w.stillOurs()
	}
	if got := w.mutations(); len(got) != 1 {
		t.Fatalf("asked again within a minute: %v", got)
	}
	w.until("asked again", func() bool { return len(w.mutations()) == 2 })
	w.stillOurs()
	w.start(w.r.Options) // the time is lost with the process: ask again at once
	w.must(w.step())
	if got := w.mutations(); len(got) != 3 {
		t.Fatalf("after a restart: %v", got)
	}
	w.cloud.OnCall = guarded
	w.wiped()
	w.checkFree()
}

func TestReadingsThatLagBehindTheReinstallProveNothing(t *testing.T) {
	w := inUse(t)
	w.cloud.Freeze(serverID)
	w.release()
	for range 4 {
		w.must(w.step())
		w.stillOurs()
	}
	w.cloud.Thaw(serverID)
	w.wiped()
	w.checkFree()
	if diff := cmp.Diff([]string{"ReinstallServer", "RenameServer " + poolName}, w.mutations()); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
}

// A reading counts from when it began: one that was answered late tells nothing
// of the time of its answer.
func TestASlowReadingFromBeforeTheWipeDoesNotEndIt(t *testing.T) {
	w := inUse(t)
	slow := false
	w.cloud.OnCall = func(call cloudtest.Call) {
		if call.Name != "GetServer" {
			return
		}
		if wipe := w.host().Spec.Record.Wipe; wipe.StartedAt != nil {
			slow = true
			w.clock.Step(time.Minute)
			return
		}
		if server, _ := w.cloud.Server(serverID); server.Status == cloud.StatusReinstalling {
			w.cloud.Finish(serverID)
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = poolName })
			w.cloud.Freeze(serverID) // from now on readings are of before
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReinstalling })
		}
	}
	w.release()
	_, err := w.reconcile()
	w.must(err)
	if wipe := w.host().Spec.Record.Wipe; !slow || wipe.StartedAt == nil || wipe.ObservedAt != nil {
		t.Errorf("slow %v, record %+v", slow, wipe)
	}
}

func TestAnOldReadingIsTakenAgainBeforeARename(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	w.cloud.Forget()
	slow := true
	w.cloud.OnCall = func(call cloudtest.Call) {
		if call.Name == "GetServer" && slow {
			slow = false
			w.clock.Step(w.r.Settle - renameDeadline + 1)
		}
	}
	_, err := w.reconcile()
	w.must(err)
	if got := w.mutations(); len(got) != 0 {
		t.Fatalf("mutations %v", got)
	}
	w.untilPhase(infrav1.HostInUse)
}

func TestAnOldReadingIsTakenAgainBeforeAnAdoption(t *testing.T) {
	w := foreign(t)
	w.wish(false)
	slow := true
	w.cloud.OnCall = func(call cloudtest.Call) {
		// Before the name is on record nothing would be renamed.
		if wish := w.host().Spec.Adopt; call.Name == "GetServer" && slow && wish != nil && wish.ServerName != "" {
			slow = false
			w.clock.Step(w.r.Settle - renameDeadline + 1)
		}
	}
	for i := 0; slow && i < 6; i++ {
		_, err := w.reconcile()
		w.must(err)
	}
	if got := w.mutations(); slow || len(got) != 0 {
		t.Fatalf("never slow: %v; mutations %v", slow, got)
	}
	w.wiped()
}

func TestAnOldReadingIsTakenAgainBeforeTheNameIsGivenBack(t *testing.T) {
	w := inUse(t)
	w.release()
	slow := true
	w.cloud.OnCall = func(call cloudtest.Call) {
		if call.Name == "GetServer" && slow && w.host().Spec.Record.Wipe.StartedAt != nil {
			slow = false
			w.clock.Step(w.r.Settle - renameDeadline + 1)
		}
	}
	_, err := w.reconcile()
	w.must(err)
	if diff := cmp.Diff([]string{"ReinstallServer"}, w.mutations()); slow || diff != "" {
		t.Fatalf("mutations (-want +got):\n%s", diff)
	}
	w.wiped()
	w.checkFree()
}

// Another cluster may claim and show a Mac of a pool name while this one is about to wipe it
// or to give it back: what takes that long is decided by another reading.
func TestAnOldReadingIsTakenAgainBeforeTheWipeAndTheDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		policy infrav1.ReleasePolicy
		slow   string
		due    func(infrav1.WipeRecord) bool
		never  string
	}{
		"a slow reading before the wipe":        {infrav1.Recycle, "GetServer", func(wipe infrav1.WipeRecord) bool { return wipe.RequestedAt != nil }, "ReinstallServer"},
		"slow images before the wipe":           {infrav1.Recycle, "FindOS", func(infrav1.WipeRecord) bool { return true }, "ReinstallServer"},
		"a slow reading before the deletion":    {infrav1.Terminate, "GetServer", func(wipe infrav1.WipeRecord) bool { return wipe.StartedAt != nil }, "DeleteServer"},
		"a slow refusal of the wipe before one": {infrav1.Terminate, "ReinstallServer", func(infrav1.WipeRecord) bool { return true }, "DeleteServer"},
	} {
		for _, theirs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, another's by then %v", name, theirs), func(t *testing.T) {
				w := newWorld(t)
				w.untilPhase(infrav1.HostAvailable)
				w.claim("m-1", "t-1")
				w.releaseAs(c.policy) // before it was shown
				h := w.host()
				h.Spec.Release.OSFamily = "tahoe"
				w.must(w.client.Update(w.ctx, h))
				slow := false
				w.cloud.OnCall = func(call cloudtest.Call) {
					if call.Name != c.slow || slow || !c.due(w.host().Spec.Record.Wipe) {
						return
					}
					slow = true
					w.clock.Step(w.r.Settle - renameDeadline + 1)
					w.cloud.Forget()
					if theirs {
						w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "theirs-1" })
					}
				}
				w.cloud.Fault = func(call cloudtest.Call) (before, after error) {
					if call.Name == "ReinstallServer" && c.slow == call.Name {
						w.cloud.OnCall(call)
						return cloudtest.Err(cloud.KindForbidden), nil
					}
					return nil, nil
				}
				for range 8 {
					_ = w.step()
				}
				if got := w.called(c.never); !slow || (got > 0) == theirs {
					t.Errorf("slow %v: calls %v", slow, w.cloud.Calls())
				}
				if got := w.called("FindOS"); c.slow == "FindOS" && got > 0 {
					t.Errorf("looked for images %d times more", got)
				}
			})
		}
	}
}

// Another writer comes between the decision and the act.
func meanwhile() map[string]func(*world) {
	return map[string]func(*world){
		"the release is taken back": func(w *world) {
			h := w.host()
			h.Spec.Release = nil
			w.must(w.client.Update(w.ctx, h))
		},
		"the release is of another kind now": func(w *world) {
			h := w.host()
			was := h.Spec.Release.Policy
			if h.Spec.Release.Policy = infrav1.Terminate; was == infrav1.Terminate {
				h.Spec.Release.Policy = infrav1.Recycle
			}
			w.must(w.client.Update(w.ctx, h))
		},
		"another claim is released": func(w *world) {
			h := w.host()
			h.Spec.ClaimRef.Token, h.Spec.Release.Token = "t-2", "t-2"
			w.must(w.client.Update(w.ctx, h))
		},
		"another object of this name": func(w *world) {
			h := w.host()
			h.Finalizers = nil
			w.must(w.client.Update(w.ctx, h))
			w.must(w.client.Delete(w.ctx, h))
			h.UID, h.ResourceVersion = "another", ""
			w.must(w.client.Create(w.ctx, h))
		},
	}
}

func TestNothingIsDoneWithoutAFreshLicence(t *testing.T) {
	requested := func(wipe infrav1.WipeRecord) bool { return wipe.RequestedAt != nil }
	started := func(wipe infrav1.WipeRecord) bool { return wipe.StartedAt != nil }
	observed := func(wipe infrav1.WipeRecord) bool { return wipe.ObservedAt != nil }
	for act, c := range map[string]struct {
		policy infrav1.ReleasePolicy
		due    func(infrav1.WipeRecord) bool
	}{
		"ReinstallServer": {infrav1.Recycle, requested},
		"RenameServer":    {infrav1.Recycle, observed},
		"DeleteServer":    {infrav1.Terminate, started},
	} {
		for name, change := range meanwhile() {
			t.Run(act+", but "+name, func(t *testing.T) {
				w := inUse(t)
				w.releaseAs(c.policy)
				done := false
				w.cloud.OnCall = func(call cloudtest.Call) {
					if call.Name == "GetServer" && !done && c.due(w.host().Spec.Record.Wipe) {
						done = true
						w.cloud.Forget()
						change(w)
					}
				}
				for range 60 {
					if done {
						break
					}
					_ = w.step()
					w.cloud.Finish(serverID)
				}
				if got := w.mutations(); !done || len(got) != 0 {
					t.Errorf("%v: mutations %v", done, got)
				}
			})
		}
	}
}

func TestAStaleFreeDoesNotTakeTheNextOwnersClaim(t *testing.T) {
	w := inUse(t)
	w.release()
	w.untilReinstalling()
	w.cloud.Finish(serverID)
	next := infrav1.ClaimReference{Cluster: "c", Namespace: "fleet", Name: "m-2", Token: "t-2"}
	done := false
	w.cloud.OnCall = func(call cloudtest.Call) {
		if h := w.host(); call.Name == "GetServer" && !done && h.Spec.Record.Wipe.ObservedAt != nil {
			done = true // this manager was slow: another has freed the host, and it is claimed
			host.Free(h)
			host.Claim(h, next, w.clock.Now())
			w.must(w.client.Update(w.ctx, h))
		}
	}
	for range 10 {
		if done {
			break
		}
		w.must(w.step())
	}
	h := w.host()
	if diff := cmp.Diff(&next, h.Spec.ClaimRef); !done || diff != "" || h.Spec.Record.Wipe.RequiredSince == nil || host.Clean(h) {
		t.Errorf("claim (-want +got):\n%s\nrecord %+v", diff, h.Spec.Record)
	}
}

// The answer to a status tells the version of the host as it is by now: a spec that was read
// before must not go with it.
func TestAClaimThatHasEndedDoesNotComeBackWithAStatus(t *testing.T) {
	w := inUse(t)
	w.release()
	freed := false
	w.writeFault = func(int) (before, after error) {
		if !freed {
			freed = true // this manager was slow: another has wiped the host, and freed it
			h := w.host()
			host.RecordWipe(h, w.clock.Now())
			host.RecordWipeStart(h, w.clock.Now())
			host.RecordWiped(h, w.clock.Now())
			host.Free(h)
			w.must(w.client.Update(w.ctx, h))
			w.cloud.Forget()
		}
		return nil, nil
	}
	_, _ = w.reconcile() // it may fail: another look follows
	if h := w.host(); !freed || h.Spec.ClaimRef != nil || h.Spec.Release != nil || !host.Clean(h) || len(w.mutations()) != 0 {
		t.Errorf("spec %+v, mutations %v", h.Spec, w.mutations())
	}
}

func TestAHostThatIsClaimedMeanwhileIsNotRetired(t *testing.T) {
	w := newWorld(t)
	w.another(1)
	w.untilPhase(infrav1.HostAvailable)
	w.cloud.Remove(serverID)
	w.inventory.Sweep(w.ctx)
	w.clock.Step(time.Minute)
	w.inventory.Sweep(w.ctx)
	claimed := false
	w.writeFault = func(int) (before, after error) {
		if !claimed {
			claimed = true
			w.claim("m-1", "t-1")
		}
		return nil, nil
	}
	_, err := w.reconcile()
	if h := w.host(); !claimed || h == nil || h.Spec.ClaimRef == nil {
		t.Errorf("host %+v after %v", h, err)
	}
}

// A claim that was never shown may have left a lost name behind.
func TestALostNameIsForgottenBeforeTheWipe(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "other-cluster-7" })
	w.claim("m-1", "t-1")
	w.until("lost", func() bool { return w.reason(infrav1.NameInSyncCondition) == infrav1.ReasonChangedByOther })
	w.guard()
	w.release()
	w.must(w.step())
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = prefix + "1" })
	w.wiped()
	w.checkFree()
}

// Another manager saw the wipe start, in a reading that is newer than ours.
func TestAWipeThatWasSeenToStartMeanwhileIsNotAskedForAgain(t *testing.T) {
	w := inUse(t)
	w.release()
	done := false
	w.cloud.OnCall = func(call cloudtest.Call) {
		if h := w.host(); call.Name == "GetServer" && !done && h.Spec.Record.Wipe.RequestedAt != nil {
			done = true
			host.RecordWipeStart(h, w.clock.Now())
			w.must(w.client.Update(w.ctx, h))
		}
	}
	_, err := w.reconcile()
	if got := w.mutations(); !done || len(got) != 0 {
		t.Errorf("%t: mutations %v, %v", done, got, err)
	}
}
