package machine

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/push"
)

// The Host was deleted and rebuilt: its server bears the Machine's name. The
// claim comes back with the Machine's token and what its Secret remembers.
func TestARebuiltHostIsClaimedAgain(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	before := w.host(hostName)
	before.Spec.Record.Bootstrap.RebootIssued = true // the one that a claim has
	w.update(before)
	w.settle("mac-1")
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.delete(before)
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.HostClaimedCondition); got != infrav1.ReasonClaiming {
		t.Errorf("without a Host: HostClaimed = %s, want %s", got, infrav1.ReasonClaiming)
	}
	rebuilt := poolHost(serverID)
	rebuilt.Status.Server.Name = "mac-1"
	rebuilt.Status.Phase = infrav1.HostDiscovered
	w.create(rebuilt)
	w.settle("mac-1")
	after := w.host(hostName)
	if !bears(after, token) {
		t.Fatalf("claimRef = %+v, want the Machine's token", after.Spec.ClaimRef)
	}
	record, was := after.Spec.Record, before.Spec.Record
	if record.InstallEpoch != was.InstallEpoch || record.HostKey == nil || *record.HostKey != *was.HostKey || len(record.PasswordAttempts) != len(was.PasswordAttempts) {
		t.Errorf("record = %+v, want epoch, pin and attempts of %+v", record, was)
	}
	if !record.Bootstrap.RebootIssued {
		t.Error("the rebuilt host may be rebooted once more for the same claim")
	}
	if record.Wipe.RequiredSince == nil {
		t.Error("the rebuilt host counts as clean")
	}
}

func TestAHostNamedByAnotherIsGivenUp(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.settle("mac-1")
	h := w.host(hostName)
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.NameInSyncCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonChangedByOther, LastTransitionTime: metav1.Now()}}
	h.Status.Server.Name = "theirs"
	h.Status.Phase = infrav1.HostClaimed
	w.updateStatus(h)
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef != nil {
		t.Errorf("hostRef = %+v, want none", m.Spec.HostRef)
	}
	if after := w.host(hostName); after.Spec.ClaimRef != nil || after.Spec.Release != nil {
		t.Errorf("claimRef = %+v, release = %+v: want both empty, for nothing of theirs may be wiped", after.Spec.ClaimRef, after.Spec.Release)
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "ClaimLost") || !strings.Contains(heard, `"theirs"`) {
		t.Errorf("events = %s, want ClaimLost with the name", heard)
	}
}

// A Mac that the vendor is to delete is given up before it is the Machine's, with all that the
// claim would have made of it. One that was provisioned serves until it goes.
func TestAHostThatIsToBeDeletedIsGivenUp(t *testing.T) {
	going := metav1.Condition{Type: host.CredentialsStagedCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonDeletionScheduled, LastTransitionTime: metav1.Now()}
	t.Run("never given", func(t *testing.T) {
		w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
		w.settle("mac-1")
		h := w.host(hostName)
		h.Status.Conditions = []metav1.Condition{going}
		h.Status.Server.DeletionScheduled = true
		h.Status.Phase = infrav1.HostClaimed
		w.updateStatus(h)
		w.settle("mac-1")
		if m := w.machine("mac-1"); m.Spec.HostRef != nil {
			t.Errorf("hostRef = %+v, want none", m.Spec.HostRef)
		}
		if after := w.host(hostName); after.Spec.ClaimRef != nil || after.Spec.Release != nil {
			t.Errorf("claimRef = %+v, release = %+v: want both empty", after.Spec.ClaimRef, after.Spec.Release)
		}
		if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "ClaimLost") || !strings.Contains(heard, "the vendor is to delete its server") {
			t.Errorf("events = %s, want ClaimLost with why", heard)
		}
	})
	t.Run("provisioned", func(t *testing.T) {
		w := runningWorld(t)
		h := w.host(hostName)
		meta.SetStatusCondition(&h.Status.Conditions, going)
		h.Status.Server.DeletionScheduled = true
		w.updateStatus(h)
		w.settle("mac-1")
		if got := w.reason("mac-1", infrav1.HostClaimedCondition); got == infrav1.ReasonClaimLost || w.host(hostName).Spec.ClaimRef == nil {
			t.Errorf("HostClaimed = %s, claimRef = %+v", got, w.host(hostName).Spec.ClaimRef)
		}
	})
}

// A Mac that somebody else named while it was set up must not come to be a Node of ours.
func TestTheTokenOfAMacThatIsGivenUpEnds(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) { m.hold = true })
	w.visit("mac-1")
	w.awaitPush(func(run job.Run) bool { return run.Step == push.StepConverge })
	if n := len(w.tokens()); n != 1 {
		t.Fatalf("%d tokens while the Mac is set up, want one", n)
	}
	h := w.host(hostName)
	h.Status.Conditions[0].Status, h.Status.Conditions[0].Reason = metav1.ConditionFalse, infrav1.ReasonChangedByOther
	h.Status.Server.Name = "theirs"
	w.updateStatus(h)
	w.visit("mac-1")
	w.mac.set(func(m *fakeMac) { m.hold = false })
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef != nil || len(w.tokens()) != 0 {
		t.Errorf("hostRef = %+v, tokens %q can still join", m.Spec.HostRef, w.tokens())
	}
}

// A provisioned Machine keeps showing whose its Mac is, and does not say of a Mac
// that was bootstrapped that none was ever claimed.
func TestALostHostIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *host.Host)
		says   string
	}{
		"named by another": {func(h *host.Host) {
			h.Status.Conditions[0].Status, h.Status.Conditions[0].Reason = metav1.ConditionFalse, infrav1.ReasonChangedByOther
		}, `name is now "theirs"`},
		"claimed by another": {func(h *host.Host) {
			h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "other", Name: "mac-7", Token: "theirs"}
		}, "claimed for Machine other/mac-7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			h := w.host(hostName)
			c.change(h)
			status := h.Status
			w.update(h)
			h.Status = status
			h.Status.Server.Name = "theirs"
			w.updateStatus(h)
			w.settle("mac-1")
			if got := w.message("mac-1", infrav1.HostClaimedCondition); w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonClaimLost || !strings.Contains(got, c.says) || !strings.Contains(got, `"theirs"`) {
				t.Errorf("HostClaimed = %s %q", w.reason("mac-1", infrav1.HostClaimedCondition), got)
			}
			if got := w.message("mac-1", infrav1.BootstrappedCondition); !strings.Contains(got, "the Mac was bootstrapped") {
				t.Errorf("Bootstrapped = %q", got)
			}
		})
	}
}
