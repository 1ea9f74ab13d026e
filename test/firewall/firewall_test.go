// Package firewall_test judges the guests' firewall by what they reach: the rules
// that the agent renders are loaded into a packet filter that knows nothing of
// them, with a guest on the shared network, and packets are sent.
package firewall_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/sandbox/mac/pf"
	"github.com/macfleet/macfleet/sandbox/mac/pf/vmnet"
)

const (
	anchor = "com.apple/000.macfleet"
	own    = "203.0.113.7"
)

// world is a Mac's network with the rules of one profile.
type world struct {
	*vmnet.Network
	t       *testing.T
	network document.Network
}

func boot(t *testing.T, n document.Network, b pf.Beliefs) *world {
	t.Helper()
	gateway := firewall.Gateway(netip.MustParsePrefix(n.Subnet))
	w := &world{t: t, network: n, Network: vmnet.New(vmnet.Options{
		Address: netip.MustParseAddr(own),
		Settings: func() vmnet.Settings {
			return vmnet.Settings{Gateway: netip.PrefixFrom(gateway, netip.MustParsePrefix(n.Subnet).Bits())}
		},
	})}
	w.Filter.SetBeliefs(b)
	w.pfctl("", "-f", "/etc/pf.conf")
	w.pfctl("", "-E")
	return w
}

func (w *world) pfctl(stdin string, args ...string) pf.Result {
	w.t.Helper()
	r := w.Filter.Run(pf.Command{Args: args, Stdin: []byte(stdin), Read: func(path string) ([]byte, error) {
		return []byte(pf.StockFiles()[path]), nil
	}})
	if r.RC != 0 || r.Unmodelled != "" {
		w.t.Fatalf("pfctl %q: %+v", args, r)
	}
	return r
}

func (w *world) policy() firewall.Policy {
	return firewall.Policy{Network: w.network, KubeletPort: document.DefaultKubeletPort}
}

// arm loads the profile's rules.
func (w *world) arm() {
	w.t.Helper()
	rules, err := firewall.Rules(w.policy())
	if err != nil {
		w.t.Fatal(err)
	}
	w.pfctl(rules, "-a", anchor, "-f", "-")
}

func (w *world) start() {
	w.t.Helper()
	if _, err := w.Attach(); err != nil {
		w.t.Fatal(err)
	}
}

// judge is what the agent thinks of the rules that are live.
func (w *world) judge() []string {
	w.t.Helper()
	wanted, err := firewall.Wanted(w.policy())
	if err != nil {
		w.t.Fatal(err)
	}
	var addresses []netip.Addr
	for _, i := range w.Interfaces() {
		for _, p := range i.Addresses {
			addresses = append(addresses, p.Addr())
		}
	}
	return firewall.Judge(lines(w.pfctl("", "-a", anchor, "-s", "rules").Stdout), wanted, addresses)
}

