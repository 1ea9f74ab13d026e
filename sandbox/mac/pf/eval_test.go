package pf_test

import (
	"net/netip"
	"testing"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// in is a packet of a guest coming in on the bridge.
func in(src, dst, proto string, port int) pf.Packet {
	return pf.Packet{Direction: pf.In, Interface: "bridge100", Src: addr(src), Dst: addr(dst), Proto: proto, Port: port}
}

func TestLastRuleDecidesAndQuickEnds(t *testing.T) {
	p := in("192.168.64.2", "10.0.0.1", "tcp", 443)
	tests := map[string]struct {
		rules string
		pass  bool
	}{
		"nothing":                {"", true},
		"last wins":              {"block in all\npass in all\n", true},
		"quick ends":             {"block in quick all\npass in all\n", false},
		"other direction":        {"block out quick all\n", true},
		"other interface":        {"block in quick on en0 all\n", true},
		"not from an interface":  {"block in quick on ! en0 all\n", false},
		"other family":           {"block in quick inet6 all\n", true},
		"other protocol":         {"block in quick proto udp all\n", true},
		"other port":             {"block in quick proto tcp from any to any port 22\n", true},
		"ports in a range":       {"block in quick proto tcp from any to any port 400:500\n", false},
		"ports out of a range":   {"block in quick proto tcp from any to any port 400 <> 500\n", true},
		"ports between":          {"block in quick proto tcp from any to any port 443 >< 500\n", true},
		"not from":               {"block in quick from ! 192.168.64.0/24 to any\n", true},
		"not to":                 {"block in quick from any to ! 192.168.64.0/24\n", false},
		"table with exception":   {"table <t> { 10.0.0.0/8 !10.0.0.0/24 }\nblock in quick from any to <t>\n", true},
		"table":                  {"table <t> { 10.0.0.0/8 !10.9.0.0/24 }\nblock in quick from any to <t>\n", false},
		"a dynamic self is none": {"block in quick from ! (self) to any\npass in all\n", false},
		"a dynamic self has no addresses": {
			"block in quick from any to (self)\n", true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := boot(t, nil)
			k.load("com.apple/x", tt.rules)
			if !k.Eval(p).Pass {
				t.Error("a disabled filter blocks")
			}
			k.enable()
			if v := k.Eval(p); v.Pass != tt.pass {
				t.Errorf("pass %v by %q", v.Pass, v.Rule)
			}
		})
	}
}

func TestSelfIsExpandedWhenLoaded(t *testing.T) {
	k := boot(t, nil)
	k.enable()
	k.load("com.apple/x", "block in quick from any to self\n")
	for dst, pass := range map[string]bool{"203.0.113.7": false, "2001:db8::7": false, "203.0.113.8": true} {
		src := "192.168.64.2"
		if addr(dst).Is6() {
			src = "fd00::2"
		}
		if got := k.Eval(in(src, dst, "tcp", 22)).Pass; got != pass {
			t.Errorf("to %s: pass %v", dst, got)
		}
	}
}

func TestAnchorsCountOnlyWhereCalled(t *testing.T) {
	k := boot(t, nil)
	k.enable()
	p := in("192.168.64.2", "10.0.0.1", "tcp", 443)
	k.load("orphan", "block in quick all\n")
	k.load("com.apple", "block in quick all\n")
	if !k.Eval(p).Pass {
		t.Fatal("an anchor that nobody calls blocks")
	}
	k.ok("-a", "com.apple", "-F", "rules")
	k.load("com.apple/500.later", "pass in quick all\n")
	k.load("com.apple/000.first", "block in quick all\n")
	v := k.Eval(p)
	if v.Pass || v.Anchor != "com.apple/000.first" {
		t.Errorf("not in the order of names: %+v", v)
	}
	// Without the calls, what is loaded is never looked at.
	if r := k.pfctl("pass out all\n", "-f", "-"); r.RC != 0 {
		t.Fatalf("%+v", r)
	}
	if v := k.Eval(p); !v.Pass {
		t.Errorf("a populated anchor without a call blocks: %+v", v)
	}
}

func TestF06_TranslationComesBeforeFilteringOnTheWayOut(t *testing.T) {
	k := boot(t, nil)
	k.enable()
	if r := k.pfctl("nat on en0 inet from 192.168.64.0/24 to any -> (en0:0)\nanchor \"com.apple/*\"\n", "-f", "-"); r.RC != 0 {
		t.Fatalf("%+v", r)
	}
	k.load("com.apple/x", "block out quick inet from 192.168.64.0/24 to 10.0.0.0/8\n")
	out := pf.Packet{Direction: pf.Out, Interface: "en0", Src: addr("192.168.64.2"), Dst: addr("10.0.0.1"), Proto: "tcp", Port: 443}
	v := k.Eval(out)
	if !v.Pass || v.Src != addr("203.0.113.7") {
		t.Errorf("a rule saw the guest's own address on the way out: %+v", v)
	}
	k.load("com.apple/x", "block in quick inet from 192.168.64.0/24 to 10.0.0.0/8\n")
	if v := k.Eval(in("192.168.64.2", "10.0.0.1", "tcp", 443)); v.Pass {
		t.Error("a rule on the way in does not block")
	}
}

func TestStatesOutliveRules(t *testing.T) {
	k := boot(t, nil)
	k.enable()
	k.load("com.apple/x", "pass in quick all\n")
	p := in("192.168.64.2", "10.0.0.1", "tcp", 443)
	k.Connect(p)
	k.load("com.apple/x", "block in quick all\n")
	if v := k.Eval(p); !v.Pass || !v.State {
		t.Errorf("the old conversation is cut: %+v", v)
	}
	if k.Eval(in("192.168.64.2", "10.0.0.1", "tcp", 80)).Pass {
		t.Error("a new conversation passes")
	}
	k.ok("-k", "192.168.65.0/24")
	if !k.Eval(p).Pass {
		t.Error("states of another network were killed")
	}
	k.ok("-k", "192.168.64.0/24")
	if k.Eval(p).Pass {
		t.Error("a killed conversation goes on")
	}
}
