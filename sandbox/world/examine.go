package world

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

var _ scaleway.Examiner = (*macs)(nil)

// examinePatience is how long a Mac's port may take to answer a diagnostic.
const examinePatience = 2 * time.Second

// Examine is the vendor's diagnostic: a Mac whose SSH port answers is well, any
// other is dead.
func (m *macs) Examine(ctx context.Context, id string) scaleway.Health {
	machine, found := m.get(id)
	if !found {
		return scaleway.Health{}
	}
	return examine(ctx, machine.Address())
}

func examine(ctx context.Context, ssh netip.AddrPort) scaleway.Health {
	dialer := net.Dialer{Timeout: examinePatience}
	conn, err := dialer.DialContext(ctx, "tcp", ssh.String())
	if err != nil {
		return scaleway.Health{}
	}
	_ = conn.Close()
	return scaleway.WellHealth()
}