func (w *world) judgeMain() string {
	w.t.Helper()
	return firewall.JudgeMain(lines(w.pfctl("", "-s", "rules").Stdout))
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// expect sends "proto from to" for each line and compares what arrives.
func (w *world) expect(arrives bool, cases ...string) {
	w.t.Helper()
	for _, c := range cases {
		f := strings.Fields(c)
		path := w.Reach(netip.MustParseAddrPort(f[1]), netip.MustParseAddrPort(f[2]), f[0])
		if path.Arrives != arrives {
			w.t.Errorf("%s: arrives %v, %s", c, path.Arrives, path.Why)
		}
	}
}

const guest6 = "[fd5d:8e11:4a02:1::9]:40000"

// private is what no guest may reach, unless its profile says so.
func private(guest string) []string {
	var out []string
	for _, to := range []string{
		"10.0.0.1:443", "172.16.0.1:443", "172.31.255.254:22", "192.168.1.1:80", "192.168.178.20:445", "100.64.0.1:443", "100.127.1.1:443",
		"169.254.169.254:80", "169.254.42.42:80", "192.0.0.8:80", "198.18.0.1:80", "198.19.1.1:80", "240.0.0.1:80", "224.0.0.251:5353",
		"0.0.0.1:80",
	} {
		out = append(out, "tcp "+guest+":40000 "+to, "udp "+guest+":40000 "+to)
	}
	for _, to := range []string{
		"[fd00:1::1]:443", "[fc00::1]:443", "[fd5d:8e11:4a02:2::1]:443", "[fe80::1:2:3:4]:22", "[ff02::fb]:5353", "[::ffff:10.0.0.1]:443",
		"[64:ff9b:1::1]:443", "[fec0::1]:443",
	} {
		if strings.HasPrefix(to, "[::ffff") || strings.HasPrefix(to, "[64:ff9b") {
			continue // no packet has such a destination here
		}
		out = append(out, "tcp "+guest6+" "+to)
	}
	return out
}

// mac is every address of the Mac that a guest could try.
func mac(guest, gateway string) []string {
	var out []string
	for _, port := range []int{22, 80, 5900, 10250} {
		for _, to := range []string{own, gateway, "127.0.0.1"} {
			out = append(out, fmt.Sprintf("tcp %s:40000 %s:%d", guest, to, port))
		}
		for _, to := range []string{"fd5d:8e11:4a02:1::1", "2001:db8:62::cb00:7107", "::1", "fe80::1498:77ff:fe4a:264"} {
			out = append(out, fmt.Sprintf("tcp %s [%s]:%d", guest6, to, port))
		}
	}
	return out
}

func fenced() document.Network {
	return document.Network{Subnet: document.DefaultSubnet, DenyPrivate: true}
}

func (w *world) expectFenced() {
	w.t.Helper()
	const guest, gateway = "192.168.64.9", "192.168.64.1"
	w.expect(false, private(guest)...)
	w.expect(false, mac(guest, gateway)...)
	w.expect(false, "tcp 192.168.64.9:40000 192.168.64.10:22", "tcp "+guest6+" [fd5d:8e11:4a02:1::a]:22")
	w.expect(true,
		"tcp 192.168.64.9:40000 192.0.2.1:443", "udp 192.168.64.9:40000 192.0.2.1:443", "tcp "+guest6+" [2600::1]:443",
		"udp 0.0.0.0:68 255.255.255.255:67", "udp 192.168.64.9:68 192.168.64.1:67",
		"udp 192.168.64.9:40000 192.168.64.1:53", "tcp 192.168.64.9:40000 192.168.64.1:53",
	)
}

func TestGuestsReachTheInternetAndNothingElse(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{})
	w.start()
	w.expect(true, "tcp 192.168.64.9:40000 10.0.0.1:443", "tcp 192.168.64.9:40000 192.168.64.1:22") // open without rules
	w.arm()
	w.expectFenced()
	if got := w.judge(); len(got) > 0 {
		t.Errorf("the agent finds fault with its own rules: %v", got)
	}
	if got := w.judgeMain(); got != "" {
		t.Error(got)
	}
}

func TestF06_TheSameRulesOnTheWayOutWouldFenceNothing(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{})
	w.start()
	rules, err := firewall.Rules(w.policy())
	if err != nil {
		t.Fatal(err)
	}
	w.pfctl(strings.ReplaceAll(rules, "block drop in quick inet from", "block drop out quick inet from"), "-a", anchor, "-f", "-")
	w.expect(true, "tcp 192.168.64.9:40000 10.0.0.1:443", "tcp 192.168.64.9:40000 169.254.169.254:80")
	if len(w.judge()) == 0 {
		t.Error("the agent takes rules on the way out for its own")
	}
}

func TestF07_AfterVmnetRewroteTheMainRuleset(t *testing.T) {
	for name, b := range map[string]pf.Beliefs{"beside": {}, "instead": {VMNetReplacesMain: true}} {
		t.Run(name, func(t *testing.T) {
			w := boot(t, fenced(), b)
			w.arm()
			w.start()
			if got := w.judgeMain(); got != "" {
				t.Error(got)
			}
			// The bridge brought addresses that self did not mean when it was loaded.
			if len(w.judge()) == 0 {
				t.Error("the agent does not miss the bridge's addresses")
			}
			w.arm()
			w.expectFenced()
			if got := w.judge(); len(got) > 0 {
				t.Error(got)
			}
		})
	}
	t.Run("without the calls", func(t *testing.T) {
		w := boot(t, fenced(), pf.Beliefs{VMNetReplacesMain: true, VMNetDropsAnchorCalls: true})
		w.arm()
		w.start()
		w.arm()
		w.expect(true, "tcp 192.168.64.9:40000 10.0.0.1:443") // what the agent must notice
		if w.judgeMain() == "" {
			t.Error("the agent does not see that nobody calls its rules")
		}
	})
}

