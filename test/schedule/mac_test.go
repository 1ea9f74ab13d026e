package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/push"
	simulated "github.com/macfleet/macfleet/sandbox/scaleway"
)

// mac is one Mac's disk and what runs from it, in one install epoch.
type mac struct {
	id      string
	address string
	install int
	up      bool
	// deafUntil: nobody comes in by SSH before, whatever runs on it.
	deafUntil time.Time
	// spoiled: the reinstall under way fails, and leaves the disk as it is.
	spoiled bool
	disk    disk
}

// disk is what a reinstall takes away.
type disk struct {
	password string
	// owner is the Machine that has left something here: its cluster and UID.
	owner string
	sudo  bool
	// broken: nothing that is converged on it comes to run.
	broken    bool
	build     string
	attempts  map[string]int
	agent     *agent
	restarted string
}

// agent is the node agent on a disk.
type agent struct {
	cluster    *cluster
	node       string
	providerID string
	token      string
	permit     *document.JoinPermit
	joined     bool
}

// racks are the Macs behind the vendor's servers.
type racks struct{ s *sim }

// Erase implements the vendor's Hardware.
func (r racks) Erase(_ context.Context, id string) {
	if m := r.s.macs[id]; m != nil {
		m.up, m.spoiled = false, r.s.spoils()
		if !m.spoiled {
			m.disk = disk{}
		}
	}
}

// Install implements the vendor's Hardware.
func (r racks) Install(_ context.Context, install simulated.Install) error {
	m := r.s.macs[install.ServerID]
	if m == nil {
		m = &mac{id: install.ServerID, address: install.IP.String()}
		r.s.macs[install.ServerID] = m
	}
	if m.spoiled {
		return errSpoiled
	}
	m.install++
	m.up, m.disk = true, disk{password: install.Password, attempts: map[string]int{}, broken: r.s.weather.breaks > 0 && r.s.chance(r.s.weather.breaks)}
	r.s.secrets = append(r.s.secrets, install.Password)
	return nil
}

// Reboot implements the vendor's Hardware.
func (r racks) Reboot(context.Context, string, []string) {}

// Remove implements the vendor's Hardware.
func (r racks) Remove(_ context.Context, id string) { delete(r.s.macs, id) }

// dialer is a manager's way to the Macs.
type dialer struct{ m *manager }

// Dial implements push.Dialer as SSH behaves: a pin that does not match
// refuses, and a first use is recorded before anything else.
func (d dialer) Dial(ctx context.Context, target push.Target) (push.Mac, error) {
	s := d.m.sim
	session := &session{m: d.m, sim: s}
	err := session.do(ctx, "dial", target.Address, func() error {
		session.mac = s.reachable(target.Address)
		if session.mac == nil || s.clock.Now().Before(session.mac.deafUntil) {
			return &push.Failure{Step: "dial", Class: document.Retry, Reason: infrav1.ReasonSSHUnreachable, Err: errors.New("no answer")}
		}
		session.install = session.mac.install
		return nil
	})
	if err != nil {
		return nil, err
	}
	shown := session.HostKey()
	switch {
	case target.Pin == nil && target.FirstUse == nil:
		return nil, errors.New("not pinned")
	case target.Pin == nil:
		return session, target.FirstUse(ctx, shown)
	case target.Pin.SHA256 != shown.SHA256:
		return nil, &push.Failure{Step: "dial", Class: document.Human, Reason: infrav1.ReasonHostKeyMismatch, Err: errors.New("another host key")}
	}
	return session, nil
}

// reachable is the Mac that answers at an address now.
func (s *sim) reachable(address string) *mac {
	for _, server := range s.vendor.Servers() {
		m := s.macs[server.ID]
		if m != nil && m.address == address && m.up && server.Status == simulated.StatusReady {
			return m
		}
	}
	return nil
}

// session is one connection to a Mac. It ends with the system it was made to.
type session struct {
	m       *manager
	sim     *sim
	mac     *mac
	install int
}

var _ push.Mac = (*session)(nil)

func (c *session) do(ctx context.Context, verb, to string, act func() error) error {
	call := operation{manager: c.m, verb: verb, kind: "mac", key: types.NamespacedName{Name: to}}
	return c.sim.through(ctx, call, act)
}

func (c *session) on(ctx context.Context, verb string, act func(*disk) error) error {
	return c.do(ctx, verb, c.mac.id, func() error {
		if c.sim.reachable(c.mac.address) != c.mac || c.mac.install != c.install || c.sim.clock.Now().Before(c.mac.deafUntil) {
			return errLost
		}
		return act(&c.mac.disk)
	})
}

