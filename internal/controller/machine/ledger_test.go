package machine

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Fleet authors may write the Secret. What the API refuses in a Host's record would
// have each write of the claim fail, and the deletion of the Machine wait for ever.
func TestARestoredRecordIsOneThatTheAPITakes(t *testing.T) {
	long := strings.Repeat("x", 200)
	attempt := func(epoch, digest, at string) string {
		return `[{"epoch":` + epoch + `,"digest":"` + digest + `"` + at + `}]`
	}
	const at = `,"at":"2026-03-01T12:00:00.000000Z"`
	for name, c := range map[string]struct {
		secret staged
		want   infrav1.HostRecord
	}{
		"an epoch below zero":         {staged{epoch: -1}, infrav1.HostRecord{}},
		"an epoch near the end":       {staged{epoch: math.MaxInt64}, infrav1.HostRecord{}},
		"an endless algorithm":        {staged{epoch: 2, hostKey: long + " SHA256:x"}, infrav1.HostRecord{InstallEpoch: 2}},
		"an endless fingerprint":      {staged{epoch: 2, hostKey: "ssh-ed25519 " + long}, infrav1.HostRecord{InstallEpoch: 2}},
		"an endless serial":           {staged{hardware: long + " board"}, infrav1.HostRecord{}},
		"an endless board":            {staged{hardware: "serial " + long}, infrav1.HostRecord{}},
		"an attempt without a digest": {staged{attempts: attempt("1", "", at)}, infrav1.HostRecord{}},
		"an attempt without a time":   {staged{attempts: attempt("1", "d", "")}, infrav1.HostRecord{}},
		"an endless digest":           {staged{attempts: attempt("1", long, at)}, infrav1.HostRecord{}},
		"an attempt before the first": {staged{attempts: attempt("-1", "d", at)}, infrav1.HostRecord{}},
		"failures below zero":         {staged{failures: "-8"}, infrav1.HostRecord{}},
		"what a manager wrote": {
			staged{epoch: 2, hostKey: "ssh-ed25519 SHA256:x", hardware: "serial board", attempts: attempt("2", "d", at), failures: "3"},
			infrav1.HostRecord{
				InstallEpoch: 2, HostKey: &infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:x", Epoch: 2},
				Hardware:         &infrav1.HostHardware{Serial: "serial", PlatformUUID: "board"},
				PasswordAttempts: []infrav1.PasswordAttempt{{Epoch: 2, Digest: "d", At: metav1.NewMicroTime(start())}},
				Bootstrap:        infrav1.BootstrapRecord{Attempts: 3},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var record infrav1.HostRecord
			c.secret.claimToken = "t"
			restore(&record, c.secret, "t")
			if diff := cmp.Diff(c.want, record, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
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
