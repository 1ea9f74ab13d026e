package machine

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// ledger is that of a job of mac-1's, as each of two managers may run one.
func (w *world) ledger() ledger {
	w.t.Helper()
	return ledger{
		r: w.r, machine: client.ObjectKey{Namespace: namespace, Name: "mac-1"}, host: hostName,
		claim: host.ClaimOf(w.machine("mac-1")), epoch: w.host(hostName).Spec.Record.InstallEpoch, seeds: [][]byte{[]byte("seed")},
	}
}

// Two managers may see the Mac for the first time at once. Who was shown another key
// than the one that was recorded goes no further, whichever was first.
func TestARacingFirstUseTakesNoOtherHostKey(t *testing.T) {
	for name, c := range map[string]struct {
		rival   infrav1.HostKey
		refused bool
	}{
		"the same key":       {infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:first"}, false},
		"another key":        {infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:other"}, true},
		"another algorithm":  {infrav1.HostKey{Algorithm: "ecdsa-sha2-nistp256", SHA256: "SHA256:first"}, true},
		"nothing in common":  {infrav1.HostKey{Algorithm: "ecdsa-sha2-nistp256", SHA256: "SHA256:other"}, true},
		"its algorithm only": {infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimed(t)
			if err := w.ledger().pin(t.Context(), c.rival); err != nil {
				t.Fatal(err)
			}
			err := w.ledger().pin(t.Context(), hostKeyShown())
			var f *Failure
			if refused := errors.As(err, &f) && f.Reason == infrav1.ReasonHostKeyMismatch; refused != c.refused {
				t.Errorf("pin = %v, want it refused: %t", err, c.refused)
			}
			if got := w.host(hostName).Spec.Record.HostKey; got == nil || got.SHA256 != c.rival.SHA256 || got.Algorithm != c.rival.Algorithm {
				t.Errorf("the record became %+v", got)
			}
		})
	}
}

// A Mac locks its user after a few wrong passwords: of two managers that want to try
// the same one, one does.
func TestOfTwoManagersOneSpendsAPassword(t *testing.T) {
	w := claimed(t)
	password, _ := cloud.NewPassword("secret-1")
	var rival bool
	w.once(func(_ string, o client.Object) bool { _, is := o.(*corev1.Secret); return is }, func() {
		var err error
		if rival, err = w.ledger().spend(t.Context(), password); err != nil {
			t.Error(err)
		}
	})
	ours, err := w.ledger().spend(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	if ours || !rival {
		t.Errorf("spent: by us %t, by the manager that was faster %t", ours, rival)
	}
	if n := len(w.host(hostName).Spec.Record.PasswordAttempts); n != 1 {
		t.Errorf("%d attempts are recorded", n)
	}
}

// A host that is given up is not pushed to any more: a push that went on could join a
// Mac that is being wiped.
func TestAPushEndsWithTheHostThatIsGivenUp(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) { m.hold = true })
	key := types.NamespacedName{Namespace: namespace, Name: "mac-1"}
	w.visit("mac-1")
	w.awaitPush(func(job snapshot) bool { return job.step == stepConverge })
	h := w.host(hostName)
	h.Spec.Release = &infrav1.Release{Policy: infrav1.Recycle, Token: h.Spec.ClaimRef.Token, Origin: infrav1.OriginRecovery, PoolPrefix: poolName}
	w.update(h)
	running, _ := w.r.pushes.look(key)
	w.visit("mac-1")
	if ref := w.machine("mac-1").Spec.HostRef; ref != nil && ref.Name == hostName && ref.ClaimToken == running.id {
		t.Fatalf("the intent stands: %+v", ref)
	}
	w.awaitPush(func(job snapshot) bool { return job.done })
}

// awaitPush waits until mac-1's push is as wanted.
func (w *world) awaitPush(as func(snapshot) bool) {
	w.t.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: "mac-1"}
	for {
		if job, ok := w.r.pushes.look(key); !ok || as(job) {
			return
		}
		select {
		case <-w.r.pushes.wakeups:
		case <-time.After(30 * time.Second):
			w.t.Fatal("the push does not get there")
		}
	}
}
