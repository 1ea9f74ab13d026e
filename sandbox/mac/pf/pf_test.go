package pf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
)

// kernel is a filter with a disk full of files to load.
type kernel struct {
	*pf.Filter
	t     *testing.T
	files map[string]string
}

func interfaces() []pf.Interface {
	return []pf.Interface{
		{Name: "lo0", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::1/64")}},
		{Name: "en0", Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.7/24"), netip.MustParsePrefix("2001:db8::7/64")}},
	}
}

func boot(t *testing.T, window func()) *kernel {
	t.Helper()
	k := &kernel{Filter: pf.New(pf.Options{Interfaces: interfaces, Window: window}), t: t, files: pf.StockFiles()}
	k.ok("-f", "/etc/pf.conf")
	return k
}

func (k *kernel) read(path string) ([]byte, error) {
	if text, ok := k.files[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (k *kernel) pfctl(stdin string, args ...string) pf.Result {
	return k.Run(pf.Command{Args: args, Stdin: []byte(stdin), Read: k.read, PID: 7})
}

func (k *kernel) ok(args ...string) pf.Result {
	k.t.Helper()
	r := k.pfctl("", args...)
	if r.RC != 0 {
		k.t.Fatalf("pfctl %q: %+v", args, r)
	}
	return r
}

func (k *kernel) load(anchor, rules string) {
	k.t.Helper()
	if r := k.pfctl(rules, "-a", anchor, "-f", "-"); r.RC != 0 {
		k.t.Fatalf("loading %s: %+v", anchor, r)
	}
}

func (k *kernel) enable() {
	k.t.Helper()
	k.ok("-E")
}

// stuck is a Mac as the older system left it.
func stuck(t *testing.T) *kernel {
	t.Helper()
	k := boot(t, nil)
	for path, text := range pf.StuckHost() {
		k.files[path] = text
	}
	for _, args := range pf.StuckCommands() {
		k.ok(args...)
	}
	return k
}

// busy are the lines of a refusal to define both tables.
const busy = `/etc/pf.anchors/tuist.runners:11: cannot define table vm_sources: Resource busy
/etc/pf.anchors/tuist.runners:12: cannot define table blocked_dst: Resource busy
pfctl: Syntax error in config file: pf rules not loaded
`

func isBusy(r pf.Result) bool { return r.RC != 0 && strings.HasSuffix(r.Stderr, busy) }

func TestF04_ALoadNamedTwiceIsBusyAndATableIsNot(t *testing.T) {
	k := stuck(t)
	if r := k.pfctl("", "-f", "/etc/pf.conf"); !strings.Contains(r.Stderr, busy) || r.RC != 1 {
		t.Errorf("a pf.conf with two loads of one anchor: %+v", r)
	}
	// What stands in the kernel is not the reason.
	k.ok("-a", pf.LegacyAnchor, "-f", pf.LegacyFile)
	k.files["/etc/pf.conf"] = strings.Replace(k.files["/etc/pf.conf"], "load anchor \"tuist.runners\" from", "# load", 1)
	k.ok("-f", "/etc/pf.conf")
}

func TestF04_TwoLoadsThatMeet(t *testing.T) {
	var k *kernel
	var inner *pf.Result
	k = boot(t, func() {
		if inner == nil {
			inner = &pf.Result{}
			*inner = k.pfctl("table <t> { 10.0.0.1 }\nblock in from <t>\n", "-a", "com.apple/x", "-f", "-")
		}
	})
	k.SetBeliefs(pf.Beliefs{RaceBusy: true})
	outer := k.pfctl("table <t> { 10.0.0.2 }\nblock in from <t>\n", "-a", "com.apple/x", "-f", "-")
	if outer.RC == 0 || !strings.Contains(outer.Stderr, "stdin:1: cannot define table t: Resource busy") {
		t.Errorf("the older load: %+v", outer)
	}
	if inner == nil || inner.RC != 0 {
		t.Errorf("the newer load: %+v", inner)
	}
	if got := k.ok("-a", "com.apple/x", "-t", "t", "-T", "show").Stdout; got != "   10.0.0.1\n" {
		t.Errorf("the table holds %q", got)
	}
}

func TestF04_RulesWithoutTablesThatMeet(t *testing.T) {
	var k *kernel
	first := true
	k = boot(t, func() {
		if first {
			first = false
			k.load("com.apple/x", "block in\n")
		}
	})
	k.SetBeliefs(pf.Beliefs{RaceBusy: true})
	if r := k.pfctl("pass in\n", "-a", "com.apple/x", "-f", "-"); r.RC != 1 || !strings.Contains(r.Stderr, "Resource busy") {
		t.Errorf("the older load: %+v", r)
	}
	if got := k.ok("-a", "com.apple/x", "-s", "rules").Stdout; got != "block drop in all\n" {
		t.Errorf("rules: %q", got)
	}
}

func TestF05_TableLifecycles(t *testing.T) {
	const anchor = "com.apple/x"
	tests := map[string]struct {
		beliefs pf.Beliefs
		do      [][]string
		want    string // tables in the anchor, then in main
	}{
		"add makes a persistent table": {
			do: [][]string{{"-a", anchor, "-t", "t", "-T", "add", "10/8"}}, want: "t/",
		},
		"kill is of one scope": {
			do:   [][]string{{"-a", anchor, "-t", "t", "-T", "add", "10/8"}, {"-t", "t", "-T", "add", "10/8"}, {"-t", "t", "-T", "kill"}},
			want: "t/",
		},
		"kill of nothing": {do: [][]string{{"-a", anchor, "-t", "t", "-T", "kill"}}, want: "/"},
		"flush takes persistent tables": {
			do:   [][]string{{"-a", anchor, "-t", "t", "-T", "add", "10/8"}, {"-a", anchor, "-F", "Tables"}},
			want: "/",
		},
		"flush keeps persistent tables": {
			beliefs: pf.Beliefs{FlushKeepsPersist: true},
			do:      [][]string{{"-a", anchor, "-t", "t", "-T", "add", "10/8"}, {"-a", anchor, "-F", "Tables"}},
			want:    "t/",
		},
		"flush is of one scope": {
			do:   [][]string{{"-t", "t", "-T", "add", "10/8"}, {"-a", anchor, "-F", "Tables"}},
			want: "/t",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := boot(t, nil)
			k.SetBeliefs(tt.beliefs)
			for _, args := range tt.do {
				k.ok(args...)
			}
			lines := func(s string) string { return strings.Join(strings.Fields(s), ",") }
			if got := lines(k.ok("-a", anchor, "-s", "Tables").Stdout) + "/" + lines(k.ok("-s", "Tables").Stdout); got != tt.want {
				t.Errorf("tables %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF05_ATableInUseStaysAsAShell(t *testing.T) {
	k := boot(t, nil)
	k.enable()
	k.load("com.apple/x", "table <t> { 10.0.0.0/8 }\nblock in quick from <t>\n")
	p := pf.Packet{Direction: pf.In, Interface: "en0", Src: netip.MustParseAddr("10.1.1.1"), Dst: netip.MustParseAddr("203.0.113.7"), Proto: "tcp"}
	if k.Eval(p).Pass {
		t.Fatal("the table does not work at all")
	}
	k.ok("-a", "com.apple/x", "-F", "Tables")
	if !k.Eval(p).Pass {
		t.Error("the flushed table still holds addresses")
	}
	// The rule looks for the main ruleset's table of that name now.
	k.ok("-t", "t", "-T", "add", "10.0.0.0/8")
	if k.Eval(p).Pass {
		t.Error("the main ruleset's table does not stand in")
	}
}

func TestRequirement002_BothBeliefsAboutTheStuckHost(t *testing.T) {
	for name, beliefs := range map[string]pf.Beliefs{
		"persistence is busy": {PersistIsBusy: true, FlushKeepsPersist: true},
		"a stale ticket is":   {},
	} {
		t.Run(name, func(t *testing.T) {
			k := stuck(t)
			k.SetBeliefs(beliefs)
			if r := k.pfctl("", "-f", "/etc/pf.conf"); !strings.Contains(r.Stderr, busy) {
				t.Fatalf("not stuck: %+v", r)
			}
			direct := k.pfctl("", "-a", pf.LegacyAnchor, "-f", pf.LegacyFile)
			if isBusy(direct) != beliefs.PersistIsBusy {
				t.Errorf("loading the anchor alone: %+v", direct)
			}
			k.ok("-a", pf.LegacyAnchor, "-F", "Tables")
			if r := k.pfctl("", "-a", pf.LegacyAnchor, "-f", pf.LegacyFile); isBusy(r) != beliefs.PersistIsBusy {
				t.Errorf("after a flush: %+v", r)
			}
			recover002(k)
			k.ok("-a", pf.LegacyAnchor, "-f", pf.LegacyFile)
		})
	}
}

// recover002 frees a stuck host: no rules that refer to the tables, the tables
// killed in both scopes, no rules again.
func recover002(k *kernel) {
	k.load(pf.LegacyAnchor, "")
	for _, table := range []string{"vm_sources", "blocked_dst"} {
		k.ok("-a", pf.LegacyAnchor, "-t", table, "-T", "kill")
		k.ok("-t", table, "-T", "kill")
	}
	k.load(pf.LegacyAnchor, "")
	k.t.Helper()
	if got := k.ok("-a", pf.LegacyAnchor, "-s", "Tables").Stdout + k.ok("-s", "Tables").Stdout; got != "" {
		k.t.Errorf("tables are left: %q", got)
	}
}

func TestReplacingMainLetsGoOfItsTables(t *testing.T) {
	k := boot(t, nil)
	if r := k.pfctl("table <t> { 10.0.0.0/8 }\nblock in from <t>\n", "-f", "-"); r.RC != 0 {
		t.Fatalf("%+v", r)
	}
	if got := k.ok("-s", "Tables").Stdout; got != "t\n" {
		t.Fatalf("tables %q", got)
	}
	if err := k.ReplaceMain(pf.AppleCalls); err != nil {
		t.Fatal(err)
	}
	if got := k.ok("-s", "Tables").Stdout; got != "" {
		t.Errorf("a table that nobody refers to is left: %q", got)
	}
}

func TestReferences(t *testing.T) {
	k := boot(t, nil)
	if k.Enabled() || strings.Contains(k.ok("-s", "info").Stdout, "Enabled") {
		t.Error("enabled at boot")
	}
	token := func(r pf.Result) string { return r.Stderr[strings.LastIndex(r.Stderr, " ")+1 : len(r.Stderr)-1] }
	a, b := token(k.ok("-E")), token(k.ok("-E"))
	if a == b || !strings.Contains(k.ok("-s", "References").Stdout, a) {
		t.Errorf("tokens %s and %s in %s", a, b, k.ok("-s", "References").Stdout)
	}
	k.ok("-X", a)
	if !k.Enabled() {
		t.Error("one reference is left, but the filter is disabled")
	}
	if r := k.pfctl("", "-X", a); r.RC != 1 {
		t.Errorf("a token released twice: %+v", r)
	}
	k.ok("-X", b)
	if k.Enabled() {
		t.Error("enabled without references")
	}
	k.ok("-e")
	if r := k.pfctl("", "-e"); r.RC != 1 {
		t.Errorf("-e twice: %+v", r)
	}
	k.ok("-E")
	k.ok("-d")
	if k.Enabled() || len(k.References()) != 0 {
		t.Error("-d leaves references")
	}
}

func TestRulesArePrintedAsPfctlPrintsThem(t *testing.T) {
	rules := `guests = "{ 192.168.64.0/24 }"
block in quick from $guests to 10.1.2.3/8
block in quick inet from 192.168.64.0/24 to { 192.168.64.1, !192.168.64.2 } # two
pass in quick inet proto { tcp, udp } from any to 192.168.64.1 port { 53 80:90 }
pass in quick proto udp from any port 68 to any port 67
block return in log quick on ! bridge100 inet6 from fd00::/8 to any \
  label "spoofed"
block in quick from any to self
block in quick on en0 inet6 from any to self
pass in proto tcp to any port > 1023 no state
pass in inet from 192.168.64.0/24 flags any
pass in inet proto udp from 192.168.64.0/24 flags any
pass inet6 proto icmp6 all icmp6-type { 128, 135 }
`
	want := `block drop in quick inet from 192.168.64.0/24 to 10.0.0.0/8
block drop in quick inet from 192.168.64.0/24 to 192.168.64.1
block drop in quick inet from 192.168.64.0/24 to ! 192.168.64.2
pass in quick inet proto tcp from any to 192.168.64.1 port = 53 flags S/SA keep state
pass in quick inet proto tcp from any to 192.168.64.1 port 80:90 flags S/SA keep state
pass in quick inet proto udp from any to 192.168.64.1 port = 53 keep state
pass in quick inet proto udp from any to 192.168.64.1 port 80:90 keep state
pass in quick proto udp from any port = 68 to any port = 67 keep state
block return in log quick on ! bridge100 inet6 from fd00::/8 to any label "spoofed"
block drop in quick inet from any to 127.0.0.1
block drop in quick inet6 from any to ::1
block drop in quick on lo0 inet6 from any to fe80::1
block drop in quick inet from any to 203.0.113.7
block drop in quick inet6 from any to 2001:db8::7
block drop in quick on en0 inet6 from any to ::1
block drop in quick on en0 inet6 from any to 2001:db8::7
pass in proto tcp from any to any port > 1023 no state
pass in inet from 192.168.64.0/24 to any flags any keep state
pass in inet proto udp from 192.168.64.0/24 to any keep state
pass inet6 proto ipv6-icmp all icmp6-type echoreq keep state
pass inet6 proto ipv6-icmp all icmp6-type neighbrsol keep state
`
	k := boot(t, nil)
	k.load("com.apple/x", rules)
	if diff := cmp.Diff(want, k.ok("-a", "com.apple/x", "-s", "rules").Stdout); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	// What is printed can be loaded, and is printed the same again.
	k.load("com.apple/y", want)
	if diff := cmp.Diff(want, k.ok("-a", "com.apple/y", "-sr").Stdout); diff != "" {
		t.Errorf("printed rules loaded again (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("scrub-anchor \"com.apple/*\" all fragment reassemble\nanchor \"com.apple/*\" all\n", k.ok("-s", "rules").Stdout); diff != "" {
		t.Errorf("main (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("  com.apple\n", k.ok("-s", "Anchors").Stdout); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
	k.SetBeliefs(pf.Beliefs{ServiceNames: true})
	if got := k.ok("-a", "com.apple/x", "-s", "rules").Stdout; !strings.Contains(got, "port = domain") {
		t.Errorf("no names of ports in %s", got)
	}
}

func TestWrongRules(t *testing.T) {
	tests := map[string]string{
		"pass in quick all\nblok in\n":                      "stdin:2: syntax error",
		"block in from 10.0.0.0/8 nonsense":                 "stdin:1: syntax error",
		"block in from { 10.0.0.1":                          "stdin:1: syntax error",
		"block in proto tcp to any port 70000":              "stdin:1: illegal port value 70000",
		"block in to any port 22":                           "stdin:1: port only applies to tcp/udp",
		"block in from nobody.invalid":                      "stdin:1: could not parse host specification",
		"block in inet from fd00::1":                        "stdin:1: rule expands to no valid combination",
		"block in from $guests":                             "stdin:1: macro 'guests' not defined",
		"block in all\nnat on en0 from any to any -> (en0)": "stdin:2: Rules must be in order: options, normalization, queueing, translation, dummynet, filtering",
		"pass in proto udp all flags S/SA":                  "stdin:1: flags only apply to tcp",
		"pass in inet proto icmp all icmp-type nonsense":    "stdin:1: unknown icmp-type nonsense",
		"block in proto tcp all keep state":                 "stdin:1: keep state on block rules doesn't make sense",
	}
	for rules, want := range tests {
		for _, flag := range []string{"-f", "-nf"} {
			k := boot(t, nil)
			k.load("com.apple/x", "block in all\n")
			r := k.pfctl(rules, "-a", "com.apple/x", flag, "-")
			if r.RC != 1 || !strings.Contains(r.Stderr, want+"\npfctl: Syntax error in config file: pf rules not loaded\n") {
				t.Errorf("%q: %+v, want %q", rules, r, want)
			}
			if got := k.ok("-a", "com.apple/x", "-s", "rules").Stdout; got != "block drop in all\n" {
				t.Errorf("%q: the rules are now %q", rules, got)
			}
		}
	}
}

func TestWhatIsNotModelledIsSaid(t *testing.T) {
	k := boot(t, nil)
	for _, args := range [][]string{{}, {"-K", "x"}, {"-s", "osfp"}, {"-T", "expire"}, {"stray"}, {"-a"}, {"-k", "label"}} {
		if r := k.pfctl("", args...); r.Unmodelled == "" || r.RC != 64 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	for _, rules := range []string{"antispoof for en0", "pass in on en0 route-to en0 all", "block in from no-route", "pass in keep state (max 5)"} {
		if r := k.pfctl(rules, "-a", "x", "-f", "-"); r.Unmodelled == "" || r.RC != 64 {
			t.Errorf("%q: %+v", rules, r)
		}
		var missing *pf.NotModelled
		if err := k.Load("x", "f", rules, k.read); !errors.As(err, &missing) {
			t.Errorf("%q: %v", rules, err)
		}
	}
}

func TestNoAnchorThere(t *testing.T) {
	k := boot(t, nil)
	k.load("com.apple/x", "block in all\n")
	k.load("com.apple/x", "")
	if r := k.ok("-a", "com.apple/x", "-s", "rules"); r.Stdout != "" || !strings.Contains(r.Stderr, "DIOCGETRULES: Invalid argument") {
		t.Errorf("an emptied anchor: %+v", r)
	}
	if r := k.pfctl("", "-a", "com.apple/x", "-t", "t", "-T", "show"); r.RC != 255 || !strings.Contains(r.Stderr, "pfctl: Table does not exist.") {
		t.Errorf("a missing table: %+v", r)
	}
}

// FuzzLoad: whatever is loaded is printed in a form that loads and prints the same.
func FuzzLoad(f *testing.F) {
	for _, text := range pf.StuckHost() {
		f.Add(text)
	}
	f.Add(pf.AppleCalls)
	f.Add("m = \"{ 10/8, !fd00::/8 }\"\npass in log quick on ! en0 inet proto { tcp udp } from $m port 1:2 to self port { ssh > 3 5 >< 9 } flags S/SA keep state label \"x\"\n")
	f.Add("nat on en0 inet from 10.0.0.0/8 to any -> (en0:0)\nrdr pass on lo0 proto tcp to port 80 -> 127.0.0.1 port 8080\nblock return in inet6 proto icmp6 all icmp6-type { 1 echoreq }\n")
	f.Fuzz(func(t *testing.T, text string) {
		k := boot(t, nil)
		if k.pfctl(text, "-a", "x", "-f", "-").RC != 0 {
			return
		}
		first := k.ok("-a", "x", "-s", "nat").Stdout + k.ok("-a", "x", "-s", "rules").Stdout
		if strings.Contains(first, "scrub") || strings.Contains(first, "dummynet") {
			return // printed before what a file must have before it
		}
		if r := k.pfctl(first, "-a", "x", "-f", "-"); r.RC != 0 {
			t.Fatalf("%q prints as %q, which is refused: %+v", text, first, r)
		}
		if second := k.ok("-a", "x", "-s", "nat").Stdout + k.ok("-a", "x", "-s", "rules").Stdout; second != first {
			t.Errorf("%q prints as %q, and that as %q", text, first, second)
		}
	})
}

func ExampleFilter_Run() {
	f := pf.New(pf.Options{})
	fmt.Print(f.Run(pf.Command{Args: []string{"-a", "com.apple/x", "-f", "-"}, Stdin: []byte("block in from 10/8 to any\n")}).Stderr)
	fmt.Print(f.Run(pf.Command{Args: []string{"-q", "-a", "com.apple/x", "-s", "rules"}}).Stdout)
	// Output:
	// pfctl: Use of -f option, could result in flushing of rules
	// present in the main ruleset added by the system at startup.
	// See /etc/pf.conf for further details.
	//
	// No ALTQ support in kernel
	// ALTQ related functions disabled
	// block drop in inet from 10.0.0.0/8 to any
}
