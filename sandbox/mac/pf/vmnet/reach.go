package vmnet

import (
	"net/netip"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
)

// Path is whether a packet arrives, and why.
type Path struct {
	Arrives bool   `json:"arrives"`
	Why     string `json:"why"`
}

func blocked(why string) Path { return Path{Why: why} }
func arrives(why string) Path { return Path{Arrives: true, Why: why} }

// Reach says whether the first packet of a conversation arrives where an answer
// can come back from. From is a guest of the shared network (also one without an
// address yet, 0.0.0.0), the Mac itself, or anybody outside. A guest's packet is
// looked at when it comes in on the bridge; what the bridge or the Mac takes
// goes no further, all else is translated and looked at again when it leaves on
// the uplink. Only a translated packet is answered.
func (n *Network) Reach(from, to netip.AddrPort, proto string) Path {
	p := pf.Packet{
		Direction: pf.In, Interface: uplink, Proto: proto,
		Src: from.Addr().WithZone(""), SrcPort: int(from.Port()), Dst: to.Addr().WithZone(""), Port: int(to.Port()),
	}
	if p.Src.Is4() != p.Dst.Is4() {
		return blocked("the addresses are of different families")
	}
	_, fromHere := n.own(p.Src)
	toName, toHere := n.own(p.Dst)
	switch {
	case fromHere && toHere:
		p.Interface = lo
		return n.pass(p)
	case fromHere:
		p.Direction = pf.Out
		return n.pass(p)
	case n.shared(p.Src) || p.Src.IsUnspecified() || p.Src.IsLinkLocalUnicast():
		return n.fromGuest(p, toName)
	case toHere && toName != lo:
		return n.pass(p)
	}
	return blocked("nothing routes there")
}

// fromGuest follows a guest's packet; to is the Mac's interface with the
// destination's address, if one has it.
func (n *Network) fromGuest(p pf.Packet, to string) Path {
	if !n.up() {
		return blocked("no guest runs")
	}
	p.Interface = Bridge
	in := n.pass(p)
	switch {
	case !in.Arrives:
		return in
	case to == lo:
		return blocked("a loopback address from outside")
	case to != "" || n.staysOnBridge(p.Dst):
		return in
	case p.Src.IsUnspecified() || p.Src.IsLinkLocalUnicast():
		return blocked("the source is not routed")
	}
	p.Direction, p.Interface = pf.Out, uplink
	v := n.Filter.Eval(p)
	switch {
	case !v.Pass:
		return blocked("out: " + describe(v))
	case v.Src == p.Src:
		return blocked("left untranslated: no answer comes back")
	}
	return arrives("out: " + describe(v))
}

// staysOnBridge says that a packet needs no router: to a sibling or to everybody.
func (n *Network) staysOnBridge(a netip.Addr) bool {
	return n.shared(a) || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) ||
		(a.Is6() && a.IsLinkLocalUnicast())
}

func (n *Network) pass(p pf.Packet) Path {
	v := n.Filter.Eval(p)
	why := p.Direction + " on " + p.Interface + ": " + describe(v)
	if v.Pass {
		return arrives(why)
	}
	return blocked(why)
}

func describe(v pf.Verdict) string {
	switch {
	case v.State:
		return "an older conversation"
	case v.Rule == "":
		return "no rule"
	case v.Anchor == "":
		return v.Rule
	}
	return v.Rule + " (" + v.Anchor + ")"
}
