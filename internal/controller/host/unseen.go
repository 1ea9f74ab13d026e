package host

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// wipeUnseen wipes a host of the pool that was never seen wiped, where such are not
// trusted, and says in Available what it waits for. The storm guard bounds it; one
// host is judged at a time, so that each sees what those before it began.
func (p *idling) wipeUnseen(ctx context.Context) error {
	if !host.MustWipeUnseen(p.host, p.observed) {
		return nil
	}
	p.observed.UnseenWaits = "another one is being judged"
	if !p.judging.TryLock() {
		return nil
	}
	defer p.judging.Unlock()
	why, err := p.unseenWipeBlocked(ctx)
	if err != nil {
		return err
	}
	if p.observed.UnseenWaits = why; why != "" {
		return nil
	}
	prefix, token := host.PrefixOf(p.host, p.observed.PoolPrefixes...), uuid.NewString()
	err = p.Update(ctx, func(h *host.Host) {
		controllerutil.AddFinalizer(h, infrav1.HostFinalizer)
		host.WipeUnseen(h, prefix, token, p.now())
	})
	if err != nil {
		return err
	}
	p.event(corev1.EventTypeNormal, host.ReasonNeverSeenWiped, "the host was never seen wiped, and is wiped once before it is used (pool.trustUnseen is false)")
	ctrl.LoggerFrom(ctx).Info("A host that was never seen wiped is wiped before it is used", "server", p.host.Status.Server.Name)
	return nil
}

// unseenWipeBlocked says, from uncached reads, why the wipe must not be begun now.
func (p *idling) unseenWipeBlocked(ctx context.Context) (string, error) {
	machines, err := allMachines(ctx, p.Reader)
	if err != nil {
		return "", err
	}
	if host.OwnersOf(machines).Have(p.host) {
		return "a live Machine means this server", nil
	}
	node, err := nodeOf(ctx, p.NodeReader, p.host)
	if err != nil {
		return "", err
	}
	if node != nil {
		return "Node " + node.Name + " bears its providerID", nil
	}
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := p.Reader.List(ctx, hosts); err != nil {
		return "", fmt.Errorf("listing hosts: %w", err)
	}
	report, listed := p.inventory.Zone(p.host.Spec.Zone)
	return host.DestructionBlocked(p.host.Spec.Zone, hosts.Items, report, listed, p.now()).Message, nil
}
