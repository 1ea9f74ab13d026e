package pf

import "strconv"

// services are the names rules and print-outs use for ports.
func services() map[string]int {
	return map[string]int{
		"ftp": 21, "ssh": 22, "telnet": 23, "smtp": 25, "domain": 53, "bootps": 67, "bootpc": 68, "tftp": 69,
		"http": 80, "ntp": 123, "https": 443, "submission": 587, "rfb": 5900, "mdns": 5353,
		"dhcpv6-client": 546, "dhcpv6-server": 547,
	}
}

func serviceName(proto string, port int) string {
	if proto != "tcp" && proto != "udp" {
		return ""
	}
	for name, n := range services() {
		if n == port {
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

// protoName is how a protocol is printed.
func protoName(proto string) string {
	if proto == "icmp6" {
		return "ipv6-icmp"
	}
	return proto
}
