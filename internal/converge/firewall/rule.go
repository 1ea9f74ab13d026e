// Package firewall decides which packet filter rules a Mac should have around itself
// and its guests, and whether the rules it has are those, which is pure; Arm loads
// what differs, for converge and for hostd. pf's command is package macos's.
//
// A rule is made and compared in the form in which pfctl prints it, one a line,
// nothing abbreviated by lists. Lists would be expanded by pfctl in an order of
// its own, and tables are what other systems got stuck on.
package firewall

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	anyone = "any"
	// self stands for all addresses of the Mac; pfctl expands it while loading.
	self = "self"
)

// Rule is one filter rule of pf, as far as ours need it. The zero value of a field
// means that the rule does not ask.
type Rule struct {
	// Action is pass or block; every rule is quick.
	Action string
	// Out is for packets that leave the Mac; the others come in.
	Out       bool
	Interface string
	// Family is inet or inet6.
	Family string
	Proto  string
	// From and To are any, self, or a network.
	From, To         string
	FromPort, ToPort int
	// ICMPType by pf's name, e.g. neighbrsol.
	ICMPType string
	// Opening is for TCP packets that open a connection: SYN without ACK.
	Opening bool
	// Stateless passes look at every packet. Those with a state look at the first of
	// a connection, let the answers in, and do not fit TCP in its middle.
	Stateless bool
}

// String is the rule in pf's grammar and in pfctl's words.
func (r Rule) String() string {
	words := []string{r.Action}
	if r.Action == "block" {
		words = append(words, "drop")
	}
	words = append(words, r.direction(), "quick")
	if r.Interface != "" {
		words = append(words, "on", r.Interface)
	}
	if r.Family != "" {
		words = append(words, r.Family)
	}
	if r.Proto != "" {
		words = append(words, "proto", r.Proto)
	}
	words = append(words, r.peers())
	if r.Opening {
		words = append(words, "flags", openingFlags)
	}
	if r.ICMPType != "" {
		words = append(words, r.icmpKeyword(), r.ICMPType)
	}
	switch {
	case r.Action != "pass":
	case r.Stateless:
		words = append(words, "no state")
	default:
		words = append(words, "keep state")
	}
	return strings.Join(words, " ")
}

// openingFlags: of SYN and ACK, SYN alone is set.
const openingFlags = "S/SA"

func (r Rule) icmpKeyword() string {
	if r.Proto == icmp6 {
		return "icmp6-type"
	}
	return "icmp-type"
}

func (r Rule) direction() string {
	if r.Out {
		return "out"
	}
	return "in"
}

func (r Rule) peers() string {
	if r.From == anyone && r.To == anyone && r.FromPort == 0 && r.ToPort == 0 {
		return "all"
	}
	return "from " + peer(r.From, r.FromPort) + " to " + peer(r.To, r.ToPort)
}

// peer gives a port as a range of one: pfctl prints a single port by the name of its
// service where it has one, and some names stand for several ports. Ranges it prints in numbers.
func peer(host string, port int) string {
	if port == 0 {
		return host
	}
	return fmt.Sprintf("%s port %d:%d", host, port, port)
}

// network is a network as pfctl prints it: a single address without its length,
// everything as any.
func network(p netip.Prefix) string {
	switch {
	case p.Bits() == 0:
		return anyone
	case p.IsSingleIP():
		return p.Addr().String()
	}
	return p.Masked().String()
}

func family(a netip.Addr) string {
	if a.Is4() {
		return inet
	}
	return inet6
}

// protocols and icmpTypes are the numbers and second names that pfctl may print,
// with the name we use.
var (
	protocols = map[string]string{
		tcp: tcp, "6": tcp, udp: udp, "17": udp, icmp: icmp, "1": icmp, icmp6: icmp6, "ipv6-icmp": icmp6, "58": icmp6,
	}
	icmpTypes = map[string]map[string]string{
		icmp: {
			echoReply: echoReply, "0": echoReply, unreachable: unreachable, "3": unreachable,
			echoRequest: echoRequest, "8": echoRequest, timeExceeded: timeExceeded, "11": timeExceeded,
			badParameter: badParameter, "12": badParameter,
		},
		icmp6: {
			unreachable: unreachable, "1": unreachable, tooBig: tooBig, "2": tooBig, timeExceeded: timeExceeded, "3": timeExceeded,
			badParameter: badParameter, "4": badParameter, echoRequest: echoRequest, "128": echoRequest, echoReply: echoReply, "129": echoReply,
			groupQuery: groupQuery, "listqry": groupQuery, "130": groupQuery,
			"routersol": "routersol", "133": "routersol", routerAdvert: routerAdvert, "134": routerAdvert,
			"neighbrsol": "neighbrsol", "135": "neighbrsol", "neighbradv": "neighbradv", "136": "neighbradv",
		},
	}
)

