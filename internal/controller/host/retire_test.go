package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// releaseAs does the machine controller's part of a release with a policy. A
// Machine that keeps its host stays.
func (w *world) releaseAs(policy infrav1.ReleasePolicy) {
	w.t.Helper()
	h := w.host()
	h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: policy, RequestedAt: metav1.NewMicroTime(w.clock.Now())}
	if policy == infrav1.Recycle {
		h.Spec.Release.PoolPrefix = prefix
	}
	w.must(w.client.Update(w.ctx, h))
	if policy != infrav1.Reinstall {
		w.must(client.IgnoreNotFound(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: h.Spec.ClaimRef.Name},
		})))
	}
}

// called tells how often a call was made.
func (w *world) called(name string) int {
	n := 0
	for _, call := range w.cloud.Calls() {
		if call.Name == name {
			n++
		}
	}
	return n
}

// told counts the events so far whose text begins so, and forgets all of them.
func (w *world) told(start string) int {
	n := 0
	recorder := w.r.Recorder.(*events.FakeRecorder)
	for range len(recorder.Events) {
		if text := <-recorder.Events; strings.HasPrefix(text, start) {
			n++
		}
	}
	return n
}

func (w *world) message(kind string) string {
	w.t.Helper()
	for _, c := range w.host().Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

// licensed checks at each destructive call that the record speaks for it.
func (w *world) licensed(policy infrav1.ReleasePolicy) {
	w.cloud.OnCall = func(call cloudtest.Call) {
		if call.Name != "DeleteServer" && call.Name != "ReinstallServer" {
			return
		}
		h := w.host()
		if !host.WipeAllowed(h) || h.Spec.Release.Policy != policy || h.Spec.Record.Wipe.RequestedAt == nil {
			w.t.Errorf("%s without a licence: %+v", call.Name, h.Spec)
		}
		if call.Name == "DeleteServer" && policy != infrav1.Terminate {
			w.t.Error("a server was deleted")
		}
	}
}

func TestRequirement000_TerminateAtTheFloorSchedulesTheDeletion(t *testing.T) {
	w := inUse(t)
	w.another(1)
	w.licensed(infrav1.Terminate)
	w.cloud.Floor = true
	until := w.clock.Now().Add(20 * time.Hour)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletableAt = until })
	w.releaseAs(infrav1.Terminate)
	w.untilPhase(infrav1.HostRetiring)
	if diff := cmp.Diff([]string{"ReinstallServer", "DeleteServer"}, w.mutations()); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
	for _, kind := range []string{infrav1.AvailableCondition, host.RetiredCondition} {
		if got := w.message(kind); !strings.Contains(got, until.Truncate(time.Second).Format(time.RFC3339)) {
			t.Errorf("%s does not say the date: %q", kind, got)
		}
	}
	if w.told("Normal "+infrav1.ReasonRetiring) != 1 {
		t.Error("not told once")
	}

	w.cloud.Finish(serverID)
	w.until("observed", func() bool { return w.host().Spec.Record.Wipe.ObservedAt != nil })
	w.must(w.step())
	w.cloud.Forget()
	writes := w.written()
	for range 20 { // at rest, for as long as the floor takes
		w.clock.Step(time.Hour)
		w.must(w.step())
	}
	if w.called("GetServer") != 0 || len(w.mutations()) != 0 || w.written() != writes {
		t.Errorf("not at rest: %v, %d writes", w.cloud.Calls(), w.written()-writes)
	}
	w.cloud.Remove(serverID)
	for range 10 { // it went as it was scheduled to: no error
		w.clock.Step(10 * time.Second)
		w.must(w.step())
	}
	if w.called("GetServer") == 0 || w.host() != nil {
		t.Errorf("not asked for, or not removed: %v", w.cloud.Calls())
	}
}

// Before it was given back, a server that may not be read is one that we lost the rights to.
func TestAReleasedServerThatMayNotBeReadIsAnError(t *testing.T) {
	for _, policy := range []infrav1.ReleasePolicy{infrav1.Recycle, infrav1.Terminate} {
		w := inUse(t)
		w.releaseAs(policy)
		w.cloud.Fault = func(c cloudtest.Call) (before, after error) {
			if c.Name == "GetServer" {
				return cloudtest.Err(cloud.KindForbidden), nil
			}
			return nil, nil
		}
		if _, err := w.reconcile(); !cloud.IsForbidden(err) {
			t.Errorf("%s: %v, want the vendor's refusal", policy, err)
		}
	}
}

