package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// guard checks, at each mutating call, what must hold at that very moment.
func (w *world) guard() {
	w.cloud.OnCall = func(call cloudtest.Call) {
		h := w.host()
		switch {
		case call.Name == "DeleteServer":
			w.t.Error("a server was deleted")
		case call.Name == "ReinstallServer":
			if !host.WipeAllowed(h) || h.Spec.Record.Wipe.RequestedAt == nil {
				w.t.Errorf("reinstalled without a recorded request: %+v", h.Spec)
			}
			if h.Status.ShownSince != nil || w.reason(infrav1.NameInSyncCondition) != "" || w.reason(host.CredentialsStagedCondition) != "" {
				w.t.Errorf("reinstalled while the claim still shows: %+v", h.Status)
			}
		case call.Name == "RenameServer" && call.Arg == poolName && h.Spec.Record.Wipe.ObservedAt == nil:
			w.t.Error("an unwiped Mac got a pool name")
		}
	}
}

// wiped plays the vendor's part of a wipe, and waits for the host to be free.
func (w *world) wiped() {
	w.t.Helper()
	w.untilReinstalling()
	w.cloud.Finish(serverID)
	w.untilPhase(infrav1.HostAvailable)
}

// untilReinstalling waits for the wipe to be seen under way.
func (w *world) untilReinstalling() {
	w.t.Helper()
	w.until("reinstalling", func() bool {
		server, _ := w.cloud.Server(serverID)
		return server.Status == cloud.StatusReinstalling && w.host().Spec.Record.Wipe.StartedAt != nil && w.phase() == infrav1.HostWiping
	})
}

func (w *world) checkFree() {
	w.t.Helper()
	h := w.host()
	wipe := h.Spec.Record.Wipe
	switch {
	case h.Spec.ClaimRef != nil || h.Spec.Release != nil || len(h.Finalizers) != 0:
		w.t.Errorf("not free: %+v", h)
	case w.serverName() != poolName:
		w.t.Errorf("named %s", w.serverName())
	case wipe.Generation != 1 || h.Spec.Record.InstallEpoch != 2 || wipe.RequestedAt != nil || !wipe.ObservedAt.After(wipe.RequiredSince.Time):
		w.t.Errorf("record %+v", h.Spec.Record)
	case h.Status.ShownSince != nil || w.reason(infrav1.NameInSyncCondition) != "" || w.reason(host.CredentialsStagedCondition) != "":
		w.t.Errorf("something is left of the claim: %+v", h.Status)
	}
}

func TestAReleasedHostIsWipedThenNamedThenFree(t *testing.T) {
	w := inUse(t)
	w.guard()
	w.release()
	w.wiped()
	w.checkFree()
	if diff := cmp.Diff([]string{"ReinstallServer", "RenameServer " + poolName}, w.mutations()); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
	// And again, by another owner: the old password and name are not its.
	w.claim("m-2", "t-2")
	w.untilPhase(infrav1.HostInUse)
	if w.serverName() != "m-2" || w.host().Spec.Record.InstallEpoch != 2 {
		t.Errorf("named %s in epoch %d", w.serverName(), w.host().Spec.Record.InstallEpoch)
	}
}

func TestAClaimReleasedBeforeItWasShownIsWipedToo(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	w.release()
	w.wiped()
	w.checkFree()
}

func TestARefusedRenameIsRepeatedUntilItReadsBack(t *testing.T) {
	w := inUse(t)
	w.guard()
	refused := 0
	w.cloud.Fault = func(call cloudtest.Call) (before, after error) {
		if call.Name == "RenameServer" && refused < 3 {
			refused++
			return cloudtest.Err(cloud.KindTransient), nil
		}
		return nil, nil
	}
	w.release()
	w.untilReinstalling()
	w.cloud.Finish(serverID)
	w.until("refused", func() bool { return refused >= 3 })
	if got := w.phase(); got != infrav1.HostWiping {
		t.Errorf("phase %s", got)
	}
	w.checkSays(infrav1.AvailableCondition, "the vendor refuses: ")
	w.untilPhase(infrav1.HostAvailable)
	w.checkSays(infrav1.AvailableCondition, "")
	w.checkFree()
}

