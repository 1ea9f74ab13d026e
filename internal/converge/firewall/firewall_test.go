package firewall

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
)

var update = flag.Bool("update", false, "write the golden files anew")

func networks() map[string]document.Network {
	return map[string]document.Network{
		"default": {Subnet: "192.168.64.0/24", DenyPrivate: true},
		"open":    {Subnet: "192.168.64.0/24"},
		"full": {
			Subnet: "10.77.0.0/16", DenyPrivate: true,
			Allow: []document.Allow{
				{CIDR: "10.1.2.3/32", Ports: []int{443, 5000}},
				{CIDR: "172.16.4.0/22"},
				{CIDR: "fd00:1::/64", Ports: []int{443}},
			},
			SSHFrom: []string{"198.51.100.0/24", "2001:db8:7::/48"},
			HostAllow: []document.Allow{
				{CIDR: "198.51.100.0/24", Ports: []int{9100, 22}}, {CIDR: "::/0", Ports: []int{41641}},
			},
		},
	}
}

func policy(n document.Network) Policy {
	return Policy{Network: n, KubeletPort: document.DefaultKubeletPort}
}

func TestRules(t *testing.T) {
	for name, n := range networks() {
		got, err := Rules(policy(n))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".rules")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for name, n := range map[string]document.Network{
		"no subnet":      {},
		"an IPv6 subnet": {Subnet: "fd00::/64"},
		"allow":          {Subnet: "192.168.64.0/24", Allow: []document.Allow{{CIDR: "10.0.0.0/33"}}},
		"a second line":  {Subnet: "192.168.64.0/24", Allow: []document.Allow{{CIDR: "10.0.0.0/8\npass all"}}},
		"ingress":        {Subnet: "192.168.64.0/24", HostAllow: []document.Allow{{CIDR: "office", Ports: []int{22}}}},
		"ssh":            {Subnet: "192.168.64.0/24", SSHFrom: []string{"everybody"}},
	} {
		if got, err := Rules(policy(n)); err == nil {
			t.Errorf("%s: taken:\n%s", name, got)
		}
	}
}

// lines are the rules as pf prints them once they are loaded on a Mac.
func lines(t *testing.T, n document.Network, own ...string) []string {
	t.Helper()
	text, err := Rules(policy(n))
	if err != nil {
		t.Fatal(err)
	}
	var live []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, " self") {
			live = append(live, line)
			continue
		}
		for _, a := range own {
			if strings.Contains(line, " inet6 ") == strings.Contains(a, ":") {
				live = append(live, strings.Replace(line, " self", " "+a, 1))
			}
		}
	}
	return live
}

