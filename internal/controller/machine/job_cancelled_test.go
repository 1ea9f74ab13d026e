package machine

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/push"
)

// cancelledReader answers as a client does whose context was cancelled meanwhile.
type cancelledReader struct{ client.Reader }

func (cancelledReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return context.Canceled
}

// A push is cancelled when its Machine is deleted. What it was about to record is
// not recorded, and must not count as such.
func TestACancelledRecordIsNone(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	r := w.reconciler(cancelledReader{w.client})
	h, err := r.hosts.Amend(t.Context(), hostclaim.Ref{Host: hostName, Claim: infrav1.ClaimReference{Token: "token"}}, func(*host.Host) bool { return true })
	if !errors.Is(err, context.Canceled) || h != nil {
		t.Errorf("Amend = %v, %v, want it cancelled", h, err)
	}
}

// A push that is cancelled takes back the token that it has sent to nobody, or to a
// Mac that is somebody else's by now: it would let that one join for an hour.
func TestACancelledPushEndsItsToken(t *testing.T) {
	w := claimed(t)
	w.mac.set(func(m *fakeMac) { m.hold = true })
	w.visit("mac-1")
	w.awaitPush(func(run job.Run) bool { return run.Step == push.StepConverge })
	if n := len(w.tokens()); n != 1 {
		t.Fatalf("%d tokens are valid while it runs", n)
	}
	w.r.pushes.Stop()
	w.r.pushes.Wait()
	if ids, bound := w.tokens(), w.host(hostName).Spec.Record.Bootstrap.TokenID; len(ids) != 0 || bound != "" {
		t.Errorf("tokens %q are valid, the host is bound to %q", ids, bound)
	}
}