// HostKey implements push.Mac: each installation makes one.
func (c *session) HostKey() infrav1.HostKey {
	return infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: c.mac.hostKey(c.install)}
}

// hostKey is the fingerprint of an installation's.
func (m *mac) hostKey(install int) string { return fmt.Sprintf("SHA256:%s.%d", m.id, install) }

// Probe implements push.Mac.
func (c *session) Probe(ctx context.Context) (facts push.Facts, err error) {
	err = c.on(ctx, "probe", func(d *disk) error {
		facts = push.Facts{Sudo: d.sudo, Installed: d.build}
		return nil
	})
	return facts, err
}

// Grant implements push.Mac: a second try of one password is what locks accounts.
func (c *session) Grant(ctx context.Context, password cloud.Password) error {
	return c.on(ctx, "grant", func(d *disk) error {
		d.attempts[password.Reveal()]++
		if n := d.attempts[password.Reveal()]; n > 1 {
			c.sim.violate("one password was tried %d times in one install epoch of %s", n, c.mac.id)
		}
		c.sim.grants++
		if password.Reveal() != d.password {
			return &push.Failure{Step: "grant", Class: document.Wait, Reason: infrav1.ReasonMissingSudoPassword, Err: errors.New("password rejected")}
		}
		d.sudo = true
		return nil
	})
}

// Receive implements push.Mac.
func (c *session) Receive(ctx context.Context, build push.Agent) error {
	return c.on(ctx, "receive", func(d *disk) error {
		d.build = build.SHA256
		return nil
	})
}

// Converge implements push.Mac: it is here that a disk is found to be shared.
func (c *session) Converge(ctx context.Context, desired document.Desired, _ *document.Signer) (document.Report, error) {
	err := c.on(ctx, "converge", func(d *disk) error {
		if err := desired.Validate(); err != nil {
			return err
		}
		owner := c.m.cluster.name + "/" + desired.Host.Name
		c.sim.touched(c.m.cluster, c.mac, desired.Host.Name)
		if d.owner != "" && d.owner != owner {
			return &push.Failure{Step: "epoch", Class: document.Reinstall, Err: errors.New("the disk holds another's journal")}
		}
		d.owner = owner
		if err := c.sim.breaks(c.mac); err != nil {
			return err
		}
		d.restarted = desired.Restart
		if d.agent == nil {
			d.agent = &agent{}
		}
		d.agent.cluster, d.agent.node, d.agent.providerID = c.m.cluster, desired.Host.Name, desired.Host.ProviderID
		if desired.Join != nil {
			permit := desired.Join.Permit
			d.agent.token, d.agent.permit = desired.Join.Token, &permit
		}
		return nil
	})
	return document.Report{}, err
}

// Plan implements push.Mac: nobody tampers with these Macs.
func (c *session) Plan(ctx context.Context, _ document.Desired) (document.Report, error) {
	return document.Report{}, c.on(ctx, "plan", func(*disk) error { return nil })
}

// Leave implements push.Mac.
func (c *session) Leave(ctx context.Context, _ *document.Signer) error {
	return c.on(ctx, "leave", func(d *disk) error {
		d.agent = nil
		return nil
	})
}

// Close implements push.Mac.
func (c *session) Close() error { return nil }

// live lets the agent of a Mac do its part: join with its token, make its Node
// once for each permit, and say that it is Ready.
func (s *sim) live(m *mac) {
	a := m.disk.agent
	if a == nil || s.reachable(m.address) != m {
		return
	}
	if !a.joined {
		id, _, _ := strings.Cut(a.token, ".")
		a.joined = a.cluster.store.get("Secret", client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}) != nil
		if !a.joined {
			return
		}
		s.note("agent on %s joined as %s", m.id, a.node)
	}
	found := a.cluster.store.get("Node", client.ObjectKey{Name: a.node})
	if found == nil {
		if a.permit == nil || s.clock.Now().After(a.permit.NotAfter) {
			return
		}
		a.permit = nil
		s.note("agent on %s makes Node %s", m.id, a.node)
		s.must(a.cluster.store.create(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: a.node},
			Spec:       corev1.NodeSpec{ProviderID: a.providerID},
			Status:     readyStatus(s.clock.Now()),
		}))
		return
	}
	node := found.DeepCopyObject().(*corev1.Node)
	if node.Spec.ProviderID == a.providerID {
		node.Status = readyStatus(s.clock.Now())
		s.must(a.cluster.store.update(node, false))
	}
}

func readyStatus(_ time.Time) corev1.NodeStatus {
	return corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
}
