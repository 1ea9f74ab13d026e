package firewall_test

import (
	"net/netip"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/sandbox/mac/pf"
)

const (
	own6    = "2001:db8:62::cb00:7107"
	manager = "198.51.100.9"
	uplink  = "en0"
	mesh    = "utun3"
)

// from is a packet of somebody outside to the Mac.
func from(src, proto string, srcPort, port int) pf.Packet {
	p := pf.Packet{Direction: pf.In, Interface: uplink, Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(own), Proto: proto, SrcPort: srcPort, Port: port}
	if p.Src.Is6() {
		p.Dst = netip.MustParseAddr(own6)
	}
	return p
}

// passes sends a packet as it is.
func (w *world) passes(want bool, what string, p pf.Packet) {
	w.t.Helper()
	if v := w.Filter.Eval(p); v.Pass != want {
		w.t.Errorf("%s: passes %v by %q", what, v.Pass, v.Rule)
	}
}

// TestNobodyOpensAConnectionToTheMac but to SSH and the kubelet's port: whatever
// listens, in both families, on every interface.
func TestNobodyOpensAConnectionToTheMac(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{})
	w.expect(true, "tcp 192.0.2.9:1 "+own+":5900") // open without rules
	w.arm()
	var shut []string
	for _, port := range []string{"88", "445", "548", "3283", "5000", "5900", "7000", "8080", "9091", "9100", "59010"} {
		for _, proto := range []string{"tcp", "udp"} {
			shut = append(shut, proto+" 192.0.2.9:40000 "+own+":"+port, proto+" [2001:db8:99::9]:40000 ["+own6+"]:"+port)
		}
	}
	w.expect(false, shut...)
	w.expect(true,
		"tcp 192.0.2.9:40000 "+own+":22", "tcp [2001:db8:99::9]:40000 ["+own6+"]:22",
		"tcp 192.0.2.9:40000 "+own+":10250", "tcp [2001:db8:99::9]:40000 ["+own6+"]:10250",
		"tcp 127.0.0.1:40000 127.0.0.1:5900", "tcp [::1]:40000 [::1]:5900", "udp 127.0.0.1:1 127.0.0.1:9100",
	)
	w.expect(false, "udp 192.0.2.9:40000 "+own+":22", "udp 192.0.2.9:40000 "+own+":10250")
	other := from("100.64.0.9", "tcp", 40000, 9100)
	other.Interface = mesh
	w.passes(false, "a mesh is outside, too", other)
	w.passes(false, "another protocol", from("192.0.2.9", "gre", 0, 0))
	if got := w.judge(); len(got) > 0 {
		t.Errorf("the agent finds fault with its own rules: %v", got)
	}
}

// TestAnswersComeIn: of what the Mac began, and of what was there before the rules.
func TestAnswersComeIn(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{})
	w.arm()
	for _, proto := range []string{"udp", "icmp"} {
		ask := from("192.0.2.53", proto, 53, 40000)
		ask.Direction, ask.Src, ask.Dst, ask.SrcPort, ask.Port = pf.Out, ask.Dst, ask.Src, ask.Port, ask.SrcPort
		if v := w.Filter.Eval(ask); !v.Pass {
			t.Errorf("%s does not leave: %q", proto, v.Rule)
		}
		if v := w.Filter.Connect(ask); !v.Pass {
			t.Errorf("%s does not leave: %q", proto, v.Rule)
		}
	}
	// What leaves as UDP is remembered by a rule with a state, and so answered.
	ask := pf.Packet{Direction: pf.Out, Interface: uplink, Src: netip.MustParseAddr(own), Dst: netip.MustParseAddr("192.0.2.53"), Proto: "udp", SrcPort: 40001, Port: 53}
	if v := w.Filter.Connect(ask); !v.Pass || v.Rule != "pass out quick inet proto udp all keep state" {
		t.Errorf("a question by UDP leaves by %q", v.Rule)
	}
	w.passes(true, "the answer", from("192.0.2.53", "udp", 53, 40001))
	w.passes(false, "an answer that nobody asked for", from("192.0.2.53", "udp", 53, 40002))

	for name, src := range map[string]string{"IPv4": "192.0.2.1", "IPv6": "2600::1"} {
		answer := from(src, "tcp", 443, 50000)
		w.passes(false, name+": somebody opens a connection from 443", answer)
		answer.Middle = true
		w.passes(true, name+": a connection that the Mac opened, also before the rules", answer)
	}
}