// parse reads one line of pfctl. What it does not know is an error: a rule that
// asks for more, or less, than ours is not ours.
func parse(line string) (Rule, error) {
	p := parser{words: strings.Fields(line)}
	r := p.rule()
	if p.err == nil && len(p.words) > 0 {
		p.fail(p.words[0])
	}
	if p.err != nil {
		return Rule{}, fmt.Errorf("rule %.120q: %w", line, p.err)
	}
	return r, nil
}

type parser struct {
	words []string
	err   error
}

func (p *parser) fail(word string) {
	if p.err == nil {
		p.err = fmt.Errorf("unexpected %.40q", word)
	}
	p.words = nil
}

// next takes a word.
func (p *parser) next() string {
	if len(p.words) == 0 {
		p.fail("end of line")
		return ""
	}
	word := p.words[0]
	p.words = p.words[1:]
	return word
}

// skip takes the word if it is the next one.
func (p *parser) skip(word string) bool {
	if len(p.words) == 0 || p.words[0] != word {
		return false
	}
	p.words = p.words[1:]
	return true
}

func (p *parser) expect(word string) {
	if !p.skip(word) {
		p.fail(p.next())
	}
}

func (p *parser) rule() Rule {
	r := Rule{From: anyone, To: anyone}
	r.Action = p.oneOf("pass", "block")
	if r.Action == "block" {
		p.skip("drop")
	}
	r.Out = p.oneOf("in", "out") == "out"
	p.expect("quick")
	if p.skip("on") {
		r.Interface = p.next()
	}
	if len(p.words) > 0 && (p.words[0] == inet || p.words[0] == inet6) {
		r.Family = p.next()
	}
	if p.skip("proto") {
		r.Proto = p.named(protocols)
	}
	if !p.skip("all") {
		p.expect("from")
		r.From, r.FromPort = p.peer()
		p.expect("to")
		r.To, r.ToPort = p.peer()
	}
	p.tail(&r)
	return r
}

// tail reads which packets are meant, and how connections are remembered. pfctl
// prints the flags that it adds to passes with a state; on a block they were asked
// for.
func (p *parser) tail(r *Rule) {
	flags := ""
	if p.skip("flags") {
		flags = p.next()
	}
	for _, proto := range []string{icmp, icmp6} {
		if p.skip((Rule{Proto: proto}).icmpKeyword()) {
			r.ICMPType = p.named(icmpTypes[proto])
			if r.Proto != proto {
				p.fail("a type of " + proto)
			}
		}
	}
	if r.Action == "pass" {
		r.Stateless = p.oneOf("keep", "no") == "no"
		p.expect("state")
	}
	switch {
	case flags == "":
	case flags != openingFlags, r.Action == "pass" && r.Stateless:
		p.fail("flags " + flags)
	case r.Action == "block":
		r.Opening = true
	}
}

func (p *parser) oneOf(words ...string) string {
	got := p.next()
	for _, w := range words {
		if got == w {
			return w
		}
	}
	p.fail(got)
	return ""
}

func (p *parser) named(names map[string]string) string {
	word := p.next()
	name, known := names[word]
	if !known {
		p.fail(word)
	}
	return name
}

func (p *parser) peer() (host string, port int) {
	host = p.host()
	if p.skip("port") {
		port = p.port()
	}
	return host, port
}

// port reads one port, as N:N or = N.
func (p *parser) port() int {
	single := p.skip("=")
	word := p.next()
	first, last, ranged := strings.Cut(word, ":")
	n, err := strconv.Atoi(first)
	if err != nil || n < 1 || n > 65535 || ranged == single || ranged && first != last {
		p.fail(word)
	}
	return n
}

func (p *parser) host() string {
	word := p.next()
	if word == anyone {
		return anyone
	}
	prefix, err := netip.ParsePrefix(word)
	if err != nil {
		// Link-local addresses may be printed with their zone.
		var addr netip.Addr
		if addr, err = netip.ParseAddr(word); err == nil {
			addr = addr.WithZone("")
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
	}
	if err != nil {
		p.fail(word)
		return ""
	}
	return network(prefix)
}