// TestBeforeTheAgentLooksAgain is the moment between a guest's start and the next
// proof: only the addresses that came with the bridge may be open.
func TestBeforeTheAgentLooksAgain(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{VMNetReplacesMain: true})
	w.arm()
	w.start()
	w.expect(false, private("192.168.64.9")...)
	w.expect(false, "tcp 192.168.64.9:40000 192.168.64.1:22", "tcp 192.168.64.9:40000 "+own+":22", "tcp 192.168.64.9:40000 192.168.64.10:22",
		"tcp "+guest6+" [fd5d:8e11:4a02:1::1]:22")
}

func TestAllowedNetworksAndPorts(t *testing.T) {
	n := fenced()
	n.Subnet = "10.77.0.0/16"
	n.Allow = []document.Allow{
		{CIDR: "10.1.2.3/32", Ports: []int{443, 5000}},
		{CIDR: "172.16.4.0/22"},
		{CIDR: "fd00:1::/64", Ports: []int{443}},
	}
	w := boot(t, n, pf.Beliefs{})
	w.start()
	w.arm()
	const guest = "10.77.3.9:40000"
	w.expect(true,
		"tcp "+guest+" 10.1.2.3:443", "udp "+guest+" 10.1.2.3:5000", "tcp "+guest+" 172.16.7.255:22",
		"tcp "+guest6+" [fd00:1::5]:443", "tcp "+guest+" 192.0.2.1:443")
	w.expect(false,
		"tcp "+guest+" 10.1.2.3:80", "tcp "+guest+" 10.1.2.4:443", "tcp "+guest+" 172.16.8.0:22",
		"tcp "+guest6+" [fd00:1::5]:80", "tcp "+guest6+" [fd00:2::5]:443", "tcp "+guest+" 10.77.0.1:22", "tcp "+guest+" 10.77.9.9:22")
}

// TestAnExceptionIsNoWayToTheMac: what is allowed is other machines.
func TestAnExceptionIsNoWayToTheMac(t *testing.T) {
	n := fenced()
	n.Allow = []document.Allow{{CIDR: "203.0.113.0/24"}, {CIDR: "192.168.0.0/16"}, {CIDR: "2001:db8::/32"}, {CIDR: "fd00::/8"}}
	w := boot(t, n, pf.Beliefs{})
	w.start()
	w.arm()
	w.expect(false, mac("192.168.64.9", "192.168.64.1")...)
	w.expect(false, "tcp 192.168.64.9:40000 192.168.64.10:22")
	w.expect(true, "tcp 192.168.64.9:40000 203.0.113.8:22", "tcp 192.168.64.9:40000 192.168.1.1:22")
}

func TestASpoofedSourceGoesNowhere(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{})
	w.start()
	w.arm()
	for _, src := range []string{"10.0.0.9", "198.51.100.9", "192.168.65.9", own, "2001:db8:99::9"} {
		p := pf.Packet{
			Direction: pf.In, Interface: vmnet.Bridge, Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr("192.0.2.1"),
			Proto: "tcp", SrcPort: 40000, Port: 443,
		}
		if p.Src.Is6() {
			p.Dst = netip.MustParseAddr("2600::1")
		}
		if v := w.Filter.Eval(p); v.Pass {
			t.Errorf("from %s: passes by %q", src, v.Rule)
		}
	}
}

func TestSSHOnlyFromWhereItIsAllowed(t *testing.T) {
	n := fenced()
	n.SSHFrom = []string{"198.51.100.0/24", "2001:db8:7::/48"}
	w := boot(t, n, pf.Beliefs{})
	w.arm()
	to6 := "[2001:db8:62::cb00:7107]:22"
	w.expect(true,
		"tcp 198.51.100.9:1 "+own+":22", "tcp [2001:db8:7::9]:1 "+to6, "tcp 127.0.0.1:1 127.0.0.1:22", "tcp [::1]:1 [::1]:22")
	w.expect(false, "tcp 192.0.2.9:1 "+own+":22", "tcp [2001:db8:8::9]:1 "+to6)
}

// TestTheMacReachesItsGuests: the agent's probes and a person's SSH.
func TestTheMacReachesItsGuests(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{})
	w.start()
	w.arm()
	p := pf.Packet{
		Direction: pf.Out, Interface: vmnet.Bridge, Src: netip.MustParseAddr("192.168.64.1"), Dst: netip.MustParseAddr("192.168.64.9"),
		Proto: "tcp", SrcPort: 40000, Port: 22,
	}
	v := w.Filter.Connect(p)
	if !v.Pass || !strings.Contains(v.Rule, "keep state") {
		t.Errorf("pass %v by %q: without a state the guest's answers are blocked", v.Pass, v.Rule)
	}
}
