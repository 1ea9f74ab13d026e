package firewall

import (
	"bufio"
	"net/netip"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/sandbox/mac/pf"
	"github.com/macfleet/macfleet/sandbox/mac/pf/vmnet"
)

// mac is a simulated Mac's network with a guest on it.
type mac struct {
	t *testing.T
	*vmnet.Network
}

const address = "198.51.100.7"

func boot(t *testing.T, b pf.Beliefs) *mac {
	t.Helper()
	m := &mac{t: t, Network: vmnet.New(vmnet.Options{Address: netip.MustParseAddr(address)})}
	m.Filter.SetBeliefs(b)
	m.pfctl("", "-f", "/etc/pf.conf")
	return m
}

func (m *mac) pfctl(stdin string, args ...string) string {
	m.t.Helper()
	r := m.Filter.Run(pf.Command{Args: args, Stdin: []byte(stdin), Read: func(name string) ([]byte, error) {
		return []byte(pf.StockFiles()[name]), nil
	}})
	if r.RC != 0 {
		m.t.Fatalf("pfctl %v: exit %d: %s", args, r.RC, r.Stderr)
	}
	return r.Stdout
}

func (m *mac) attach() {
	m.t.Helper()
	if _, err := m.Attach(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mac) arm(n document.Network) {
	m.t.Helper()
	rules, err := firewall.Rules(n)
	if err != nil {
		m.t.Fatal(err)
	}
	m.pfctl(rules, "-a", firewall.Anchor, "-o", "none", "-f", "-")
	m.pfctl("", "-E")
}

// judge says what is wrong with what is live.
func (m *mac) judge(n document.Network) []string {
	m.t.Helper()
	wanted, err := firewall.Wanted(n)
	if err != nil {
		m.t.Fatal(err)
	}
	var own []netip.Addr
	for _, i := range m.Interfaces() {
		for _, a := range i.Addresses {
			own = append(own, a.Addr())
		}
	}
	var live []string
	lines := bufio.NewScanner(strings.NewReader(m.pfctl("", "-a", firewall.Anchor, "-s", "rules")))
	for lines.Scan() {
		live = append(live, lines.Text())
	}
	found := firewall.Judge(live, wanted, own)
	if main := firewall.JudgeMain(strings.Split(strings.TrimSpace(m.pfctl("", "-s", "rules")), "\n")); main != "" {
		found = append(found, main)
	}
	return found
}

// path is one line of a table: who, to whom, and whether it arrives.
type path struct {
	from, to, proto string
	arrives         bool
}

func (m *mac) check(paths []path) {
	m.t.Helper()
	for _, p := range paths {
		from, to := netip.MustParseAddrPort(p.from), netip.MustParseAddrPort(p.to)
		if got := m.Reach(from, to, p.proto); got.Arrives != p.arrives {
			m.t.Errorf("%s to %s by %s: arrives %v, want %v: %s", p.from, p.to, p.proto, got.Arrives, p.arrives, got.Why)
		}
	}
}

const (
	guest  = "192.168.64.2:40000"
	guest6 = "[fd5d:8e11:4a02:1::2]:40000"
)

// fenced is what holds for every guest, and open what must not break.
func fenced() []path {
	return []path{
		// The Mac, by all its addresses, but for DHCP and DNS of the gateway.
		{guest, address + ":22", "tcp", false},
		{guest, address + ":5900", "tcp", false},
		{guest, "192.168.64.1:22", "tcp", false},
		{guest, "192.168.64.1:10250", "tcp", false},
		{guest, "192.168.64.1:53", "tcp", true},
		{guest, "192.168.64.1:53", "udp", true},
		{"192.168.64.2:68", "192.168.64.1:67", "udp", true},
		{"0.0.0.0:68", "255.255.255.255:67", "udp", true},
		{guest, "192.168.64.1:67", "udp", false}, // not a client's port
		{guest6, "[fd5d:8e11:4a02:1::1]:22", "tcp", false},
		// Siblings.
		{guest, "192.168.64.3:22", "tcp", false},
		{guest6, "[fd5d:8e11:4a02:1::3]:22", "tcp", false},
		// Private, carrier-grade, link-local with metadata, and the rest.
		{guest, "10.1.2.3:443", "tcp", false},
		{guest, "172.16.0.1:443", "tcp", false},
		{guest, "192.168.1.1:443", "tcp", false},
		{guest, "100.64.0.1:443", "tcp", false},
		{guest, "169.254.169.254:80", "tcp", false},
		{guest, "169.254.42.42:80", "tcp", false},
		{guest, "192.0.0.192:80", "tcp", false},
		{guest, "198.18.0.1:80", "tcp", false},
		{guest, "224.0.0.251:5353", "udp", false},
		{guest, "240.0.0.1:80", "tcp", false},
		{guest6, "[fd00:42::42]:80", "tcp", false},
		{guest6, "[fe80::5]:80", "tcp", false},
		{guest6, "[ff02::fb]:5353", "udp", false},
		{guest6, "[64:ff9b::a9fe:a9fe]:80", "tcp", false},
		// Sources that are not theirs.
		{"192.168.64.2:68", "10.0.0.1:67", "udp", false},
		// The internet.
		{guest, "1.1.1.1:443", "tcp", true},
		{guest, "1.1.1.1:53", "udp", true},
		{guest, "1.1.1.1:22", "tcp", true},
		{guest6, "[2606:4700::1111]:443", "tcp", true},
		// Others reach the Mac as before.
		{"203.0.113.9:50000", address + ":22", "tcp", true},
	}
}

func policy() document.Network {
	return document.Network{Subnet: document.DefaultSubnet, DenyPrivate: true}
}

func TestGuestsReachTheInternetAndNothingElse(t *testing.T) {
	m := boot(t, pf.Beliefs{})
	m.arm(policy())
	m.attach()
	m.arm(policy()) // the bridge has brought addresses
	if found := m.judge(policy()); len(found) > 0 {
		t.Errorf("judged: %v", found)
	}
	m.check(fenced())
}

// TestF06_TheFenceHoldsBeforeTheBridgeIsKnown: rules that were loaded when there was
// no bridge hold for its first packets.
func TestF06_TheFenceHoldsBeforeTheBridgeIsKnown(t *testing.T) {
	m := boot(t, pf.Beliefs{})
	m.arm(policy())
	m.attach()
	m.check(fenced())
}

// TestF07_TheFenceHoldsAfterTheMainRulesetWasReplaced: and where it does not, the
// judgement says so.
func TestF07_TheFenceHoldsAfterTheMainRulesetWasReplaced(t *testing.T) {
	m := boot(t, pf.Beliefs{VMNetReplacesMain: true})
	m.arm(policy())
	m.attach()
	m.arm(policy())
	if found := m.judge(policy()); len(found) > 0 {
		t.Errorf("judged: %v", found)
	}
	m.check(fenced())

	m = boot(t, pf.Beliefs{VMNetReplacesMain: true, VMNetDropsAnchorCalls: true})
	m.arm(policy())
	m.attach()
	if m.Reach(netip.MustParseAddrPort(guest), netip.MustParseAddrPort("10.1.2.3:443"), "tcp").Arrives == (len(m.judge(policy())) == 0) {
		t.Errorf("open, and judged: %v", m.judge(policy()))
	}
}

func TestWhatIsAllowedIsReached(t *testing.T) {
	n := policy()
	n.Allow = []document.Allow{
		{CIDR: "10.1.2.0/24", Ports: []int{443}},
		{CIDR: "192.168.0.0/16"},
		{CIDR: "192.168.64.1/32", Ports: []int{5000}},
		{CIDR: "fd00:42::/64", Ports: []int{443}},
	}
	m := boot(t, pf.Beliefs{})
	m.arm(n)
	m.attach()
	m.arm(n)
	m.check([]path{
		{guest, "10.1.2.3:443", "tcp", true},
		{guest, "10.1.2.3:80", "tcp", false},
		{guest, "10.1.3.3:443", "tcp", false},
		{guest, "192.168.7.7:80", "tcp", true},
		{guest6, "[fd00:42::9]:443", "tcp", true},
		{guest6, "[fd00:43::9]:443", "tcp", false},
		// One thing of the Mac's is meant when it is named; a network never means the
		// Mac, or a sibling, within it.
		{guest, "192.168.64.1:5000", "tcp", true},
		{guest, "192.168.64.1:22", "tcp", false},
		{guest, "192.168.64.3:80", "tcp", false},
	})
}

func TestForgedSourcesGoNowhere(t *testing.T) {
	m := boot(t, pf.Beliefs{})
	m.arm(policy())
	m.attach()
	for _, src := range []string{"1.2.3.4", "10.0.0.9", address, "2001:db8::9", "::1"} {
		dst := "1.1.1.1"
		if strings.Contains(src, ":") {
			dst = "2606:4700::1111"
		}
		v := m.Filter.Eval(pf.Packet{
			Direction: pf.In, Interface: vmnet.Bridge, Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst),
			Proto: "tcp", SrcPort: 40000, Port: 443,
		})
		if v.Pass {
			t.Errorf("from %s: let in by %q", src, v.Rule)
		}
	}
}