func wanted(t *testing.T, n document.Network) []Rule {
	t.Helper()
	rules, err := Wanted(policy(n))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestTheRulesThemselvesAreRight(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("192.0.2.4"), netip.MustParseAddr("2001:db8::4"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1%lo0")}
	for name, n := range networks() {
		live := lines(t, n, "192.0.2.4", "2001:db8::4", "fe80::1")
		if got := Judge(live, wanted(t, n), own); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSpellingDoesNotCount(t *testing.T) {
	for _, c := range [][2]string{
		{"pass in quick inet proto udp from 192.168.64.0/24 to 192.168.64.1 port = 53 no state", "  pass   in quick inet proto 17 from 192.168.64.0/24 to 192.168.64.1/32 port = 53 no state "},
		{"pass in quick inet proto tcp from any to any port 8080:8080 no state", "pass in quick inet proto tcp from any to any port = 8080 no state"},
		{"block drop in quick on bridge100 inet6 all", "block in quick on bridge100 inet6 from any to any"},
		{"pass in quick on bridge100 inet6 proto icmp6 all icmp6-type neighbrsol keep state", "pass in quick on bridge100 inet6 proto ipv6-icmp from any to any icmp6-type 135 keep state"},
		{"pass out quick inet from any to 10.0.0.0/8 keep state", "pass out quick inet from 0.0.0.0/0 to 10.0.0.0/8 flags S/SA keep state"},
		{"block drop in quick inet proto tcp all flags S/SA", "block drop in quick inet proto 6 from any to any flags S/SA"},
		{"pass in quick inet proto icmp all icmp-type echoreq no state", "pass in quick inet proto 1 all icmp-type 8 no state"},
		{"pass in quick inet6 proto icmp6 all icmp6-type groupqry no state", "pass in quick inet6 proto ipv6-icmp all icmp6-type listqry no state"},
		{"block drop in quick inet6 from any to fd00::/8", "block drop in quick inet6 from any to fd00:0:0::/8"},
	} {
		a, err := parse(c[0])
		if err != nil {
			t.Error(err)
		}
		b, err := parse(c[1])
		if err != nil {
			t.Error(err)
		}
		if a != b {
			t.Errorf("%q is %+v, %q is %+v", c[0], a, c[1], b)
		}
	}
}

func TestJudgeFindsWhatWasChanged(t *testing.T) {
	n := document.Network{Subnet: "192.168.64.0/24", DenyPrivate: true}
	own := []netip.Addr{netip.MustParseAddr("192.0.2.4"), netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("2001:db8::4")}
	for name, c := range map[string]struct {
		change func([]string) []string
		want   string
	}{
		"nothing loaded":  {func([]string) []string { return nil }, "is missing"},
		"the end missing": {func(l []string) []string { return l[:len(l)-1] }, "is missing"},
		"one more":        {func(l []string) []string { return append(l, "pass in quick all no state") }, "too many"},
		"a rule before":   {func(l []string) []string { return append([]string{"pass in quick all no state"}, l...) }, "in the place"},
		"swapped": {func(l []string) []string {
			slices.Reverse(l)
			return l
		}, "in the place"},
		"not quick":  {func(l []string) []string { return replaceIn(l, "block drop in quick", "block drop in") }, "not ours"},
		"not in":     {func(l []string) []string { return replaceIn(l, "block drop in quick", "block drop out quick") }, "192.0.2.4 is open"},
		"one port":   {func(l []string) []string { return replaceIn(l, "port 53:53", "port 54:54") }, "in the place"},
		"more ports": {func(l []string) []string { return replaceIn(l, "port 53:53", "port 53:54") }, "not ours"},
		"negated":    {func(l []string) []string { return replaceIn(l, "to 10.0.0.0/8", "to ! 10.0.0.0/8") }, "not ours"},
		"a table":    {func(l []string) []string { return replaceIn(l, "to 10.0.0.0/8", "to <open>") }, "not ours"},
		"only tcp":   {func(l []string) []string { return replaceIn(l, "to 10.0.0.0/8", "to 10.0.0.0/8 flags S/SA") }, "in the place"},
		"all flags":  {func(l []string) []string { return replaceIn(l, "all flags S/SA", "all") }, "in the place"},
		"no opening": {func(l []string) []string { return replaceIn(l, "flags S/SA", "flags F/F") }, "not ours"},
		"redirects":  {func(l []string) []string { return replaceIn(l, "icmp-type echoreq", "icmp-type redir") }, "not ours"},
		"address":    {func(l []string) []string { return replaceIn(l, "to 192.0.2.4", "to 192.0.2.5") }, "192.0.2.4 is open"},
		"address v6": {func(l []string) []string { return replaceIn(l, "to 2001:db8::4", "to 2001:db8::5") }, "2001:db8::4 is open"},
		"own LAN":    {func(l []string) []string { return without(l, "to 10.1.2.3") }, "10.1.2.3 is open"},
	} {
		live := c.change(lines(t, n, "192.0.2.4", "10.1.2.3", "2001:db8::4"))
		got := strings.Join(Judge(live, wanted(t, n), own), "; ")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// without leaves out the rules that have the text.
func without(l []string, text string) []string {
	return slices.DeleteFunc(l, func(line string) bool { return strings.Contains(line, text) })
}

// replaceIn changes the first line that has the text.
func replaceIn(l []string, from, to string) []string {
	for i := range l {
		if strings.Contains(l[i], from) {
			l[i] = strings.Replace(l[i], from, to, 1)
			break
		}
	}
	return l
}

func TestANewAddressTightensNothing(t *testing.T) {
	n := document.Network{Subnet: "192.168.64.0/24"}
	live := lines(t, n, "192.0.2.4")
	if !sameBut(live, wanted(t, n)) {
		t.Error("other addresses of the Mac count as other rules")
	}
	if sameBut(nil, wanted(t, n)) || sameBut(live[1:], wanted(t, n)) {
		t.Error("missing rules count as none")
	}
}

// TestF06_BlocksAreInRules: what goes out was translated before it is filtered.
func TestF06_BlocksAreInRules(t *testing.T) {
	for name, n := range networks() {
		families := map[string]bool{}
		for _, r := range wanted(t, n) {
			if r.Action == "block" && r.Out {
				t.Errorf("%s: %s", name, r)
			}
			if r.Action == "block" {
				families[r.Family] = true
			}
		}
		if !families[inet] || !families[inet6] {
			t.Errorf("%s: blocks only in %v", name, families)
		}
	}
}

// TestF04_NoTables: a ruleset that defines no table cannot be refused for one.
func TestF04_NoTables(t *testing.T) {
	for name, n := range networks() {
		text, err := Rules(policy(n))
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(text, "<>{}") || strings.Contains(text, "table") || strings.Contains(text, "load") {
			t.Errorf("%s: tables, lists or loads in\n%s", name, text)
		}
	}
}

func TestJudgeMain(t *testing.T) {
	stock := []string{`scrub-anchor "com.apple/*" all fragment reassemble`, `anchor "com.apple/*" all`}
	for name, c := range map[string]struct {
		live []string
		want string
	}{
		"stock":             {stock, ""},
		"after vmnet":       {append([]string{`anchor "com.apple.internet-sharing" all`}, stock...), ""},
		"nothing":           {nil, "does not call"},
		"gone":              {[]string{`anchor "com.apple.internet-sharing" all`}, "does not call"},
		"scrub only":        {stock[:1], "does not call"},
		"restricted":        {[]string{`anchor "com.apple/*" on en0 all`}, "for some packets"},
		"shadowed":          {append([]string{"pass in quick all flags S/SA keep state"}, stock...), "comes before"},
		"rules that are no": {append([]string{"pass in all flags S/SA keep state"}, stock...), ""},
	} {
		got := JudgeMain(c.live)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// FuzzParse: what was understood says the same again.
func FuzzParse(f *testing.F) {
	for _, n := range networks() {
		text, err := Rules(policy(n))
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(text) {
			f.Add(strings.Replace(line, "self", "192.0.2.4", 1))
		}
	}
	f.Add("pass in quick proto tcp from any port = ssh to any")
	f.Fuzz(func(t *testing.T, line string) {
		r, err := parse(line)
		if err != nil {
			return
		}
		again, err := parse(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %+v, and %q is %+v (%v)", line, r, r, again, err)
		}
	})
}
