package pf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// AppleCalls are the anchor points of the stock main ruleset.
const AppleCalls = `scrub-anchor "com.apple/*"
nat-anchor "com.apple/*"
rdr-anchor "com.apple/*"
dummynet-anchor "com.apple/*"
anchor "com.apple/*"
`

// StockFiles are the packet filter's files of a fresh system, by path.
func StockFiles() map[string]string {
	return map[string]string{
		"/etc/pf.conf": "# The stock rules: places for the system's own anchors.\n" + AppleCalls +
			"load anchor \"com.apple\" from \"/etc/pf.anchors/com.apple\"\n",
		"/etc/pf.anchors/com.apple": "anchor \"200.AirDrop/*\"\nanchor \"250.ApplicationFirewall/*\"\n",
		"/etc/services":             serviceFile(),
	}
}

// serviceFile lists the names of ports that pfctl may print, as services(5) does.
func serviceFile() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(services())) {
		for _, port := range services()[name] {
			fmt.Fprintf(&b, "%-16s%d/tcp\n%-16s%d/udp\n", name, port, name, port)
		}
	}
	return b.String()
}

// Insert puts rules into the main ruleset beside pfctl, as system daemons do:
// they stay until they are taken back or pfctl loads the main ruleset. Rules of
// an earlier Insert are replaced.
func (f *Filter) Insert(text string) error {
	parsed, err := f.parsePrivate(text)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.anchors[""].private = parsed.rules
	return nil
}

// ReplaceMain leaves nothing in the main ruleset but the given rules, whoever
// they are from, as the sharing service is said to do.
func (f *Filter) ReplaceMain(text string) error {
	parsed, err := f.parsePrivate(text)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tickets++
	main := f.anchors[""]
	main.ticket = f.tickets
	f.swap(ticket{file: parsed})
	return nil
}

func (f *Filter) parsePrivate(text string) (*file, error) {
	parsed, err := parse("private", text, f.o.Interfaces())
	if err != nil {
		return nil, err
	}
	for _, c := range parsed.complaints {
		return nil, c
	}
	return parsed, nil
}