func TestTheMacReachesItsGuestsAndHearsTheirAnswers(t *testing.T) {
	m := boot(t, pf.Beliefs{})
	m.arm(policy())
	m.attach()
	gateway, inside := netip.MustParseAddr("192.168.64.1"), netip.MustParseAddr("192.168.64.2")
	v := m.Filter.Connect(pf.Packet{
		Direction: pf.Out, Interface: vmnet.Bridge, Src: gateway, Dst: inside, Proto: "tcp", SrcPort: 50000, Port: 22,
	})
	if !v.Pass || !strings.Contains(v.Rule, "keep state") {
		t.Errorf("pass %v by %q, which lets no answer in", v.Pass, v.Rule)
	}
}

func TestWhoReachesSSH(t *testing.T) {
	n := policy()
	n.SSHFrom = []string{"203.0.113.0/24", "2001:db8:7::/48"}
	m := boot(t, pf.Beliefs{})
	m.arm(n)
	m.attach()
	m.check([]path{
		{"203.0.113.9:50000", address + ":22", "tcp", true},
		{"192.0.2.9:50000", address + ":22", "tcp", false},
		{"192.0.2.9:50000", address + ":443", "tcp", true},
		{"127.0.0.1:50000", "127.0.0.1:22", "tcp", true},
		{address + ":50000", address + ":22", "tcp", true},
		{guest, address + ":22", "tcp", false},
		{guest, "1.1.1.1:22", "tcp", true},
	})
	// The connection that brought the rules is older than they are.
	if text, err := firewall.Rules(n); err != nil || strings.Contains(text, "port = 22 keep state") {
		t.Errorf("passes of SSH ask for the start of a connection (%v)", err)
	}
}
