package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Anchor is where our rules live: below com.apple/, since vmnet and stock pf.conf
// both call com.apple/*, and first there, since its children are evaluated in the
// order of their names.
const Anchor = "com.apple/000.macfleet"

const (
	inet  = "inet"
	inet6 = "inet6"

	tcp   = "tcp"
	udp   = "udp"
	icmp  = "icmp"
	icmp6 = "icmp6"

	loopback = "lo0"

	portSSH        = 22
	portDNS        = 53
	portDHCPServer = 67
	portDHCPClient = 68
	// RFC 9915, DHCPv6.
	portDHCPv6Client = 546
	portDHCPv6Server = 547

	broadcast   = "255.255.255.255"
	unspecified = "0.0.0.0"
	// dhcpv6Servers is All_DHCP_Relay_Agents_and_Servers.
	dhcpv6Servers = "ff02::1:2"
	// ula and linkLocal are what vmnet gives guests in IPv6, with a prefix that it
	// draws by itself.
	ula       = "fc00::/7"
	linkLocal = "fe80::/10"
)

// bridges are the interfaces that vmnet makes for guests, in the order in which it
// makes them. They need not exist when rules name them.
func bridges() []string { return []string{"bridge100", "bridge101", "bridge102", "bridge103"} }

// special4 are the IPv4 networks of RFC 6890 that are not the internet: this
// network, private, carrier-grade, loopback, link-local with the vendors' metadata,
// protocol assignments, benchmarking, multicast, and reserved with the broadcast.
// Documentation networks are left out: nothing listens there.
func special4() []string {
	return []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
	}
}

// special6 are those of IPv6. ::/8 holds loopback, IPv4-mapped and NAT64, and
// 2002::/16 is 6to4: the latter three lead to IPv4 networks under another name.
func special6() []string {
	return []string{"::/8", "2002::/16", "fec0::/10", "ff00::/8"}
}

// Rules are the rules in pf's grammar, one a line.
func Rules(policy Policy) (string, error) {
	rules, err := Wanted(policy)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range rules {
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// Wanted are the rules of a policy, in order. All blocks look at packets that
// come in: what leaves the Mac was translated before it is filtered, and a guest's
// address is not to be seen in it any more.
func Wanted(policy Policy) ([]Rule, error) {
	p, err := read(policy.Network)
	if err != nil {
		return nil, err
	}
	if port := policy.SSHPort; port != 0 && !slices.Contains(p.sshPorts, port) {
		p.sshPorts = append(p.sshPorts, port)
	}
	p.kubeletPort = policy.KubeletPort
	rules := p.guests4()
	for _, bridge := range bridges() {
		rules = append(rules, p.guests6(bridge)...)
	}
	for _, bridge := range bridges() {
		// What is left has a forged source.
		rules = append(rules, blockIn(Rule{Interface: bridge, Family: inet, From: anyone, To: anyone}))
		rules = append(rules, blockIn(Rule{Interface: bridge, Family: inet6, From: anyone, To: anyone}))
	}
	return append(rules, p.mac()...), nil
}

// Gateway is the Mac's own address in the guests' network.
func Gateway(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr().Next() }

// plan is a network whose CIDRs were read.
type plan struct {
	subnet, gateway string
	denyPrivate     bool
	allow           []allowed
	sshFrom         []netip.Prefix
	sshPorts        []int
	kubeletPort     int
	ingress         []allowed
}

type allowed struct {
	prefix netip.Prefix
	ports  []int
}

// exact says that one thing is meant by it, so that it may be the Mac itself. A
// network never means the Mac, or a guest, that happens to have an address in it.
func (a allowed) exact() bool { return a.prefix.IsSingleIP() && len(a.ports) > 0 }

func read(n document.Network) (plan, error) {
	subnet, err := netip.ParsePrefix(n.Subnet)
	if err != nil || !subnet.Addr().Is4() {
		return plan{}, fmt.Errorf("guests' network %.64q is not an IPv4 CIDR", n.Subnet)
	}
	p := plan{subnet: network(subnet), gateway: Gateway(subnet).String(), denyPrivate: n.DenyPrivate, sshPorts: []int{portSSH}}
	if p.allow, err = readAllowed(n.Allow); err != nil {
		return plan{}, err
	}
	if p.ingress, err = readAllowed(n.HostAllow); err != nil {
		return plan{}, err
	}
	for _, from := range n.SSHFrom {
		prefix, err := netip.ParsePrefix(from)
		if err != nil {
			return plan{}, fmt.Errorf("network %.64q, from which SSH may come, is not a CIDR", from)
		}
		p.sshFrom = append(p.sshFrom, prefix.Masked())
	}
	return p, nil
}

func readAllowed(all []document.Allow) ([]allowed, error) {
	var out []allowed
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.CIDR)
		if err != nil {
			return nil, fmt.Errorf("allowed network %.64q is not a CIDR", a.CIDR)
		}
		out = append(out, allowed{prefix.Masked(), a.Ports})
	}
	return out, nil
}

