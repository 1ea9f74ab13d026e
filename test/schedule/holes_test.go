package schedule

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// Holes that a person fell through, put back one by one. Each is in what the
// machine controller reads: with it, the controller takes for true what only looks
// so, as it did before.

// disguise changes what the controller reads of a Host while it looks at a Machine.
type disguise func(m *infrav1.ScalewayAppleSiliconMachine, h *host.Host)

// disguised reads Hosts in a disguise. What it writes is again as it is stored.
type disguised struct {
	client.Client
	m    *manager
	wear disguise
}

func (c disguised) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, opts...)
	c.m.wears(o, c.wear)
	return err
}

func (c disguised) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	h, is := o.(*host.Host)
	stored, found := c.m.cluster.store.get(kindHost, client.ObjectKeyFromObject(o)).(*host.Host)
	if is && found && c.m.onMachine() != nil {
		h.Spec.Maintenance, h.Spec.Quarantine = stored.Spec.Maintenance, stored.Spec.Quarantine
		if now, was := h.Spec.ClaimRef, stored.Spec.ClaimRef; now != nil && was != nil {
			h.Spec.ClaimRef = was.DeepCopy()
		}
	}
	return c.Client.Update(ctx, o, opts...)
}

// disguisedReader is the uncached reader beside it.
type disguisedReader struct {
	client.Reader
	m    *manager
	wear disguise
}

func (r disguisedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	r.m.wears(o, r.wear)
	return err
}

// onMachine is the Machine that the manager looks at now; nil: at none.
func (m *manager) onMachine() *infrav1.ScalewayAppleSiliconMachine {
	if m.sim.current == nil || m.sim.current.machine.Name == "" {
		return nil
	}
	found, _ := m.cluster.store.get(kindMachine, m.sim.current.machine).(*infrav1.ScalewayAppleSiliconMachine)
	return found
}

func (m *manager) wears(o client.Object, wear disguise) {
	if h, is := o.(*host.Host); is {
		if owner := m.onMachine(); owner != nil && owner.Spec.HostRef != nil {
			wear(owner, h)
		}
	}
}

func inDisguise(wear disguise) seams {
	return seams{
		client: func(m *manager, c client.Client) client.Client { return disguised{c, m, wear} },
		reader: func(m *manager, r client.Reader) client.Reader { return disguisedReader{r, m, wear} },
	}
}

// A claim was whoever's that bore its token, and anybody can copy that.
func TestCatchesOwnershipByTheTokenAlone(t *testing.T) {
	catches(t, inDisguise(func(m *infrav1.ScalewayAppleSiliconMachine, h *host.Host) {
		if claim := h.Spec.ClaimRef; claim != nil && claim.Token == m.Spec.HostRef.ClaimToken {
			claim.Namespace, claim.Name, claim.UID = m.Namespace, m.Name, m.UID
		}
	}), "it is that of Machine", "is ended", "the Mac of Machine")
}

// A host that people keep back was claimed again, and wiped when its Machine went.
func TestCatchesClaimsOfWhatPeopleKeepBack(t *testing.T) {
	catches(t, inDisguise(func(_ *infrav1.ScalewayAppleSiliconMachine, h *host.Host) {
		h.Spec.Maintenance, h.Spec.Quarantine = nil, nil
	}), "which people keep back")
}

// provesAll has each Machine find the Secret that an earlier claim of it would have
// left: so it was when a name and a hostRef were enough to claim again.
type provesAll struct {
	client.Reader
	m *manager
}

func (r provesAll) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	secret, is := o.(*corev1.Secret)
	owner := r.m.onMachine()
	if !is || owner == nil || owner.Spec.HostRef == nil || key != (client.ObjectKey{Namespace: owner.Namespace, Name: host.BootstrapSecretName(owner.Name)}) {
		return err
	}
	if client.IgnoreNotFound(err) != nil || string(secret.Data[host.KeyClaimToken]) == owner.Spec.HostRef.ClaimToken {
		return err
	}
	secret.Namespace, secret.Name = key.Namespace, key.Name
	secret.Data = map[string][]byte{host.KeyClaimToken: []byte(owner.Spec.HostRef.ClaimToken), host.KeyInstallEpoch: []byte("99")}
	return nil
}

// Whoever was named like a server could claim it, and have it wiped.
func TestCatchesClaimsAgainWithoutEvidence(t *testing.T) {
	catches(t, seams{reader: func(m *manager, r client.Reader) client.Reader { return provesAll{r, m} }}, "which never had it")
}