func TestARenameThatDoesNotStickKeepsTheHostWiping(t *testing.T) {
	w := inUse(t)
	w.cloud.OnCall = func(call cloudtest.Call) {
		if call.Name == "RenameServer" {
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "m-1" })
		}
	}
	w.release()
	w.untilPhase(infrav1.HostWiping)
	w.cloud.Finish(serverID)
	for range 5 {
		w.must(w.step())
	}
	if h := w.host(); h.Status.Phase != infrav1.HostWiping || h.Spec.ClaimRef == nil {
		t.Errorf("phase %s, claim %v", h.Status.Phase, h.Spec.ClaimRef)
	}
}

func TestAReinstallInProgressIsFine(t *testing.T) {
	w := inUse(t)
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReinstalling }) // by hand, in the console
	w.release()
	w.wiped()
	w.checkFree()
	if slices.Contains(w.mutations(), "ReinstallServer") {
		t.Error("asked for a second reinstall")
	}
}

func TestABusyServerIsReinstalledLater(t *testing.T) {
	w := inUse(t)
	w.guard()
	w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusRebooting })
	w.release()
	for range 4 {
		w.must(w.step())
	}
	if h := w.host(); h.Status.Phase != infrav1.HostReleasing || w.serverName() != "m-1" {
		t.Fatalf("phase %s, named %s", h.Status.Phase, w.serverName())
	}
	w.cloud.Finish(serverID)
	w.wiped()
	w.checkFree()
}

func TestAReleaseOfAnotherClaimWipesNothing(t *testing.T) {
	w := inUse(t)
	w.release()
	h := w.host()
	h.Spec.ClaimRef.Token = "t-9" // the API refuses this; the controller does so too
	w.must(w.client.Update(w.ctx, h))
	for range 3 {
		w.must(w.step())
	}
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

func TestTheWantedOSIsInstalledWhenPublished(t *testing.T) {
	for name, row := range map[string]struct {
		images map[string]cloud.OS
		want   string
	}{
		"published":     {map[string]cloud.OS{"tahoe": {ID: "image-1"}}, "ReinstallServer image-1"},
		"not published": {nil, "ReinstallServer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			w.cloud.Images = row.images
			w.release()
			h := w.host()
			h.Spec.Release.OSFamily = "tahoe"
			w.must(w.client.Update(w.ctx, h))
			w.untilPhase(infrav1.HostWiping)
			if got := w.mutations()[0]; got != row.want {
				t.Errorf("asked %q", got)
			}
		})
	}
}

// Each vendor call and each write to the API fails once, before and after its
// effect, and a new manager that remembers nothing goes on: the end is the same.
func TestACrashBetweenAnyTwoCallsConverges(t *testing.T) {
	for _, kind := range []string{"vendor", "api"} {
		for _, after := range []bool{false, true} {
			for n := range 20 {
				t.Run(fmt.Sprintf("%s call %d, after its effect: %v", kind, n, after), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					w.untilPhase(infrav1.HostAvailable)
					w.guard()
					w.failOnce(kind, n, after)
					w.claim("m-1", "t-1")
					w.untilPhase(infrav1.HostInUse)
					if got := string(w.secret().Data["sudo-password"]); got != "firstpassword" || w.serverName() != "m-1" {
						t.Errorf("password %q, named %s", got, w.serverName())
					}
					w.release()
					w.wiped()
					w.checkFree()
				})
			}
		}
	}
}

func (w *world) failOnce(kind string, n int, after bool) {
	split := func(err error) (error, error) {
		w.killed = true
		if after {
			return nil, err
		}
		return err, nil
	}
	w.cloud.Forget()
	if kind == "api" {
		first := w.written()
		w.writeFault = func(write int) (error, error) {
			if write == first+n {
				return split(errors.New("the API server went away"))
			}
			return nil, nil
		}
		return
	}
	w.cloud.Fault = func(call cloudtest.Call) (error, error) {
		if call.Index == n {
			return split(cloudtest.Err(cloud.KindUnavailable))
		}
		return nil, nil
	}
}

