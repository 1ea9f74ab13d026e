package pf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Packet is a packet where it passes an interface: the first of a conversation,
// unless it says otherwise.
type Packet struct {
	// Direction is In or Out, seen from the Mac.
	Direction string     `json:"direction"`
	Interface string     `json:"interface"`
	Src       netip.Addr `json:"src"`
	Dst       netip.Addr `json:"dst"`
	// Proto is tcp, udp, icmp, icmp6 …
	Proto   string `json:"proto"`
	SrcPort int    `json:"srcPort,omitempty"`
	// Port is the destination's.
	Port int `json:"port,omitempty"`
	// ICMP is the type of an ICMP or ICMPv6 packet, by the name that rules use.
	// Empty: it is not said, and fits every type.
	ICMP string `json:"icmp,omitempty"`
	// Middle: a TCP packet of a conversation that is under way: it has ACK set.
	Middle bool `json:"middle,omitempty"`
}

// Verdict is what becomes of a packet.
type Verdict struct {
	Pass bool `json:"pass"`
	// Rule is the deciding one as pfctl prints it, and Anchor where it stands. Both
	// are empty when none decided, which passes.
	Rule   string `json:"rule,omitempty"`
	Anchor string `json:"anchor,omitempty"`
	// Src is the source after translation.
	Src netip.Addr `json:"src"`
	// State says that an earlier conversation let the packet through.
	State bool `json:"state,omitempty"`

	keeps bool
}

// State is a conversation that was let through.
type State struct {
	Proto    string         `json:"proto"`
	Src, Dst netip.AddrPort `json:"-"`
}

// maxDepth bounds how deep anchors may call each other.
const maxDepth = 16

// Eval says what becomes of a packet. What leaves is translated first and then
// looked at with its new source, so that rules never see a guest's address
// there. Anchors count only where a rule that is reached calls them; the last
// rule that fits decides, a quick one at once.
func (f *Filter) Eval(p Packet) Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.eval(p)
}

// Connect is Eval for a conversation that goes on: where the deciding rule keeps
// state, it outlives the rules, until its states are killed.
func (f *Filter) Connect(p Packet) Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.eval(p)
	if v.keeps && !v.State {
		f.sessions = append(f.sessions, stateOf(p))
	}
	return v
}

func stateOf(p Packet) State {
	return State{
		Proto: p.Proto,
		Src:   netip.AddrPortFrom(p.Src, uint16(p.SrcPort)), Dst: netip.AddrPortFrom(p.Dst, uint16(p.Port)),
	}
}

// answer is the conversation that this packet would be an answer in.
func (s State) answer() State { return State{Proto: s.Proto, Src: s.Dst, Dst: s.Src} }

func (f *Filter) eval(p Packet) Verdict {
	v := Verdict{Pass: true, Src: p.Src}
	if !f.enabled() {
		return v
	}
	if s := stateOf(p); slices.Contains(f.sessions, s) || slices.Contains(f.sessions, s.answer()) {
		v.State = true
		return v
	}
	if p.Direction == Out {
		v.Src = f.translate(p)
		p.Src = v.Src
	}
	w := walk{f: f, packet: p, section: filtering}
	w.ruleset("", 0)
	if w.last != nil {
		v.Pass = w.last.action == "pass"
		v.keeps = v.Pass && w.last.options.state != "no"
		v.Rule, v.Anchor = w.last.text(f.beliefs.ServiceNames), w.anchor
	}
	return v
}

// translate is the source of a leaving packet after nat: the first rule that
// fits decides.
func (f *Filter) translate(p Packet) netip.Addr {
	w := walk{f: f, packet: p, section: translation}
	w.ruleset("", 0)
	r := w.last
	if r == nil || strings.HasPrefix(r.action, "no ") {
		return p.Src
	}
	targets := r.targets
	if r.dynamic != "" {
		targets = f.dynamic(r.dynamic)
	}
	for _, a := range targets {
		if familyOf(a) == familyOf(p.Src) && !a.IsLinkLocalUnicast() {
			return a
		}
	}
	return p.Src
}

// walk looks for the rule that decides about a packet.
type walk struct {
	f       *Filter
	packet  Packet
	section section
	last    *rule
	anchor  string // of last
}