// TestTheManagerIsNeverShutOut: its connection is older than the rules, and its next
// one must come in, on its own port, too.
func TestTheManagerIsNeverShutOut(t *testing.T) {
	for name, n := range map[string]document.Network{
		"from everywhere":   fenced(),
		"from its networks": {Subnet: document.DefaultSubnet, SSHFrom: []string{"198.51.100.0/24"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := boot(t, n, pf.Beliefs{})
			rules, err := firewall.Rules(firewall.Policy{Network: n, SSHPort: 2222, KubeletPort: document.DefaultKubeletPort})
			if err != nil {
				t.Fatal(err)
			}
			w.pfctl(rules, "-a", anchor, "-f", "-")
			for _, port := range []int{22, 2222} {
				next := from(manager, "tcp", 40000, port)
				w.passes(true, "the next connection", next)
				next.Middle = true
				w.passes(true, "the one that brought the rules", next)
			}
			w.passes(len(n.SSHFrom) == 0, "a stranger", from("192.0.2.9", "tcp", 40000, 2222))
			w.passes(false, "another port", from(manager, "tcp", 40000, 2223))
		})
	}
}

// TestTheMacKeepsItsAddress: DHCP, and ICMP for errors and neighbours.
func TestTheMacKeepsItsAddress(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{})
	w.arm()
	offer := from("198.51.100.1", "udp", 67, 68)
	w.passes(true, "a DHCP offer", offer)
	offer.Dst = netip.MustParseAddr("255.255.255.255")
	w.passes(true, "a DHCP offer to everybody", offer)
	reply := from("fe80::1", "udp", 547, 546)
	reply.Dst = netip.MustParseAddr("fe80::1498:77ff:fe4a:264")
	w.passes(true, "DHCPv6", reply)
	reply.Src = netip.MustParseAddr("2001:db8:99::9")
	w.passes(false, "DHCPv6 from far away", reply)

	for kind, want := range map[string]bool{"echoreq": true, "unreach": true, "timex": true, "redir": false, "routeradv": false} {
		p := from("192.0.2.9", "icmp", 0, 0)
		p.ICMP = kind
		w.passes(want, "ICMP "+kind, p)
	}
	for kind, want := range map[string]bool{
		"echoreq": true, "toobig": true, "unreach": true, "neighbrsol": true, "neighbradv": true, "routeradv": true, "groupqry": true,
		"redir": false, "routersol": false,
	} {
		p := from("fe80::1", "icmp6", 0, 0)
		p.ICMP = kind
		w.passes(want, "ICMPv6 "+kind, p)
	}
}

// TestTheProfileOpensPorts to networks, never to guests, and never SSH where
// sshIngress shuts it.
func TestTheProfileOpensPorts(t *testing.T) {
	n := fenced()
	n.SSHFrom = []string{"198.51.100.0/24"}
	n.HostAllow = []document.Allow{
		{CIDR: "203.0.113.0/25", Ports: []int{9100, 22}}, {CIDR: "::/0", Ports: []int{41641}}, {CIDR: "0.0.0.0/0", Ports: []int{5900}},
	}
	w := boot(t, n, pf.Beliefs{})
	w.start()
	w.arm()
	w.expect(true,
		"tcp 203.0.113.99:1 "+own+":9100", "udp 203.0.113.99:1 "+own+":9100", "udp [2001:db8:99::9]:1 ["+own6+"]:41641",
		"tcp 192.0.2.9:1 "+own+":5900")
	w.expect(false,
		"tcp 203.0.113.199:1 "+own+":9100", "tcp 203.0.113.99:1 "+own+":9101", "tcp 203.0.113.99:1 "+own+":22", "udp 192.0.2.9:1 "+own+":41641",
		"tcp 192.168.64.9:40000 192.168.64.1:5900", "tcp 192.168.64.9:40000 "+own+":5900", "tcp "+guest6+" ["+own6+"]:41641")
	if got := w.judge(); len(got) > 0 {
		t.Errorf("the agent finds fault with its own rules: %v", got)
	}
}

// TestRequirement002_OtherSystemsKeepTheirRules: rules that other programs have in
// anchors of their own, a mesh among them, stay loaded beside ours.
func TestRequirement002_OtherSystemsKeepTheirRules(t *testing.T) {
	w := boot(t, fenced(), pf.Beliefs{})
	w.pfctl("pass out quick on utun3 inet all keep state\n", "-a", "com.apple/900.mesh", "-f", "-")
	w.arm()
	if got := w.pfctl("", "-a", "com.apple/900.mesh", "-s", "rules").Stdout; len(lines(got)) != 1 {
		t.Errorf("their rules: %q", got)
	}
	out := pf.Packet{Direction: pf.Out, Interface: mesh, Src: netip.MustParseAddr("100.64.0.7"), Dst: netip.MustParseAddr("100.64.0.9"), Proto: "tcp", SrcPort: 40000, Port: 443}
	w.passes(true, "what leaves through the mesh", out)
	in := pf.Packet{Direction: pf.In, Interface: mesh, Src: out.Dst, Dst: out.Src, Proto: "tcp", SrcPort: 443, Port: 40000, Middle: true}
	w.passes(true, "what comes back", in)
	ssh := pf.Packet{Direction: pf.In, Interface: mesh, Src: netip.MustParseAddr("100.64.0.9"), Dst: netip.MustParseAddr("100.64.0.7"), Proto: "tcp", SrcPort: 40000, Port: 22}
	w.passes(true, "SSH through the mesh", ssh)
}
