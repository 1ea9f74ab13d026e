package machine

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/push"
)

// secretReads counts the readings of one Secret, by the reconciler and by its pushes.
type secretReads struct {
	client.Reader
	name string
	n    atomic.Int32
}

func (r *secretReads) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, secret := o.(*corev1.Secret); secret && key.Name == r.name {
		r.n.Add(1)
	}
	return r.Reader.Get(ctx, key, o, opts...)
}

// The Secret is read where it is worth that: thousands of Machines that wait ask for none.
func TestTheSecretIsReadWhenItMayHoldSomething(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	reads := &secretReads{Reader: w.client, name: host.BootstrapSecretName("mac-1")}
	w.r = w.reconciler(reads)
	t.Cleanup(func() { stopJobs(w.r) })
	w.settle("mac-1")
	if w.machine("mac-1").Spec.HostRef == nil || reads.n.Load() != 0 {
		t.Errorf("%d readings before the claim is shown", reads.n.Load())
	}

	w.mac.set(func(m *fakeMac) { m.hold = true })
	w.stage("mac-1", "secret-1")
	w.visit("mac-1")
	if reads.n.Load() == 0 {
		t.Fatal("no reading of what is staged")
	}
	w.awaitPush(func(run job.Run) bool { return run.Step == push.StepConverge })
	reads.n.Store(0)
	w.visit("mac-1")
	if reads.n.Load() != 0 {
		t.Errorf("%d readings while the first push runs", reads.n.Load())
	}
}
