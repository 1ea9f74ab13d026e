package pf

// Legacy names what an older system left on a Mac.
const (
	LegacyAnchor = "tuist.runners"
	LegacyFile   = "/etc/pf.anchors/tuist.runners"
)

// StuckHost are the files of a Mac on which an older system has fenced its
// guests with tables, over and over: its anchor file, and a pf.conf that loads
// the anchor once between marks and once without. Together with StuckCommands
// that is a Mac whose firewall could not be loaded for days.
func StuckHost() map[string]string {
	return map[string]string{
		LegacyFile: `#
# Guests may not reach private networks.
#
# vm_sources:  where guests are
# blocked_dst: where they must not go
#
# Written by the bootstrap of the fleet.
#


table <vm_sources> persist { 192.168.64.0/24 }
table <blocked_dst> persist { 10.0.0.0/8, 172.16.0.0/12, 169.254.0.0/16 }
block out quick from <vm_sources> to <blocked_dst>
`,
		"/etc/pf.conf": StockFiles()["/etc/pf.conf"] + `anchor "tuist.runners"
load anchor "tuist.runners" from "/etc/pf.anchors/tuist.runners"
# BEGIN tuist.runners
anchor "tuist.runners"
load anchor "tuist.runners" from "/etc/pf.anchors/tuist.runners"
# END tuist.runners
`,
	}
}

// StuckCommands are command lines of pfctl that leave what such a Mac has in its
// kernel: tables of those names in the anchor, referred to by its rules, and in
// the main ruleset.
func StuckCommands() [][]string {
	return [][]string{
		{"-a", LegacyAnchor, "-f", LegacyFile},
		{"-t", "vm_sources", "-T", "add", "192.168.64.0/24"},
		{"-t", "blocked_dst", "-T", "add", "10.0.0.0/8", "172.16.0.0/12"},
		{"-E"},
	}
}
