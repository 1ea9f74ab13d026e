package machine

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/memo"
	"github.com/macfleet/macfleet/internal/order"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/requeue"
)

// claims judges, makes and ends the claims of Machines on hosts.
type claims struct {
	client   client.Client
	clock    clock.PassiveClock
	reader   client.Reader
	absences *memo.Memo[client.ObjectKey, machine.Absence]
	machines *machines
	metrics  *metrics
	nodes    *nodes
	pools    host.Pools
	pushes   *job.Pool
	secrets  bootstrapsecret.Secrets
	tokens   *push.Tokens
}

// followOrder moves spec.hostRef to the Host of the server that was made. What a
// cache says is confirmed; the token stays the same.
func (p *claims) followOrder(ctx context.Context, v *visit, reader client.Reader) (bool, error) {
	h, err := order.Delivered(ctx, reader, host.ClaimOf(v.Machine))
	if err != nil || h == nil {
		return false, err
	}
	fresh := &host.Host{}
	if err := p.reader.Get(ctx, client.ObjectKey{Name: h.Name}, fresh); err != nil {
		return false, fmt.Errorf("confirming host %s of an order: %w", h.Name, err)
	}
	if !host.MeansClaim(fresh, v.Machine) {
		return false, requeue.ErrStale
	}
	err = p.machines.patch(ctx, v, "hostRef of the server that was ordered", func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Spec.HostRef = &infrav1.HostReference{Name: fresh.Name, ClaimToken: m.Spec.HostRef.ClaimToken}
	})
	if err != nil {
		return false, err
	}
	ctrl.LoggerFrom(ctx).Info("The ordered server has its Host", "host", fresh.Name, "serverID", fresh.Spec.ServerID)
	v.claimed = machine.Unknown(infrav1.ReasonClaiming, "the ordered server is host %s", fresh.Name)
	return true, nil
}

// recordUID writes this object's UID into the claim, under the resourceVersion of
// the read that showed another one's, and after an uncached read of the Machine.
func (p *claims) recordUID(ctx context.Context, v *visit, h *host.Host) error {
	if err := p.machines.confirmHostRef(ctx, v, true); err != nil {
		return err
	}
	before := h.Spec.ClaimRef.UID
	h.Spec.ClaimRef.UID = v.Machine.UID
	if err := p.client.Update(ctx, h); err != nil {
		return fmt.Errorf("taking back host %s: %w", h.Name, err)
	}
	if before == "" {
		return nil
	}
	p.metrics.claim(claimAgain)
	p.machines.event(v.Machine, corev1.EventTypeNormal, reasonClaimRestored, "host "+h.Name+" was claimed for an earlier object of this name, which is gone; it is this object's again")
	ctrl.LoggerFrom(ctx).Info("Host taken back", "host", h.Name, "serverID", h.Spec.ServerID, "was", before, "is", v.Machine.UID)
	return nil
}

// nextLegacy asks package host, from uncached lists: a claim follows.
func (p *claims) nextLegacy(ctx context.Context, v *visit, legacy host.Legacy) (host.LegacyStep, *host.Host, string, error) {
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := p.reader.List(ctx, hosts); err != nil {
		return "", nil, "", fmt.Errorf("listing hosts: %w", err)
	}
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := p.reader.List(ctx, machines); err != nil {
		return "", nil, "", fmt.Errorf("listing Machines: %w", err)
	}
	step, h, why := host.NextLegacy(v.Machine, legacy, hosts.Items, machines.Items, p.pools.Known(machines.Items)...)
	return step, h, why, nil
}

func (p *claims) patchLegacyHostRef(ctx context.Context, v *visit, h *host.Host) error {
	ref := &infrav1.HostReference{Name: h.Name, ClaimToken: uuid.NewString(), TakeOver: true}
	return p.machines.patch(ctx, v, "chosen host", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = ref })
}

// clearHost forgets a host that was held, with all that is staged for it.
func (p *claims) clearHost(ctx context.Context, v *visit) error {
	key := client.ObjectKeyFromObject(v.Machine)
	p.pushes.Cancel(key)
	if err := p.clearBootstrap(ctx, v); err != nil {
		return err
	}
	if err := p.clearHostRef(ctx, v); err != nil {
		return err
	}
	p.pushes.Forget(key)
	v.Host = nil
	return nil
}

// judgeClaim reads the Host in spec.hostRef and asks package host what the claim needs.
func (p *claims) judgeClaim(ctx context.Context, v *visit, reader client.Reader) (*host.Host, host.Verdict, error) {
	h := &infrav1.ScalewayAppleSiliconHost{}
	name := v.Machine.Spec.HostRef.Name
	err := reader.Get(ctx, client.ObjectKey{Name: name}, h)
	if apierrors.IsNotFound(err) {
		return nil, host.Repair(v.Machine, nil, p.pools.Prefix(v.Machine)), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading host %s: %w", name, err)
	}
	p.absences.Forget(client.ObjectKeyFromObject(v.Machine))
	return h, host.Repair(v.Machine, h, p.pools.Prefix(v.Machine)), nil
}

