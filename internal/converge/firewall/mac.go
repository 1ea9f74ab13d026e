package firewall

// Types of ICMP and ICMPv6, by pf's names.
const (
	echoRequest  = "echoreq"
	echoReply    = "echorep"
	unreachable  = "unreach"
	timeExceeded = "timex"
	badParameter = "paramprob"
	tooBig       = "toobig"
	groupQuery   = "groupqry"
	routerAdvert = "routeradv"
)

// icmpIn are the types that the Mac takes: pings, errors of paths, and in IPv6 its
// routers and neighbours (RFC 4890). Redirects are not among them.
func icmpIn(proto string) []string {
	types := []string{echoRequest, echoReply, unreachable, timeExceeded, badParameter}
	if proto == icmp6 {
		types = append(types, tooBig, groupQuery, routerAdvert, "neighbrsol", "neighbradv")
	}
	return types
}

// mac says what reaches the Mac itself. These rules come after all those for
// guests, so that nothing here is open to one.
func (p plan) mac() []Rule {
	var rules []Rule
	for _, fam := range families() {
		rules = append(rules, passIn(Rule{Interface: loopback, Family: fam, From: anyone, To: anyone}))
	}
	rules = append(rules, p.ssh()...)
	rules = append(rules, p.kubelet()...)
	rules = append(rules, addressing()...)
	rules = append(rules, p.hostIngress()...)
	return append(rules, closed()...)
}

// kubelet lets API servers in. network.sshIngress has no say here: they are elsewhere
// than the manager.
func (p plan) kubelet() []Rule {
	if p.kubeletPort == 0 {
		return nil
	}
	var rules []Rule
	for _, fam := range families() {
		rules = append(rules, passIn(Rule{Family: fam, Proto: tcp, From: anyone, To: anyone, ToPort: p.kubeletPort}))
	}
	return rules
}

func families() []string { return []string{inet, inet6} }

// ssh says who reaches the Mac's SSH from outside. The connection that brings the
// rules is older than they are, and must fit them.
func (p plan) ssh() []Rule {
	to := func(fam, from string, port int) Rule {
		return Rule{Family: fam, Proto: tcp, From: from, To: anyone, ToPort: port}
	}
	var rules []Rule
	for _, port := range p.sshPorts {
		for _, from := range p.sshFrom {
			rules = append(rules, passIn(to(family(from.Addr()), network(from), port)))
		}
		for _, fam := range families() {
			if len(p.sshFrom) == 0 {
				rules = append(rules, passIn(to(fam, anyone, port)))
				continue
			}
			// network.hostIngress must not open what network.sshIngress shuts.
			rules = append(rules, blockIn(to(fam, anyone, port)))
		}
	}
	return rules
}

// addressing is what the Mac needs to have an address, and to keep it.
func addressing() []Rule {
	rules := []Rule{
		passIn(Rule{Family: inet, Proto: udp, From: anyone, FromPort: portDHCPServer, To: anyone, ToPort: portDHCPClient}),
		passIn(Rule{Family: inet6, Proto: udp, From: linkLocal, FromPort: portDHCPv6Server, To: anyone, ToPort: portDHCPv6Client}),
	}
	for _, proto := range []string{icmp, icmp6} {
		for _, kind := range icmpIn(proto) {
			rules = append(rules, passIn(Rule{Family: familyOf(proto), Proto: proto, From: anyone, To: anyone, ICMPType: kind}))
		}
	}
	return rules
}

func familyOf(proto string) string {
	if proto == icmp6 {
		return inet6
	}
	return inet
}

// hostIngress are the profile's own holes.
func (p plan) hostIngress() []Rule {
	var rules []Rule
	for _, a := range p.ingress {
		for _, port := range a.ports {
			for _, proto := range []string{tcp, udp} {
				rules = append(rules, passIn(Rule{
					Family: family(a.prefix.Addr()), Proto: proto, From: network(a.prefix), To: anyone, ToPort: port,
				}))
			}
		}
	}
	return rules
}

// closed shuts all else. Of TCP it drops what opens a connection and lets the rest
// by: what was opened before the rules, or while they were away, goes on, and
// nobody can begin. Other protocols have no such mark, so what leaves is remembered
// for its answers.
func closed() []Rule {
	var rules []Rule
	for _, fam := range families() {
		rules = append(
			rules,
			blockIn(Rule{Family: fam, Proto: tcp, From: anyone, To: anyone, Opening: true}),
			passIn(Rule{Family: fam, Proto: tcp, From: anyone, To: anyone}),
			blockIn(Rule{Family: fam, From: anyone, To: anyone}),
		)
	}
	for _, proto := range []string{udp, icmp} {
		rules = append(rules, remembered(inet, proto))
	}
	for _, proto := range []string{udp, icmp6} {
		rules = append(rules, remembered(inet6, proto))
	}
	return rules
}

func remembered(fam, proto string) Rule {
	return Rule{Action: "pass", Out: true, Family: fam, Proto: proto, From: anyone, To: anyone}
}
