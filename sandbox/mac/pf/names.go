package pf

import (
	"slices"
	"strconv"
)

// services are the names rules and print-outs use for ports. A name that stands for several
// is read as the first of them.
func services() map[string][]int {
	return map[string][]int{
		"ftp": {21}, "ssh": {22}, "telnet": {23}, "smtp": {25}, "domain": {53}, "bootps": {67}, "bootpc": {68}, "tftp": {69},
		"http": {80}, "ntp": {123}, "https": {443}, "submission": {587}, "rfb": {5900}, "mdns": {5353},
		"dhcpv6-client": {546}, "dhcpv6-server": {547}, "http-alt": {591, 8008, 8080},
	}
}

func serviceName(proto string, port int) string {
	if proto != "tcp" && proto != "udp" {
		return ""
	}
	for name, ports := range services() {
		if slices.Contains(ports, port) {
			return name
		}
	}
	return ""
}

// protocols by the names rules use; the numbers are IANA's.
func protocols() map[string]int {
	return map[string]int{
		"icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ah": 51, "icmp6": 58, "ipv6-icmp": 58, "sctp": 132,
	}
}

// protocol is the name of a protocol given by name or number.
func protocol(word string) (string, bool) {
	n, err := strconv.Atoi(word)
	named, known := protocols()[word]
	switch {
	case known:
		n = named
	case err != nil || n < 0 || n > 255:
		return "", false
	}
	switch n {
	case 58:
		return "icmp6", true
	case 0:
		return "ip", true
	}
	for name, m := range protocols() {
		if m == n {
			return name, true
		}
	}
	return strconv.Itoa(n), true
}

// icmpTypes are the types of ICMP and ICMPv6 by the names rules use.
func icmpTypes(kind string) map[string]int {
	if kind == "icmp6-type" {
		return map[string]int{
			"unreach": 1, "toobig": 2, "timex": 3, "paramprob": 4, "echoreq": 128, "echorep": 129, "groupqry": 130,
			"grouprep": 131, "groupterm": 132, "routersol": 133, "routeradv": 134, "neighbrsol": 135, "neighbradv": 136,
			"redir": 137, "routrrenum": 138,
		}
	}
	return map[string]int{
		"echorep": 0, "unreach": 3, "squench": 4, "redir": 5, "echoreq": 8, "routeradv": 9, "routersol": 10, "timex": 11,
		"paramprob": 12,
	}
}

// icmpType is how a type given by name or number is printed: by its name, where
// it has one.
func icmpType(kind, word string) (string, bool) {
	types := icmpTypes(kind)
	if _, ok := types[word]; ok {
		return word, true
	}
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 || n > 255 {
		return "", false
	}
	for name, m := range types {
		if n == m {
			return name, true
		}
	}
	return word, true
}

// protoName is how a protocol is printed.
func protoName(proto string) string {
	if proto == "icmp6" {
		return "ipv6-icmp"
	}
	return proto
}
