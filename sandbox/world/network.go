package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// network is a sandbox's own block of loopback addresses, and the one SSH port of all its Macs.
type network struct {
	prefix  netip.Prefix
	sshPort int

	mu   sync.Mutex
	used map[netip.Addr]bool
}

// errNoAddress means that all addresses of the block are taken.
var errNoAddress = errors.New("no loopback address is left for another Mac")

// The blocks: 127.a.b.0/24 has room for the Macs that a machine can run, 127.a.0.0/16 for more.
const (
	blockBits     = 24
	wideBlockBits = 16
)

// blockBits is the size of block that the sandbox's Macs need.
func (o *Options) blockBits() int {
	if o.StandIns != nil {
		return wideBlockBits
	}
	return blockBits
}

// networkTries bounds the search for a block that nobody else uses.
const networkTries = 20

// newNetwork takes a random block, so that several sandboxes can run at once: 127.0
// and 127.1 are left to others.
func newNetwork(ctx context.Context, bits int) (*network, error) {
	var last error
	for range networkTries {
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(2 + rand.IntN(250)), byte(rand.IntN(256)), 0}), bits).Masked()
		port, err := freePort(ctx, block.Addr().Next())
		if err == nil {
			return &network{prefix: block, sshPort: port, used: map[netip.Addr]bool{}}, nil
		}
		last = err
	}
	return nil, fmt.Errorf("finding loopback addresses for the Macs: %w", last)
}

func freePort(ctx context.Context, address netip.Addr) (int, error) {
	ports, err := freePorts(ctx, address, 1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// freePorts finds some that differ, for all are held until the last is found.
func freePorts(ctx context.Context, address netip.Addr, n int) (ports []int, err error) {
	var config net.ListenConfig
	for range n {
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(address.String(), "0"))
		if err != nil {
			return nil, err
		}
		defer listener.Close() //nolint:errcheck // nobody has connected to it
		ports = append(ports, int(netip.MustParseAddrPort(listener.Addr().String()).Port()))
	}
	return ports, nil
}

// allocate gives a server its address.
func (n *network) allocate(string) (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for address := n.prefix.Addr().Next(); n.prefix.Contains(address.Next()); address = address.Next() {
		if !n.used[address] {
			n.used[address] = true
			return address, nil
		}
	}
	return netip.Addr{}, errNoAddress
}

// release takes the address of a deleted server back.
func (n *network) release(_ string, address netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.used, address)
}
