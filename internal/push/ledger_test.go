package push

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
)

const hostName = "fr-par-1-11111111-1111-4111-8111-111111111111"

// claimedHost is a Host that is claimed for fleet/mac-1.
func claimedHost() *host.Host {
	h := &host.Host{ObjectMeta: metav1.ObjectMeta{Name: hostName}}
	h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "fleet", Name: "mac-1", Token: "token"}
	return h
}

// newPush is a push to that Host's Mac, and its API server. Before runs ahead of the
// first write of the Secret.
func newPush(t *testing.T, before func()) (push, client.Client) {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), infrav1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: host.BootstrapSecretName("mac-1")}}
	c := clienttest.AsServed(clienttest.NewBuilder(s).WithObjects(claimedHost(), secret).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if first := before; first != nil {
				before = nil
				first()
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build())
	pusher := &Pusher{
		Hosts: hostclaim.Hosts{Client: c, Reader: c}, Secrets: bootstrapsecret.Secrets{Client: c, Reader: c},
		Clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
	}
	request := Request{
		Machine: client.ObjectKey{Namespace: "fleet", Name: "mac-1"}, Claim: hostclaim.Ref{Host: hostName, Claim: *claimedHost().Spec.ClaimRef},
		Epoch: 1, Seeds: [][]byte{[]byte("seed")},
	}
	return push{Pusher: pusher, Request: request}, c
}

func recordOf(t *testing.T, c client.Client) infrav1.HostRecord {
	t.Helper()
	h := &host.Host{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: hostName}, h); err != nil {
		t.Fatal(err)
	}
	return h.Spec.Record
}

// Two managers may see the Mac for the first time at once. Who was shown another key
// than the one that was recorded goes no further, whichever was first.
func TestARacingFirstUseTakesNoOtherHostKey(t *testing.T) {
	shown := infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:first"}
	for name, c := range map[string]struct {
		rival   infrav1.HostKey
		refused bool
	}{
		"the same key":       {shown, false},
		"another key":        {infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:other"}, true},
		"another algorithm":  {infrav1.HostKey{Algorithm: "ecdsa-sha2-nistp256", SHA256: "SHA256:first"}, true},
		"nothing in common":  {infrav1.HostKey{Algorithm: "ecdsa-sha2-nistp256", SHA256: "SHA256:other"}, true},
		"its algorithm only": {infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, api := newPush(t, nil)
			if err := p.pin(t.Context(), c.rival); err != nil {
				t.Fatal(err)
			}
			err := p.pin(t.Context(), shown)
			var f *Failure
			if refused := errors.As(err, &f) && f.Reason == infrav1.ReasonHostKeyMismatch; refused != c.refused {
				t.Errorf("pin = %v, want it refused: %t", err, c.refused)
			}
			if got := recordOf(t, api).HostKey; got == nil || got.SHA256 != c.rival.SHA256 || got.Algorithm != c.rival.Algorithm {
				t.Errorf("the record became %+v", got)
			}
		})
	}
}

// A Mac locks its user after a few wrong passwords: of two managers that want to try
// the same one, one does.
func TestOfTwoManagersOneSpendsAPassword(t *testing.T) {
	password, _ := cloud.NewPassword("secret-1")
	var p push
	var rival bool
	p, api := newPush(t, func() {
		var err error
		if rival, err = p.spend(t.Context(), password); err != nil {
			t.Error(err)
		}
	})
	ours, err := p.spend(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	if ours || !rival {
		t.Errorf("spent: by us %t, by the manager that was faster %t", ours, rival)
	}
	if n := len(recordOf(t, api).PasswordAttempts); n != 1 {
		t.Errorf("%d attempts are recorded", n)
	}
}