func TestRequirement000_TerminateAfterTheFloorDeletesAtOnce(t *testing.T) {
	w := inUse(t)
	w.another(1)
	w.licensed(infrav1.Terminate)
	w.releaseAs(infrav1.Terminate)
	w.until("removed", func() bool { return w.host() == nil })
	if diff := cmp.Diff([]string{"ReinstallServer", "DeleteServer"}, w.mutations()); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
}

// A manager that is told to stop in the midst of a deletion still records it: nothing else
// ever tells a deleted server from one that it lost the rights to.
func TestADeletionIsRecordedByAManagerThatStops(t *testing.T) {
	w := inUse(t)
	w.another(1)
	w.releaseAs(infrav1.Terminate)
	ctx, stop := context.WithCancel(w.ctx)
	w.ctx = ctx
	heeding := interceptor.NewClient(w.r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.Update(ctx, o, opts...)
		},
	})
	w.r.Client, w.r.Reader = heeding, heeding
	w.cloud.OnCall = func(call cloudtest.Call) {
		if call.Name == "DeleteServer" {
			stop()
		}
	}
	w.until("asked", func() bool { return w.called("DeleteServer") > 0 })
	if w.host().Spec.Record.Wipe.ReturnedAt == nil {
		t.Error("nothing is on record of it")
	}
}

// The retries of a write take one that ran out of time for done.
func TestADeletionThatCouldNotBeRecordedIsNotTold(t *testing.T) {
	w := inUse(t)
	w.another(1)
	w.releaseAs(infrav1.Terminate)
	w.writeFault = func(int) (error, error) {
		if w.called("DeleteServer") > 0 {
			return context.DeadlineExceeded, nil
		}
		return nil, nil
	}
	w.until("asked", func() bool { return w.called("DeleteServer") > 0 })
	if n := w.told("Normal Deleted"); n != 0 {
		t.Errorf("told %d times", n)
	}
}

func TestAScheduleThatIsCancelledIsMadeAgainWithAnEvent(t *testing.T) {
	w := inUse(t)
	w.cloud.Floor = true
	w.releaseAs(infrav1.Terminate)
	w.untilPhase(infrav1.HostRetiring)
	w.clock.Step(2 * host.RepeatWipe)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletionScheduled = false })
	w.until("asked again", func() bool { return w.called("DeleteServer") == 2 })
	w.untilPhase(infrav1.HostRetiring)
	if got := w.told("Warning " + infrav1.ReasonDeletionScheduled); got != 1 {
		t.Errorf("told %d times", got)
	}
}

func TestADeletionThatReadingsDoNotShowYetIsNotAskedForAgainAtOnce(t *testing.T) {
	w := inUse(t)
	w.cloud.Floor = true
	w.releaseAs(infrav1.Terminate)
	w.cloud.OnCall = func(call cloudtest.Call) {
		if call.Name == "ReinstallServer" {
			w.cloud.Freeze(serverID) // readings show this for good
		}
	}
	w.until("asked", func() bool { return w.called("DeleteServer") == 1 })
	for began := w.clock.Now(); w.clock.Since(began) < host.RepeatWipe-30*time.Second; {
		w.inventory.Sweep(w.ctx)
		_, err := w.reconcile()
		w.must(err)
		w.clock.Step(time.Second)
	}
	if n := w.called("DeleteServer"); n != 1 {
		t.Errorf("asked %d times within a minute", n)
	}
	w.until("asked again", func() bool { return w.called("DeleteServer") == 2 })
}

