package pf

import (
	"net/netip"
	"strconv"
	"strings"
)

// located is a host as a rule names it, with the interface that a link-local
// address binds it to.
type located struct {
	not  bool
	host host
	zone string
}

func (l located) side(p port) side { return side{not: l.not, host: l.host, port: p} }

func (l located) family() family {
	if !l.host.prefix.IsValid() {
		return 0
	}
	return familyOf(l.host.prefix.Addr())
}

// host is one element of a list of hosts; `self` and interfaces are many.
func (p *parser) host() ([]located, error) {
	not := p.take("!")
	hosts, err := p.hostWord()
	for i := range hosts {
		hosts[i].not = not
	}
	return hosts, err
}

func (p *parser) hostWord() ([]located, error) {
	if p.peek().is("<") {
		name, err := p.tableName()
		return []located{{host: host{table: name}}}, err
	}
	if p.take("(") {
		name, err := p.word("")
		if err == nil && !p.take(")") {
			err = p.wrong()
		}
		if err != nil {
			return nil, err
		}
		return []located{{host: host{dynamic: name}}}, nil
	}
	t := p.next()
	switch {
	case t.end() || t.punctuation():
		return nil, p.wrong()
	case t.is("any"):
		return []located{{}}, nil
	case t.is("no-route") || t.is("urpf-failed"):
		return nil, &NotModelled{What: t.text}
	case t.is("self"):
		return addressesOf(p.interfaces, ""), nil
	}
	if prefix, zone, ok := parsePrefix(t.text); ok {
		return []located{{host: host{prefix: prefix}, zone: zone}}, nil
	}
	return p.namedHost(t.text)
}

// namedHost is an interface of the Mac. Names in DNS are not looked up.
func (p *parser) namedHost(word string) ([]located, error) {
	name, modifier, _ := strings.Cut(word, ":")
	for _, i := range p.interfaces {
		if i.Name != name && name != "self" {
			continue
		}
		only := []Interface{i}
		if name == "self" {
			only = p.interfaces
		}
		switch modifier {
		case "", "0":
			return addressesOf(only, modifier), nil
		case "network":
			return networksOf(only), nil
		}
		return nil, &NotModelled{What: "interface modifier " + modifier}
	}
	return nil, p.complain("could not parse host specification")
}

// addressesOf lists addresses as hosts; "0" leaves out all but the first of each
// family of an interface.
func addressesOf(interfaces []Interface, modifier string) []located {
	var out []located
	for _, i := range interfaces {
		seen := map[family]bool{}
		for _, a := range i.Addresses {
			f := familyOf(a.Addr())
			if modifier == "0" && seen[f] {
				continue
			}
			seen[f] = true
			bits := a.Addr().WithZone("")
			l := located{host: host{prefix: netip.PrefixFrom(bits, bits.BitLen())}}
			if bits.Is6() && bits.IsLinkLocalUnicast() {
				l.zone = i.Name
			}
			out = append(out, l)
		}
	}
	return out
}

func networksOf(interfaces []Interface) []located {
	var out []located
	for _, i := range interfaces {
		for _, a := range i.Addresses {
			if !a.Addr().IsLinkLocalUnicast() {
				out = append(out, located{host: host{prefix: a.Masked()}})
			}
		}
	}
	return out
}

// parsePrefix reads an address with or without a length; 10/8 is 10.0.0.0/8.
// Whatever lies beyond the length is cut off, as pfctl does.
func parsePrefix(word string) (prefix netip.Prefix, zone string, ok bool) {
	text, length, hasLength := strings.Cut(word, "/")
	if hasLength {
		for strings.Count(text, ".") < 3 && !strings.Contains(text, ":") {
			text += ".0"
		}
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return prefix, "", false
	}
	zone, a = a.Zone(), a.WithZone("")
	bits := a.BitLen()
	if hasLength {
		if bits, err = strconv.Atoi(length); err != nil {
			return prefix, "", false
		}
	}
	prefix, err = a.Prefix(bits)
	if err == nil && bits == 0 {
		prefix = netip.PrefixFrom(prefix.Addr(), 0)
	}
	return prefix, zone, err == nil
}

// port is one element of a list of ports: N, N:M, an operator and N, or N
// between two by an operator.
func (p *parser) port() (port, error) {
	for _, op := range []string{"=", "!=", "<=", ">=", "<", ">"} {
		if !p.take(op) {
			continue
		}
		n, err := p.portNumber(p.next().text)
		return port{op: op, a: n}, err
	}
	word := p.next().text
	if from, to, ranged := strings.Cut(word, ":"); ranged {
		return p.portRange(":", from, to)
	}
	for _, op := range []string{"><", "<>"} {
		if p.take(op) {
			return p.portRange(op, word, p.next().text)
		}
	}
	n, err := p.portNumber(word)
	return port{op: "=", a: n}, err
}

func (p *parser) portRange(op, from, to string) (port, error) {
	a, err := p.portNumber(from)
	if err != nil {
		return port{}, err
	}
	b, err := p.portNumber(to)
	return port{op: op, a: a, b: b}, err
}

func (p *parser) portNumber(word string) (int, error) {
	if ports, ok := services()[word]; ok {
		return ports[0], nil
	}
	n, err := strconv.Atoi(word)
	switch {
	case err != nil:
		return 0, p.complain("unknown port %s", word)
	case n < 0 || n > 65535:
		return 0, p.complain("illegal port value %d", n)
	}
	return n, nil
}
