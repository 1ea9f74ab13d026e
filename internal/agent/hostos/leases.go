package hostos

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// LiveLeases reads the file of macOS's DHCP server: how many addresses of the subnet
// are leased now, and how long the longest of these leases goes on. The file is
// blocks in braces of key=value lines; lease is when it ends, in hexadecimal seconds.
func LiveLeases(text string, subnet netip.Prefix, now time.Time) (used int, longest time.Duration) {
	taken := map[netip.Addr]bool{}
	var address netip.Addr
	var ends time.Time
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "{":
			address, ends = netip.Addr{}, time.Time{}
		case "ip_address":
			address, _ = netip.ParseAddr(value) // what is none is in no subnet
		case "lease":
			if seconds, err := strconv.ParseInt(strings.TrimPrefix(value, "0x"), 16, 64); err == nil {
				ends = time.Unix(seconds, 0)
			}
		case "}":
			if !subnet.Contains(address) || !ends.After(now) {
				continue
			}
			taken[address] = true
			longest = max(longest, ends.Sub(now))
		}
	}
	return len(taken), longest
}
