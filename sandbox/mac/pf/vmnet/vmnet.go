// Package vmnet is the sharing service of a simulated Mac: the bridge that
// guests of the shared network sit on, what the service does to the packet
// filter when the first of them starts and the last one ends, and which way a
// packet takes through the Mac. Guests themselves are tart's, addresses are
// handed out by tart's DHCP server; here is only where both find the settings.
package vmnet

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
)

// Names of what the service brings.
const (
	// Bridge is the Mac's end of the shared network; it exists while guests run.
	Bridge = "bridge100"
	// Anchor holds the service's rules, called from the main ruleset.
	Anchor = "com.apple.internet-sharing"
	uplink = "en0"
	lo     = "lo0"
)

// Settings of the shared network, as they were when its first guest started.
type Settings struct {
	// Gateway is the Mac's address on the bridge with the length of the subnet.
	Gateway netip.Prefix
	// Lease is how long DHCP lends an address.
	Lease time.Duration
}

// Defaults are what vmnet does without any settings.
func Defaults() Settings {
	return Settings{Gateway: netip.MustParsePrefix("192.168.64.1/24"), Lease: 24 * time.Hour}
}

// gateway6 is the Mac's IPv6 address on the bridge, out of a unique local net.
func gateway6() netip.Prefix { return netip.MustParsePrefix("fd5d:8e11:4a02:1::1/64") }

// Options of a Network. Address is needed.
type Options struct {
	// Address is the Mac's own on its uplink.
	Address netip.Addr
	// Settings are asked for when the first guest starts; Defaults when nil.
	Settings func() Settings
	// Window and Now are the packet filter's.
	Window func()
	Now    func() time.Time
}

// Network is a Mac's interfaces, its packet filter and the sharing service.
type Network struct {
	// Filter is the Mac's packet filter.
	Filter *pf.Filter

	o Options

	turn sync.Mutex // one guest starts or ends at a time

	mu     sync.Mutex // held for a moment only, never while the filter works
	guests int
	live   Settings // while guests run
	token  uint64
}

// New is the network at boot: nobody is on it, the filter is empty.
func New(o Options) *Network {
	if o.Settings == nil {
		o.Settings = Defaults
	}
	n := &Network{o: o}
	n.Filter = pf.New(pf.Options{Interfaces: n.Interfaces, Window: o.Window, Now: o.Now})
	return n
}

// Interfaces there are now; the bridge comes last.
func (n *Network) Interfaces() []pf.Interface {
	all := []pf.Interface{
		{Name: lo, Addresses: prefixes("127.0.0.1/8", "::1/128", "fe80::1/64")},
		{Name: uplink, Ether: "14:98:77:4a:02:01", Addresses: n.uplinkAddresses()},
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.guests > 0 {
		all = append(all, pf.Interface{
			Name: Bridge, Ether: "16:98:77:4a:02:64",
			Addresses: append([]netip.Prefix{n.live.Gateway}, gateway6(), netip.MustParsePrefix("fe80::1498:77ff:fe4a:264/64")),
		})
	}
	return all
}

// uplinkAddresses are the Mac's own IPv4 address, and IPv6 addresses of the
// range for documentation that go with it.
func (n *Network) uplinkAddresses() []netip.Prefix {
	a := n.o.Address
	length := 64
	if a.Is4() {
		length = 24
	}
	four := a.As16()
	global := netip.MustParseAddr("2001:db8:62::").As16()
	copy(global[12:], four[12:])
	link := netip.MustParseAddr("fe80::1698:77ff:0:0").As16()
	copy(link[12:], four[12:])
	return []netip.Prefix{
		netip.PrefixFrom(a, length), netip.PrefixFrom(netip.AddrFrom16(link), 64), netip.PrefixFrom(netip.AddrFrom16(global), 64),
	}
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(texts))
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// Attach is a guest of the shared network starting: the first one brings the
// bridge and a reference that enables the packet filter, each one the service's
// rules.
func (n *Network) Attach() (Settings, error) {
	n.turn.Lock()
	defer n.turn.Unlock()
	wanted := n.o.Settings()
	n.mu.Lock()
	n.guests++
	first := n.guests == 1
	if first {
		n.live = wanted
	}
	live := n.live
	n.mu.Unlock()
	if first {
		token := n.Filter.Acquire(0, "InternetSharing")
		n.mu.Lock()
		n.token = token
		n.mu.Unlock()
	}
	return live, n.rewrite(live)
}

// Detach is a guest ending; the last one takes bridge, rules and reference away.
func (n *Network) Detach() error {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.mu.Lock()
	if n.guests == 0 {
		n.mu.Unlock()
		return nil
	}
	n.guests--
	last, token := n.guests == 0, n.token
	n.mu.Unlock()
	if !last {
		return nil
	}
	// Somebody may have taken all references away meanwhile.
	_, _ = n.Filter.Release(token)
	if err := n.Filter.Insert(""); err != nil {
		return fmt.Errorf("taking the calls of the shared network back: %w", err)
	}
	for _, anchor := range []string{Anchor, Anchor + "/shared_v4", Anchor + "/shared_v6"} {
		if err := n.load(anchor, ""); err != nil {
			return err
		}
	}
	return nil
}

// rewrite puts the service's rules in place, and its calls into the main ruleset:
// beside what is there, or instead of it.
func (n *Network) rewrite(s Settings) error {
	subnets := map[string]string{
		"/shared_v4": fmt.Sprintf("nat on %s inet from %s to any -> (%s:0)\n", uplink, s.Gateway.Masked(), uplink),
		"/shared_v6": fmt.Sprintf("nat on %s inet6 from %s to any -> (%s:0)\n", uplink, gateway6().Masked(), uplink),
	}
	for name, rules := range subnets {
		if err := n.load(Anchor+name, rules); err != nil {
			return err
		}
	}
	if err := n.load(Anchor, "nat-anchor \"shared_v4\"\nnat-anchor \"shared_v6\"\n"); err != nil {
		return err
	}
	calls := fmt.Sprintf("nat-anchor %q\nanchor %q\n", Anchor, Anchor)
	b := n.Filter.Beliefs()
	switch {
	case b.VMNetReplacesMain && b.VMNetDropsAnchorCalls:
		if err := n.Filter.ReplaceMain(""); err != nil {
			return fmt.Errorf("replacing the main ruleset: %w", err)
		}
	case b.VMNetReplacesMain:
		if err := n.Filter.ReplaceMain(pf.AppleCalls); err != nil {
			return fmt.Errorf("replacing the main ruleset: %w", err)
		}
	}
	if err := n.Filter.Insert(calls); err != nil {
		return fmt.Errorf("calling the shared network's rules: %w", err)
	}
	return nil
}

func (n *Network) load(anchor, rules string) error {
	if err := n.Filter.Load(anchor, "vmnet", rules, nil); err != nil {
		return fmt.Errorf("loading %s: %w", anchor, err)
	}
	return nil
}

// shared says whether an address is of a guest of the shared network, judging by
// the subnets, whoever runs.
func (n *Network) shared(a netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	subnet := n.live.Gateway
	if n.guests == 0 {
		subnet = n.o.Settings().Gateway
	}
	return subnet.Masked().Contains(a) || gateway6().Masked().Contains(a)
}

func (n *Network) own(a netip.Addr) (name string, ok bool) {
	for _, i := range n.Interfaces() {
		if slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == a.WithZone("") }) {
			return i.Name, true
		}
	}
	return "", false
}

func (n *Network) up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.guests > 0
}