func TestAMacThatCannotBeWipedIsGivenBackUnwiped(t *testing.T) {
	for name, row := range map[string]struct {
		arrange func(*world)
		at      time.Duration // after which it is given back
		wiped   string        // what its condition Wiped says then
	}{
		"rejected": {func(w *world) {
			w.cloud.Fault = func(call cloudtest.Call) (error, error) {
				if call.Name == "ReinstallServer" {
					return cloudtest.Err(cloud.KindForbidden), nil
				}
				return nil, nil
			}
		}, 0, "the vendor does not reinstall the server; it is given back as it is; the vendor refuses: "},
		"in error": {func(w *world) {
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusError })
		}, DefaultReinstallTimeout, "the vendor shows the server in error after its reinstall was asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			w.licensed(infrav1.Terminate)
			w.cloud.Floor = true
			row.arrange(w)
			w.releaseAs(infrav1.Terminate)
			for range 5 {
				_ = w.step()
			}
			if row.at > 0 {
				if w.called("DeleteServer") != 0 {
					t.Fatal("given back without waiting for the wipe")
				}
				w.clock.Step(row.at)
			}
			w.untilPhase(infrav1.HostRetiring)
			if got := w.message(infrav1.WipedCondition); !strings.HasPrefix(got, row.wiped) {
				t.Errorf("Wiped says %q", got)
			}
			if slices.Contains(w.events(), "Warning "+infrav1.ReasonWipeRejected+" "+host.Refused("")) {
				t.Error("a refusal is told without what was refused")
			}
			w.stepFor(20 * time.Minute)
			if n := w.called("DeleteServer"); n != 1 {
				t.Errorf("its deletion was asked for %d times, though it is scheduled", n)
			}
		})
	}
}

func TestAServerOfAnotherNameIsNotGivenBack(t *testing.T) {
	w := inUse(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "other-cluster-7" })
	w.releaseAs(infrav1.Terminate)
	for range 5 {
		w.clock.Step(time.Hour)
		w.must(w.step())
	}
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

func TestTerminateOfAClaimThatWasNeverShown(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.cloud.Floor = true
	w.claim("m-1", "t-1")
	w.releaseAs(infrav1.Terminate)
	w.untilPhase(infrav1.HostRetiring)
}

func TestAReinstallKeepsTheClaim(t *testing.T) {
	w := inUse(t)
	w.licensed(infrav1.Reinstall)
	w.must(w.client.Create(w.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "m-1"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)},
	}))
	old := string(w.secret().Data["sudo-password"])
	w.releaseAs(infrav1.Reinstall)
	w.untilPhase(infrav1.HostWiping)
	w.cloud.Finish(serverID)
	w.untilPhase(infrav1.HostInUse)
	h := w.host()
	switch {
	case !bears(h, "t-1") || h.Spec.Release != nil || len(h.Finalizers) != 0:
		t.Errorf("spec %+v", h.Spec)
	case h.Spec.Record.InstallEpoch != 2 || host.Clean(h) || h.Spec.Record.Wipe.RequestedAt != nil:
		t.Errorf("record %+v", h.Spec.Record)
	case w.serverName() != "m-1":
		t.Errorf("named %s", w.serverName())
	case string(w.secret().Data["sudo-password"]) == old:
		t.Error("the password of the old OS is still staged")
	}
	if err := w.client.Get(w.ctx, client.ObjectKey{Name: "m-1"}, &corev1.Node{}); err == nil {
		t.Error("the Node of the old OS is still there")
	}
	if diff := cmp.Diff([]string{"ReinstallServer"}, w.mutations()); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
}

// Each vendor call and each write to the API of a Terminate and of a Reinstall
// fails once, before and after its effect, and a new manager goes on.
func TestACrashOfTerminateOrReinstallConverges(t *testing.T) {
	for _, policy := range []infrav1.ReleasePolicy{infrav1.Terminate, infrav1.Reinstall} {
		for _, kind := range []string{"vendor", "api"} {
			for _, after := range []bool{false, true} {
				for n := range 12 {
					t.Run(fmt.Sprintf("%s, %s call %d, after its effect: %v", policy, kind, n, after), func(t *testing.T) {
						t.Parallel()
						w := inUse(t)
						w.another(1)
						w.licensed(policy)
						w.failOnce(kind, n, after)
						w.releaseAs(policy)
						if policy == infrav1.Terminate {
							w.until("removed", func() bool { return w.host() == nil })
							if _, there := w.cloud.Server(serverID); there {
								t.Error("the Host is gone and the server is not")
							}
							return
						}
						w.untilPhase(infrav1.HostWiping)
						w.cloud.Finish(serverID)
						w.untilPhase(infrav1.HostInUse)
						if h := w.host(); !bears(h, "t-1") || w.serverName() != "m-1" || host.Clean(h) {
							t.Errorf("spec %+v", h.Spec)
						}
					})
				}
			}
		}
	}
}