// acquire writes the claim onto the host, under the resourceVersion of the read
// that found it free, if spec.hostRef is still the same after that read. A write that
// fails says nothing for certain: another manager may have claimed the host for
// this very token. So spec.hostRef stays, and the next read decides.
func (p *claims) acquire(ctx context.Context, v *visit, h *host.Host, verdict host.Verdict) error {
	again := verdict == host.ClaimAgain
	if err := p.machines.confirmHostRef(ctx, v, again); err != nil {
		return err
	}
	if err := p.writeClaim(ctx, v, h, again); err != nil {
		if apierrors.IsConflict(err) {
			p.metrics.claim(claimConflict)
			v.claimed = machine.False(infrav1.ReasonClaimConflict, "host %s changed while it was being claimed", h.Name)
			if again {
				v.claimed = machine.Unknown(infrav1.ReasonClaiming, "host %s changed while it was being claimed again", h.Name)
			}
		}
		return fmt.Errorf("claiming host %s: %w", h.Name, err)
	}
	result := claimTaken
	if again {
		result = claimAgain
	}
	p.metrics.claim(result)
	v.Host, v.claimed = h, machine.True(machine.ReasonClaimed)
	if host.TakesOver(v.Machine) && v.Machine.DeletionTimestamp.IsZero() {
		p.machines.event(v.Machine, corev1.EventTypeNormal, infrav1.ReasonLegacyMachine, "host "+h.Name+" is claimed as it stands: nothing is wiped or rebooted, and its guests run on")
	}
	if again {
		ctrl.LoggerFrom(ctx).Info("Host claimed again", "host", h.Name, "serverID", h.Spec.ServerID)
		// The lost Host took along what its token was bound to: the Mac needs another.
		return p.tokens.End(ctx, client.ObjectKeyFromObject(v.Machine), hostclaim.Ref{})
	}
	return nil
}

// writeClaim is the compare-and-set on the host. Update carries the
// resourceVersion that was read; a patch without it would overwrite the claim of
// another Machine.
func (p *claims) writeClaim(ctx context.Context, v *visit, h *host.Host, again bool) error {
	host.Claim(h, *v.ClaimRef(), p.clock.Now())
	if again {
		s, err := p.secrets.Read(ctx, client.ObjectKeyFromObject(v.Machine))
		if err != nil {
			return err
		}
		s.Restore(&h.Spec.Record, v.Token())
		if record := &h.Spec.Record.Bootstrap; v.Machine.Status.Bootstrap.RebootIssued {
			// Nothing says how many had failed before the reboot: those after it begin anew.
			record.RebootIssued, record.AttemptsAtReboot = true, record.Attempts
		}
		h.Spec.Record.Ordered = h.Spec.Record.Ordered || machine.OrdersServer(v.Machine)
		if machine.OrdersServer(v.Machine) && h.Spec.Record.OrderedFor == "" {
			h.Spec.Record.OrderedFor = order.CountedFor(v.Machine)
		}
	}
	return p.client.Update(ctx, h)
}

// clearHostRef forgets the chosen host; the write wakes the Machine to choose
// again, with another token. The Mac may have made its Node already, or may be
// about to: what it joins with ends and the Node goes first, for the next Mac
// needs its name.
func (p *claims) clearHostRef(ctx context.Context, v *visit) error {
	if err := p.tokens.End(ctx, client.ObjectKeyFromObject(v.Machine), hostclaim.RefOf(v.Machine)); err != nil {
		return err
	}
	if err := p.nodes.deleteOwnNode(ctx, v); err != nil {
		return err
	}
	return p.machines.patch(ctx, v, "end of hostRef", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = nil })
}

// clearBootstrap takes back what <machine>-bootstrap holds for a claim that ends while
// its Machine lives: the token, and the mirror of the host's record.
func (p *claims) clearBootstrap(ctx context.Context, v *visit) error {
	key := client.ObjectKeyFromObject(v.Machine)
	if err := p.tokens.End(ctx, key, hostclaim.RefOf(v.Machine)); err != nil {
		return err
	}
	return p.secrets.Clear(ctx, key)
}

// reasonClaimRestored is the event of a host that an earlier object of the
// Machine's name had claimed.
const reasonClaimRestored = "ClaimRestored"

// rights gathers, uncached, what proves that a Machine has a right to a host.
type rights struct {
	client   client.Client
	clock    clock.PassiveClock
	reader   client.Reader
	machines *machines
	pools    host.Pools
	secrets  bootstrapsecret.Secrets
}

// mayClaimAgain gathers what host.MayClaimAgain decides from.
func (p *rights) mayClaimAgain(ctx context.Context, v *visit, h *host.Host) (host.Refusal, error) {
	in := host.ClaimAgainInput{Host: h, PoolPrefix: machine.NamedLikeAPool(v.Machine, p.pools), Now: p.clock.Now()}
	var err error
	if in.Claimant, err = p.claimant(ctx, v.Machine); err != nil {
		return host.Refusal{}, err
	}
	if in.MissingOwner, err = p.machines.missingOwner(ctx, v.Machine); err != nil {
		return host.Refusal{}, err
	}
	if in.Rivals, err = p.rivals(ctx, v.Machine, h); err != nil {
		return host.Refusal{}, err
	}
	return host.MayClaimAgain(in), nil
}

func (p *rights) claimant(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (host.Claimant, error) {
	s, err := p.secrets.Read(ctx, client.ObjectKeyFromObject(m))
	return host.Claimant{Machine: m, Staged: host.StagedClaim{Token: s.ClaimToken, Epoch: s.Epoch}}, err
}

// rivals are the Machines of the same name in other namespaces that mean the host.
// A manager of one namespace sees none; a Secret that cannot be read proves nothing.
func (p *rights) rivals(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine, h *host.Host) ([]host.Claimant, error) {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	err := p.reader.List(ctx, list)
	if apierrors.IsForbidden(err) {
		err = p.client.List(ctx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	var rivals []host.Claimant
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name != m.Name || other.Namespace == m.Namespace || !host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{*other}).Mean(h) {
			continue
		}
		rival, err := p.claimant(ctx, other)
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		rivals = append(rivals, rival)
	}
	return rivals, nil
}
