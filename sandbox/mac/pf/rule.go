package pf

import (
	"fmt"
	"net/netip"
	"strings"
)

// section is a kind of rules, in the order a file must have them.
type section int

const (
	options section = iota // no rules, but a place in the order
	normalization
	translation // nat
	redirection // rdr; the same place in the order as nat
	shaping
	filtering
	sections
)

// place is where a section stands in a file.
func (s section) place() section {
	if s == redirection {
		return translation
	}
	return s
}

// Directions of packets and rules; a rule without one fits both.
const (
	In  = "in"
	Out = "out"
)

// family is an address family, 0 for both.
type family int

const (
	inet  family = 4
	inet6 family = 6
)

func familyOf(a netip.Addr) family {
	if a.Is4() || a.Is4In6() {
		return inet
	}
	return inet6
}

// rule is one rule after expansion: one interface, one protocol, one address
// and port on each side.
type rule struct {
	section section
	action  string // pass, block, nat, no nat, rdr, scrub …
	reply   string // of block: drop, return, return-rst, return-icmp
	call    string // of an anchor point: the name as written
	dir     string
	log     bool
	quick   bool
	on      string
	notOn   bool
	family  family
	proto   string
	from    side
	to      side
	options ruleOptions
	target  string // of nat and rdr: as printed
	targets []netip.Addr
	dynamic string // of nat: the interface whose address is taken when needed
}

// ruleOptions are what follows the addresses.
type ruleOptions struct {
	flags string // S/SA, any, or nothing
	state string // keep, modulate, synproxy, no, or nothing
	icmp  string
	rest  []string // printed as they are
	label string
}

// side is one end of the packets a rule fits.
type side struct {
	not  bool
	host host
	port port
}

// host is what a side's address must be.
type host struct {
	prefix  netip.Prefix // the zero value is any address
	table   string
	dynamic string // what stood between parentheses
}

// port is a condition on a port; without an operator there is none.
type port struct {
	op   string // =, !=, <, <=, >, >=, :, ><, <>
	a, b int
}

func (s side) isAny() bool { return s == side{} }

func (h host) String() string {
	switch {
	case h.table != "":
		return "<" + h.table + ">"
	case h.dynamic != "":
		return "(" + h.dynamic + ")"
	case !h.prefix.IsValid():
		return "any"
	case h.prefix.IsSingleIP():
		return h.prefix.Addr().String()
	}
	return h.prefix.String()
}

func (p port) text(proto string, names bool) string {
	a := fmt.Sprint(p.a)
	if name := serviceName(proto, p.a); names && name != "" && (p.op == "=" || p.op == "!=") {
		a = name
	}
	switch p.op {
	case "":
		return ""
	case ":":
		return fmt.Sprintf(" port %d:%d", p.a, p.b)
	case "><", "<>":
		return fmt.Sprintf(" port %d %s %d", p.a, p.op, p.b)
	}
	return " port " + p.op + " " + a
}

// text prints a rule as pfctl does: one rule a line, its words in a fixed order,
// `drop` spelled out, host addresses without a length, networks masked, a single
// port as `port = N`, and on passing rules the flags and states that are the
// default. Family is printed once an address or the rule itself says it.
func (r *rule) text(names bool) string {
	var b strings.Builder
	b.WriteString(r.head())
	for _, w := range []struct {
		is   bool
		text string
	}{
		{r.dir != "", r.dir},
		{r.log, "log"},
		{r.quick, "quick"},
		{r.on != "" && !r.notOn, "on " + r.on},
		{r.on != "" && r.notOn, "on ! " + r.on},
		{r.family == inet, "inet"},
		{r.family == inet6, "inet6"},
		{r.proto != "", "proto " + protoName(r.proto)},
	} {
		if w.is {
			b.WriteString(" " + w.text)
		}
	}
	b.WriteString(r.ends(names))
	b.WriteString(r.tail())
	return b.String()
}

func (r *rule) head() string {
	switch {
	case r.call != "":
		return fmt.Sprintf("%s %q", r.action, r.call)
	case r.action == "block":
		return "block " + r.reply
	}
	return r.action
}

func (r *rule) ends(names bool) string {
	if r.from.isAny() && r.to.isAny() {
		return " all"
	}
	return " from " + r.from.text(r.proto, names) + " to " + r.to.text(r.proto, names)
}

func (s side) text(proto string, names bool) string {
	not := ""
	if s.not {
		not = "! "
	}
	return not + s.host.String() + s.port.text(proto, names)
}

func (r *rule) tail() string {
	var b strings.Builder
	o := r.options
	if o.flags != "" {
		b.WriteString(" flags " + o.flags)
	}
	if o.icmp != "" {
		b.WriteString(" " + o.icmp)
	}
	if o.state != "" {
		b.WriteString(" " + o.state + " state")
	}
	for _, w := range o.rest {
		b.WriteString(" " + w)
	}
	if o.label != "" {
		fmt.Fprintf(&b, " label %q", o.label)
	}
	if r.target != "" {
		b.WriteString(" -> " + r.target)
	}
	return b.String()
}