// guests4 match by the guests' addresses, whatever the bridge is called.
func (p plan) guests4() []Rule {
	from := func(r Rule) Rule {
		r.Family, r.From = inet, p.subnet
		return r
	}
	dhcp := Rule{Family: inet, Proto: udp, FromPort: portDHCPClient, ToPort: portDHCPServer}
	var rules []Rule
	for _, ends := range [][2]string{{unspecified, broadcast}, {p.subnet, broadcast}, {p.subnet, p.gateway}} {
		dhcp.From, dhcp.To = ends[0], ends[1]
		rules = append(rules, passIn(dhcp))
	}
	for _, proto := range []string{tcp, udp} {
		rules = append(rules, passIn(from(Rule{Proto: proto, To: p.gateway, ToPort: portDNS})))
	}
	rules = append(rules, p.allows(inet, from, allowed.exact)...)
	rules = append(rules, blockIn(from(Rule{To: self})), blockIn(from(Rule{To: p.subnet})))
	rules = append(rules, p.allows(inet, from, allowed.wide)...)
	if p.denyPrivate {
		for _, to := range special4() {
			rules = append(rules, blockIn(from(Rule{To: to})))
		}
	}
	// The Mac may connect to its guests: the state lets the answers in.
	toGuests := Rule{Action: "pass", Out: true, Family: inet, From: anyone, To: p.subnet}
	return append(rules, passIn(from(Rule{To: anyone})), toGuests)
}

func (a allowed) wide() bool { return !a.exact() }

// guests6 match by the bridge: vmnet draws the guests' prefix by itself, and unique
// local addresses elsewhere are none of our business. For the same reason guests
// cannot be told from private networks, and both are closed to them always.
func (p plan) guests6(bridge string) []Rule {
	on := func(r Rule) Rule {
		r.Family, r.Interface = inet6, bridge
		return r
	}
	fromULA := func(r Rule) Rule {
		r.From = ula
		return on(r)
	}
	var rules []Rule
	for _, kind := range []string{"routersol", "neighbrsol", "neighbradv"} {
		rules = append(rules, passIn(on(Rule{Proto: icmp6, From: anyone, To: anyone, ICMPType: kind})))
	}
	rules = append(rules, passIn(on(Rule{
		Proto: udp, From: linkLocal, FromPort: portDHCPv6Client, To: dhcpv6Servers, ToPort: portDHCPv6Server,
	})))
	rules = append(rules, p.allows(inet6, fromULA, allowed.exact)...)
	rules = append(rules, blockIn(on(Rule{From: anyone, To: self})))
	rules = append(rules, p.allows(inet6, fromULA, allowed.wide)...)
	closed := []string{ula, linkLocal}
	if p.denyPrivate {
		closed = append(closed, special6()...)
	}
	for _, to := range closed {
		rules = append(rules, blockIn(on(Rule{From: anyone, To: to})))
	}
	toGuests := on(Rule{Action: "pass", Out: true, From: anyone, To: anyone})
	return append(rules, passIn(fromULA(Rule{To: anyone})), toGuests)
}

// allows are the exceptions of one family.
func (p plan) allows(fam string, from func(Rule) Rule, which func(allowed) bool) []Rule {
	var rules []Rule
	for _, a := range p.allow {
		if family(a.prefix.Addr()) != fam || !which(a) {
			continue
		}
		to := Rule{To: network(a.prefix)}
		if len(a.ports) == 0 {
			rules = append(rules, passIn(from(to)))
		}
		for _, port := range a.ports {
			for _, proto := range []string{tcp, udp} {
				to.Proto, to.ToPort = proto, port
				rules = append(rules, passIn(from(to)))
			}
		}
	}
	return rules
}

// passIn has no state: connections that are older than the rules must fit them too,
// and pf does not take up TCP well in its middle.
func passIn(r Rule) Rule {
	r.Action, r.Stateless = "pass", true
	return r
}

func blockIn(r Rule) Rule {
	r.Action = "block"
	return r
}
