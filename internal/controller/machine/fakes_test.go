package machine

import (
	"context"
	"errors"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/fleetsecret"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/remote"
)

// fakeKeys is the vendor's list of SSH keys.
type fakeKeys struct {
	mu    sync.Mutex
	calls []string
	err   error
}

func (k *fakeKeys) EnsureSSHKey(_ context.Context, name, public string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.calls = append(k.calls, name+" "+public)
	return nil
}

// fakeMac is the one Mac of the world, and the way to it.
type fakeMac struct {
	w *world

	mu       sync.Mutex
	answer   infrav1.HostKey
	sudo     bool
	dialErr  error
	grantErr error
	convErr  error
	leaveErr error
	// hold makes Converge and Leave wait for their context.
	hold bool

	dials     []push.Target
	passwords []string
	received  int
	desired   []document.Desired
	// signers of the converges and leaves, in their order.
	signers []*document.Signer
	// reports are what the next converges say; without one they say nothing.
	reports []document.Report
	// facts beside sudo, as the probe tells them.
	facts push.Facts
	// planned is what a plan says, plans how often one was asked for.
	planned document.Report
	plans   int
	planErr error
	left    int
	// onProbe changes the world before the Mac is looked at.
	onProbe func()
	// onGrant looks at the world at the moment that a password is sent.
	onGrant func()
	// onConverge changes the world while the Mac converges.
	onConverge func()
	// onPlan does so while the Mac is checked.
	onPlan func()
}

func hostKeyShown() infrav1.HostKey {
	return infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:first"}
}

func (f *fakeMac) isHolding() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hold
}

func (f *fakeMac) set(change func(*fakeMac)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// Dial behaves as SSH does: a pin that does not match refuses, and a first use
// is recorded before anything else.
func (f *fakeMac) Dial(ctx context.Context, target push.Target) (push.Mac, error) {
	f.mu.Lock()
	f.dials = append(f.dials, target)
	err, shown := f.dialErr, f.answer
	f.mu.Unlock()
	switch {
	case err != nil:
		return nil, push.Classify(push.StepDial, err)
	case target.Pin == nil && target.FirstUse == nil:
		return nil, remote.ErrNotPinned
	case target.Pin == nil:
		return f, target.FirstUse(ctx, shown)
	case target.Pin.SHA256 != shown.SHA256:
		return nil, push.Classify(push.StepDial, &remote.HostKeyMismatch{Want: remote.Pin{SHA256: target.Pin.SHA256}, Got: remote.Pin{SHA256: shown.SHA256}})
	}
	return f, nil
}

func (f *fakeMac) HostKey() infrav1.HostKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answer
}

func (f *fakeMac) Probe(context.Context) (push.Facts, error) {
	if f.onProbe != nil {
		f.onProbe()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	facts := f.facts
	facts.Sudo = f.sudo
	return facts, nil
}

func (f *fakeMac) Grant(_ context.Context, password cloud.Password) error {
	if f.onGrant != nil {
		f.onGrant()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passwords = append(f.passwords, password.Reveal())
	if f.grantErr != nil {
		return push.Classify(push.StepGrant, f.grantErr)
	}
	f.sudo = true
	return nil
}

func (f *fakeMac) Receive(context.Context, push.Agent) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received++
	return nil
}

func (f *fakeMac) Converge(ctx context.Context, desired document.Desired, signer *document.Signer) (document.Report, error) {
	f.mu.Lock()
	f.signers = append(f.signers, signer)
	f.desired = append(f.desired, desired)
	err, hold := f.convErr, f.hold
	f.mu.Unlock()
	if f.onConverge != nil {
		f.onConverge()
	}
	if hold {
		<-ctx.Done()
		return document.Report{}, ctx.Err()
	}
	if invalid := desired.Validate(); invalid != nil {
		return document.Report{}, invalid
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var report document.Report
	if len(f.reports) > 0 {
		report, f.reports = f.reports[0], f.reports[1:]
	}
	return report, push.Classify(push.StepConverge, err)
}

func (f *fakeMac) Plan(context.Context, document.Desired) (document.Report, error) {
	if f.onPlan != nil {
		f.onPlan()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans++
	return f.planned, f.planErr
}

func (f *fakeMac) Leave(ctx context.Context, signer *document.Signer) error {
	f.mu.Lock()
	f.signers = append(f.signers, signer)
	f.left++
	err, hold := f.leaveErr, f.hold
	f.mu.Unlock()
	if hold {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (f *fakeMac) Close() error { return nil }

// newSSHSecret is a Secret of a fleet with a key of its own.
func newSSHSecret(t testing.TB) *corev1.Secret {
	t.Helper()
	c := clienttest.NewBuilder(testScheme(t)).Build()
	store, fleet := &fleetsecret.Store{Client: c, Reader: c, Keys: &fakeKeys{}}, fleetsecret.Fleet{Namespace: namespace, Name: "builders"}
	if _, _, err := store.SSH(t.Context(), fleet); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), fleet.SSHSecret(), secret); err != nil {
		t.Fatal(err)
	}
	secret.ResourceVersion = ""
	return secret
}

var errPlain = errors.New("something went wrong")
