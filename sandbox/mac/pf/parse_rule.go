package pf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// choices are what a rule says before its lists are multiplied out.
type choices struct {
	interfaces []onInterface
	protos     []string
	from, to   []located
	fromPorts  []port
	toPorts    []port
	icmp       []string
}

// onInterface is one `on`; the empty one is every interface.
type onInterface struct {
	name string
	not  bool
}

// rule parses the rest of a statement and adds what r expands to.
func (p *parser) rule(r rule) error {
	if p.take("in") {
		r.dir = In
	} else if p.take("out") {
		r.dir = Out
	}
	if err := p.logAndQuick(&r); err != nil {
		return err
	}
	c := choices{}
	for _, step := range []func(*rule, *choices) error{p.on, p.family, p.proto, p.fromTo, p.options, p.target} {
		if err := step(&r, &c); err != nil {
			return err
		}
	}
	if err := p.finish(); err != nil {
		return err
	}
	if err := p.check(r, c); err != nil {
		return err
	}
	p.defaults(&r)
	rules := c.expand(r)
	if len(rules) == 0 {
		return p.complain("rule expands to no valid combination")
	}
	p.file.rules[r.section] = append(p.file.rules[r.section], rules...)
	return nil
}

func (p *parser) logAndQuick(r *rule) error {
	for {
		switch {
		case p.take("log"):
			r.log = true
			if p.peek().is("(") {
				return &NotModelled{What: "arguments of log"}
			}
		case p.take("quick"):
			r.quick = true
		default:
			return nil
		}
	}
}

// list calls one for each element of a list, or for the only one.
func (p *parser) list(one func() error) error {
	if !p.take("{") {
		return one()
	}
	for n := 0; ; n++ {
		for p.take(",") {
			continue
		}
		if p.take("}") {
			if n == 0 {
				return p.wrong()
			}
			return nil
		}
		if p.done() {
			return p.wrong()
		}
		if err := one(); err != nil {
			return err
		}
	}
}

func (p *parser) on(_ *rule, c *choices) error {
	if !p.take("on") {
		return nil
	}
	return p.list(func() error {
		i := onInterface{not: p.take("!")}
		if err := p.named("", &i.name); err != nil {
			return err
		}
		if len(i.name) > 15 {
			return p.wrong()
		}
		c.interfaces = append(c.interfaces, i)
		return nil
	})
}

func (p *parser) family(r *rule, _ *choices) error {
	switch t := p.peek(); t.text {
	case "route-to", "reply-to", "dup-to", "fastroute":
		return &NotModelled{What: t.text}
	}
	if p.take("inet") {
		r.family = inet
	} else if p.take("inet6") {
		r.family = inet6
	}
	return nil
}

func (p *parser) proto(_ *rule, c *choices) error {
	if !p.take("proto") {
		return nil
	}
	return p.list(func() error {
		t := p.next()
		name, ok := protocol(t.text)
		if !ok {
			return p.complain("unknown protocol %s", t.text)
		}
		c.protos = append(c.protos, name)
		return nil
	})
}

func (p *parser) fromTo(_ *rule, c *choices) error {
	if p.take("all") {
		return nil
	}
	var err error
	if p.take("from") {
		if c.from, c.fromPorts, err = p.end(); err != nil {
			return err
		}
	}
	if p.take("to") {
		c.to, c.toPorts, err = p.end()
	}
	return err
}

// end is one side: hosts, ports, or both.
func (p *parser) end() (hosts []located, ports []port, err error) {
	if !p.peek().is("port") {
		err = p.list(func() error {
			found, err := p.host()
			hosts = append(hosts, found...)
			return err
		})
	}
	if err != nil || !p.take("port") {
		return hosts, ports, err
	}
	err = p.list(func() error {
		one, err := p.port()
		ports = append(ports, one)
		return err
	})
	return hosts, ports, err
}