// ruleset goes through one anchor and reports whether the search is over.
func (w *walk) ruleset(name string, depth int) bool {
	rs := w.f.anchors[name]
	if rs == nil || depth > maxDepth {
		return false
	}
	for _, r := range rs.all(w.section) {
		if !w.f.fits(r, name, w.packet) {
			continue
		}
		if r.call != "" {
			before := w.last
			if w.call(resolve(name, r.call), depth) || (r.quick && w.last != before) {
				return true
			}
			continue
		}
		w.last, w.anchor = r, name
		if r.quick || w.section != filtering {
			return true
		}
	}
	return false
}

// call goes through the anchors that an anchor point names: one, or with a star
// all right below it, in the order of their names.
func (w *walk) call(name string, depth int) bool {
	parent, star := strings.CutSuffix(name, "/*")
	if !star {
		return w.ruleset(name, depth+1)
	}
	for _, child := range w.f.children(parent) {
		if w.ruleset(child, depth+1) {
			return true
		}
	}
	return false
}

// fits holds a packet against one rule of an anchor.
func (f *Filter) fits(r *rule, anchor string, p Packet) bool {
	switch {
	case r.dir != "" && r.dir != p.Direction,
		r.on != "" && (r.on == p.Interface) == r.notOn,
		r.family != 0 && r.family != familyOf(p.Src),
		r.proto != "" && r.proto != p.Proto,
		!fitsFlags(r.options.flags, p), !fitsICMP(r.options.icmp, p):
		return false
	}
	return f.fitsSide(r.from, anchor, p.Src, p.SrcPort) && f.fitsSide(r.to, anchor, p.Dst, p.Port)
}

// fitsFlags: S/SA is SYN without ACK, which opens a conversation.
func fitsFlags(flags string, p Packet) bool {
	return p.Proto != "tcp" || flags != "S/SA" || !p.Middle
}

func fitsICMP(option string, p Packet) bool {
	_, kind, found := strings.Cut(option, " ")
	return !found || p.ICMP == "" || p.ICMP == kind
}

func (f *Filter) fitsSide(s side, anchor string, a netip.Addr, port int) bool {
	return f.fitsHost(s.host, anchor, a) != s.not && s.port.fits(port)
}

func (f *Filter) fitsHost(h host, anchor string, a netip.Addr) bool {
	a = a.WithZone("")
	switch {
	case h.table != "":
		return f.tables.holds(tableKey{anchor, h.table}, a)
	case h.dynamic != "":
		return slices.Contains(f.dynamic(h.dynamic), a)
	case h.prefix.IsValid():
		return h.prefix.Contains(a)
	}
	return true
}

// dynamic are the addresses that an interface between parentheses has now. No
// interface is called self.
func (f *Filter) dynamic(word string) []netip.Addr {
	name, _, _ := strings.Cut(word, ":")
	var out []netip.Addr
	for _, i := range f.o.Interfaces() {
		if i.Name != name {
			continue
		}
		for _, a := range i.Addresses {
			out = append(out, a.Addr().WithZone(""))
		}
	}
	return out
}

func (p port) fits(n int) bool {
	switch p.op {
	case "=":
		return n == p.a
	case "!=":
		return n != p.a
	case "<":
		return n < p.a
	case "<=":
		return n <= p.a
	case ">":
		return n > p.a
	case ">=":
		return n >= p.a
	case ":":
		return p.a <= n && n <= p.b
	case "><":
		return p.a < n && n < p.b
	case "<>":
		return n < p.a || n > p.b
	}
	return true
}

// KillStates forgets the conversations from one network and, when given, to
// another.
func (f *Filter) KillStates(from, to netip.Prefix) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.sessions)
	f.sessions = slices.DeleteFunc(f.sessions, func(s State) bool {
		return from.Contains(s.Src.Addr()) && (!to.IsValid() || to.Contains(s.Dst.Addr()))
	})
	return before - len(f.sessions)
}

func (s State) String() string {
	return fmt.Sprintf("ALL %s %s -> %s       ESTABLISHED:ESTABLISHED", s.Proto, s.Src, s.Dst)
}
