package mac

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Beliefs settle what is not known for certain of the packet filter.
type Beliefs = pf.Beliefs

// Packet is the first packet of a conversation at an interface of a Mac.
type Packet = pf.Packet

// Verdict is what the packet filter does with a Packet.
type Verdict = pf.Verdict

// SetBeliefs changes how the packet filter and the sharing service behave, now
// and for the boots to come.
func (m *Mac) SetBeliefs(ctx context.Context, b Beliefs) error {
	m.mu.Lock()
	m.beliefs = b
	m.mu.Unlock()
	if m.current() == nil {
		return nil
	}
	_, err := m.askFilter(ctx, wire.PFOrder{Beliefs: &b})
	return err
}

// Reach says whether the first packet from one address to another arrives and
// can be answered. From is a guest of the shared network, the Mac itself, or
// anybody outside; proto is tcp, udp, icmp or icmp6.
func (m *Mac) Reach(ctx context.Context, from, to netip.AddrPort, proto string) (bool, error) {
	ok, _, err := m.Explain(ctx, from, to, proto)
	return ok, err
}

// Explain is Reach with the reason: the deciding rule, or what lacks.
func (m *Mac) Explain(ctx context.Context, from, to netip.AddrPort, proto string) (arrives bool, why string, err error) {
	reply, err := m.askFilter(ctx, wire.PFOrder{Reach: &wire.Reach{From: from, To: to, Proto: proto}})
	if err != nil {
		return false, "", err
	}
	if reply.Path == nil {
		return false, "", fmt.Errorf("asking the packet filter: no path in the answer")
	}
	return reply.Path.Arrives, reply.Path.Why, nil
}

// Pass sends the first packet of a conversation past one interface. Where the
// deciding rule keeps state, the conversation outlives changes of the rules.
func (m *Mac) Pass(ctx context.Context, p Packet) (Verdict, error) {
	reply, err := m.askFilter(ctx, wire.PFOrder{Packet: &p})
	if err != nil {
		return Verdict{}, err
	}
	if reply.Verdict == nil {
		return Verdict{}, fmt.Errorf("asking the packet filter: no verdict in the answer")
	}
	return *reply.Verdict, nil
}

// LeaveStuck leaves on the running Mac what an older system left on one whose
// firewall could not be loaded for days: see pf.StuckHost and pf.StuckCommands.
func (m *Mac) LeaveStuck(ctx context.Context) error {
	var script strings.Builder
	script.WriteString("set -e\n")
	for path, text := range pf.StuckHost() {
		fmt.Fprintf(&script, "cat >%s <<'END OF FILE'\n%sEND OF FILE\n", path, text)
	}
	for _, args := range pf.StuckCommands() {
		fmt.Fprintf(&script, "/sbin/pfctl %s\n", strings.Join(args, " "))
	}
	if _, err := m.AsRoot(ctx, script.String()); err != nil {
		return fmt.Errorf("leaving a Mac stuck: %w", err)
	}
	return nil
}

func (m *Mac) askFilter(ctx context.Context, o wire.PFOrder) (*wire.PFReply, error) {
	run := m.current()
	if run == nil {
		return nil, ErrOff
	}
	done, err := run.ask(ctx, wire.Order{PF: &o})
	if err != nil {
		return nil, err
	}
	if done.PF == nil {
		return nil, errGone
	}
	return done.PF, nil
}