func (p *parser) options(r *rule, c *choices) error {
	for !p.done() && !p.peek().is("->") {
		if err := p.option(r, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) option(r *rule, c *choices) error {
	t := p.next()
	switch t.text {
	case "flags":
		if err := p.named("", &r.options.flags); err != nil {
			return err
		}
		if f := r.options.flags; f != "S/SA" && f != "any" {
			return &NotModelled{What: "flags " + f}
		}
	case "keep", "modulate", "synproxy", "no":
		if !p.take("state") {
			return p.wrong()
		}
		r.options.state = t.text
		if p.peek().is("(") {
			return &NotModelled{What: "arguments of keep state"}
		}
	case "icmp-type", "icmp6-type":
		return p.icmp(t.text, c)
	case "label":
		return p.named(" .,:/()", &r.options.label)
	case "tag":
		name, err := p.word("")
		r.options.rest = append(r.options.rest, "tag "+name)
		return err
	case "allow-opts":
		r.options.rest = append(r.options.rest, t.text)
	case "fragment":
		if r.section != normalization || !p.take("reassemble") {
			return &NotModelled{What: "fragment"}
		}
		r.options.rest = append(r.options.rest, "fragment reassemble")
	case "static-port":
		r.options.rest = append(r.options.rest, t.text)
	case "user", "group", "tos", "dscp", "tagged", "probability", "queue", "rtable", "os", "no-df", "random-id",
		"min-ttl", "max-mss", "reassemble", "extfilter", "received-on":
		return &NotModelled{What: t.text}
	default:
		p.tokens = append([]token{t}, p.tokens...)
		return p.wrong()
	}
	return nil
}

func (p *parser) named(also string, to *string) (err error) {
	*to, err = p.word(also)
	return err
}

func (p *parser) icmp(kind string, c *choices) error {
	return p.list(func() error {
		t := p.next()
		if t.end() {
			return p.wrong()
		}
		name, ok := icmpType(kind, t.text)
		if !ok {
			return p.complain("unknown %s %s", kind, t.text)
		}
		text := kind + " " + name
		if p.take("code") {
			code, err := p.word("")
			if err != nil {
				return err
			}
			text += " code " + code
		}
		c.icmp = append(c.icmp, text)
		return nil
	})
}

// check holds a rule against what pfctl finds inconsistent.
func (p *parser) check(r rule, c choices) error {
	portless := func(proto string) bool { return proto != "tcp" && proto != "udp" }
	hasPorts := len(c.fromPorts)+len(c.toPorts) > 0
	icmp := len(c.icmp) > 0
	switch {
	case hasPorts && (len(c.protos) == 0 || slices.ContainsFunc(c.protos, portless)):
		return p.complain("port only applies to tcp/udp")
	case r.options.flags != "" && r.options.flags != "any" && len(c.protos) > 0 && !slices.Contains(c.protos, "tcp"):
		return p.complain("flags only apply to tcp")
	case icmp && (len(c.protos) != 1 || (c.protos[0] != "icmp" && c.protos[0] != "icmp6")):
		return p.complain("icmp-type/code only applies to icmp")
	case icmp && r.family == 0:
		return p.complain("must indicate address family with icmp-type/code")
	case r.action == "block" && r.options.state != "" && r.options.state != "no":
		return p.complain("keep state on block rules doesn't make sense")
	case (r.section == translation || r.section == redirection) && r.call == "" && !strings.HasPrefix(r.action, "no ") && r.target == "":
		return p.wrong()
	}
	return nil
}

// defaults adds what a passing rule means without saying it.
func (p *parser) defaults(r *rule) {
	if r.action == "pass" && r.options.state == "" {
		r.options.state = "keep"
	}
}

// expand multiplies the lists out, in pfctl's order, leaving out combinations
// whose families or interfaces contradict each other.
func (c choices) expand(base rule) []*rule {
	var out []*rule
	for _, on := range orOne(c.interfaces) {
		for _, proto := range orOne(c.protos) {
			for _, icmp := range orOne(c.icmp) {
				for _, from := range orOne(c.from) {
					for _, fromPort := range orOne(c.fromPorts) {
						for _, to := range orOne(c.to) {
							for _, toPort := range orOne(c.toPorts) {
								r := base
								r.on, r.notOn, r.proto, r.options.icmp = on.name, on.not, proto, icmp
								r.from, r.to = from.side(fromPort), to.side(toPort)
								if r.agree(from, to) {
									r.flagDefault()
									out = append(out, &r)
								}
							}
						}
					}
				}
			}
		}
	}
	return out
}

func orOne[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

// agree settles the family and, for link-local addresses, the interface.
func (r *rule) agree(ends ...located) bool {
	for _, e := range ends {
		if f := e.family(); f != 0 {
			if r.family != 0 && r.family != f {
				return false
			}
			r.family = f
		}
		if e.zone == "" {
			continue
		}
		if r.on != "" && (r.on != e.zone || r.notOn) {
			return false
		}
		r.on = e.zone
	}
	icmp := (r.proto == "icmp" && r.family == inet6) || (r.proto == "icmp6" && r.family == inet)
	return !icmp
}

// flagDefault looks at the start of a conversation only, where nothing else is
// said. Other protocols than TCP have no flags, whatever the rule says.
func (r *rule) flagDefault() {
	switch stateful := r.action == "pass" && r.options.state != "no"; {
	case r.proto != "" && r.proto != "tcp", r.options.flags == "any" && !stateful:
		r.options.flags = ""
	case stateful && r.options.flags == "":
		r.options.flags = "S/SA"
	}
}

// target is what nat and rdr translate to.
func (p *parser) target(r *rule, c *choices) error {
	if !p.take("->") {
		return nil
	}
	if r.section != translation && r.section != redirection {
		return p.wrong()
	}
	hosts, err := p.host()
	if err != nil {
		return err
	}
	if len(hosts) == 0 {
		return errors.New("a translation to nothing")
	}
	r.target, r.dynamic = hosts[0].host.String(), hosts[0].host.dynamic
	for _, h := range hosts {
		if h.host.prefix.IsValid() {
			r.targets = append(r.targets, h.host.prefix.Addr())
		}
	}
	if p.take("port") {
		t, err := p.port()
		if err != nil {
			return err
		}
		r.target += fmt.Sprintf(" port %d", t.a)
	}
	return p.options(r, c)
}
