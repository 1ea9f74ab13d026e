package shims

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// pfctl hands its arguments, and the rules on its stdin, to the packet filter in
// pid 1.
func pfctl(c *call) int {
	q := wire.PFCall{Args: c.args}
	if slices.Contains(c.args, "-") {
		data, err := io.ReadAll(c.in)
		if err != nil {
			return c.fail("stdin", err)
		}
		q.Stdin = data
	}
	return c.relay(wire.Call{PF: &q})
}

// ifconfig shows interfaces; it changes none.
func ifconfig(c *call) int {
	a, err := c.ask(wire.Call{Network: &wire.NetworkCall{}})
	if err != nil || a.Network == nil {
		c.errorf("%v%s", err, a.Error)
		return rcSoftware
	}
	interfaces := a.Network.Interfaces
	switch {
	case len(c.args) == 0 || (len(c.args) == 1 && c.args[0] == "-a"):
	case len(c.args) == 1 && c.args[0] == "-l":
		names := make([]string, 0, len(interfaces))
		for _, i := range interfaces {
			names = append(names, i.Name)
		}
		fmt.Fprintln(c.out, strings.Join(names, " "))
		return 0
	case len(c.args) == 1 && !strings.HasPrefix(c.args[0], "-"):
		interfaces = slices.DeleteFunc(interfaces, func(i pf.Interface) bool { return i.Name != c.args[0] })
		if len(interfaces) == 0 {
			c.errorf("interface %s does not exist", c.args[0])
			return 1
		}
	default:
		return c.unmodelled(strings.Join(c.args, " "))
	}
	for _, i := range interfaces {
		c.showInterface(i)
	}
	return 0
}

func (c *call) showInterface(i pf.Interface) {
	flags, mtu := "8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST>", 1500
	if i.Ether == "" {
		flags, mtu = "8049<UP,LOOPBACK,RUNNING,MULTICAST>", 16384
	}
	fmt.Fprintf(c.out, "%s: flags=%s mtu %d\n", i.Name, flags, mtu)
	if i.Ether != "" {
		fmt.Fprintf(c.out, "\tether %s\n", i.Ether)
	}
	for _, a := range i.Addresses {
		fmt.Fprintf(c.out, "\t%s\n", addressLine(i, a))
	}
	if i.Ether != "" {
		fmt.Fprintln(c.out, "\tstatus: active")
	}
}

// addressLine prints an address: a mask of eight hex digits for IPv4, the zone
// for link-local ones.
func addressLine(i pf.Interface, a netip.Prefix) string {
	if a.Addr().Is6() {
		zone := ""
		if a.Addr().IsLinkLocalUnicast() {
			zone = "%" + i.Name
		}
		return fmt.Sprintf("inet6 %s%s prefixlen %d", a.Addr(), zone, a.Bits())
	}
	mask := ^uint32(0) << (32 - a.Bits())
	line := fmt.Sprintf("inet %s netmask 0x%08x", a.Addr(), mask)
	if i.Ether != "" {
		four := a.Masked().Addr().As4()
		for b := range four {
			four[b] |= ^byte(mask >> (24 - 8*b))
		}
		line += " broadcast " + netip.AddrFrom4(four).String()
	}
	return line
}