func TestTheNodeOfAReleasedHostIsDeletedUntilTheWipeIsObserved(t *testing.T) {
	ours := host.ProviderID(zone, serverID)
	for name, row := range map[string]struct {
		providerID string
		before     func(*world)
		deleted    bool
	}{
		"ours":               {ours, func(*world) {}, true},
		"of another host":    {ours + "0", func(*world) {}, false},
		"Cluster is paused":  {ours, func(w *world) { w.pause() }, false},
		"Cluster is missing": {ours, func(w *world) { w.removeCluster() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			node := func() *corev1.Node {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m-1"}, Spec: corev1.NodeSpec{ProviderID: row.providerID}}
			}
			w.must(w.client.Create(w.ctx, node()))
			w.must(w.step())
			if err := w.client.Get(w.ctx, client.ObjectKey{Name: "m-1"}, node()); err != nil {
				t.Fatalf("the Node of a host in use: %v", err)
			}
			row.before(w)
			w.release()
			w.untilPhase(infrav1.HostWiping)
			err := w.client.Get(w.ctx, client.ObjectKey{Name: "m-1"}, node())
			if apierrors.IsNotFound(err) != row.deleted {
				t.Fatalf("reading the Node: %v", err)
			}
			if row.deleted { // its agent is still alive, and tries again
				w.must(w.client.Create(w.ctx, node()))
				w.must(w.step())
				if err := w.client.Get(w.ctx, client.ObjectKey{Name: "m-1"}, node()); !apierrors.IsNotFound(err) {
					t.Errorf("the Node came back: %v", err)
				}
			}
			w.wiped()
		})
	}
}

func (w *world) removeCluster() {
	w.must(w.client.Delete(w.ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "c"}}))
}

func TestAServerDeletedByHandEndsItsRelease(t *testing.T) {
	w := inUse(t)
	w.another(1)
	w.release()
	w.cloud.Fault = func(call cloudtest.Call) (error, error) {
		if call.Name == "GetServer" {
			return cloudtest.Err(cloud.KindNotFound), nil
		}
		return nil, nil
	}
	w.cloud.Remove(serverID)
	_, err := w.reconcile()
	w.must(err)
	w.must(w.step())
	if h := w.host(); h == nil || h.Spec.Release == nil {
		t.Fatalf("one answer and one list ended the release: %+v", h)
	}
	w.clock.Step(time.Minute)
	w.until("removed", func() bool { return w.host() == nil })
	if len(w.mutations()) != 0 {
		t.Errorf("mutations %v", w.mutations())
	}
}

func TestAWipeInProgressCostsNoReadings(t *testing.T) {
	w := inUse(t)
	w.release()
	w.untilReinstalling()
	w.must(w.step())
	w.cloud.Forget()
	for range 10 {
		w.clock.Step(time.Minute)
		w.must(w.step())
	}
	for _, call := range w.cloud.Calls() {
		if call.Name != "ListServers" {
			t.Errorf("call %v", call)
		}
	}
}

func TestWhatTheVendorRefusesIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		call, condition string
		start           func(*world)
	}{
		"a rename":    {"RenameServer", infrav1.NameInSyncCondition, func(w *world) { w.claim("m-1", "t-1") }},
		"a reinstall": {"ReinstallServer", infrav1.WipedCondition, func(w *world) { w.release() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.untilPhase(infrav1.HostAvailable)
			if c.call == "ReinstallServer" {
				w = inUse(t)
			}
			refused := 0
			w.cloud.Fault = func(call cloudtest.Call) (before, after error) {
				if call.Name == c.call {
					refused++
					return cloudtest.Err(cloud.KindTransient), nil
				}
				return nil, nil
			}
			c.start(w)
			w.until("refused", func() bool { return refused >= 2 })
			w.checkSays(c.condition, "the vendor refuses: ")
		})
	}
}

// checkSays checks what a condition's message holds; an empty text: no refusal.
func (w *world) checkSays(condition, text string) {
	w.t.Helper()
	c := meta.FindStatusCondition(w.host().Status.Conditions, condition)
	switch {
	case c == nil:
		w.t.Errorf("no condition %s", condition)
	case text == "" && strings.Contains(c.Message, "refuses"):
		w.t.Errorf("%s still says %q", condition, c.Message)
	case !strings.Contains(c.Message, text):
		w.t.Errorf("%s says %q, want %q in it", condition, c.Message, text)
	}
}
