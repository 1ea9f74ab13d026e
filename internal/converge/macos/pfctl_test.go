package macos

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePFStatus(t *testing.T) {
	for text, want := range map[string]bool{
		"Status: Enabled for 0 days 00:01:02           Debug: Urgent\n\nState Table":             true,
		"No ALTQ support in kernel\nStatus: Disabled                              Debug: Urgent": false,
	} {
		if got, err := ParsePFStatus(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	// Not to know is not off, and not on.
	for _, text := range []string{"", "Status:", "Status: Perhaps", "pf is Enabled", strings.Repeat("x", 1<<16)} {
		if _, err := ParsePFStatus(text); err == nil || len(err.Error()) > 400 {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestParsePFTokens(t *testing.T) {
	text := "TOKENS:\n" +
		"PID      Process Name                 TOKEN                    TIMESTAMP\n" +
		"69       symptomsd                    17046578957373884437     2 days 00:00:04\n" +
		"4711     Internet Sharing             1704                     1 day 10:00:04\n" +
		"12       liar                         -3                       0 days 00:00:00\n" +
		"99999999999999999999 x 1 0 days\n"
	if d := cmp.Diff([]string{"17046578957373884437", "1704"}, ParsePFTokens(text)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := ParsePFTokens("No pf starter references held\n"); got != nil {
		t.Errorf("none: %v", got)
	}
}

func TestParsePFToken(t *testing.T) {
	if got, err := ParsePFToken("No ALTQ support in kernel\npf enabled\nToken : 17046578957373884437\n"); err != nil || got != "17046578957373884437" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", "Token : ", "Token : -X", "Token : 12 34", "Token : 99999999999999999999999"} {
		if got, err := ParsePFToken(text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestPFRefusals(t *testing.T) {
	const noise = "pfctl: Use of -f option, could result in flushing of rules\npresent in the main ruleset added by the system at startup.\n" +
		"See /etc/pf.conf for further details.\n\nNo ALTQ support in kernel\nALTQ related functions disabled\n"
	for name, c := range map[string]struct {
		text         string
		busy, syntax bool
		want         string
	}{
		"busy":   {noise + "stdin:11: cannot define table vm_sources: Resource busy\npfctl: Syntax error in config file: pf rules not loaded\n", true, false, "stdin:11"},
		"syntax": {noise + "stdin:3: syntax error\npfctl: Syntax error in config file: pf rules not loaded\n", false, true, "stdin:3"},
		"silent": {noise, false, false, "does not say why"},
		"rude":   {"\x1b[31mpfctl:\x00 DIOCXBEGIN: Device busy\n", true, false, "DIOCXBEGIN"},
		"long":   {strings.Repeat("y", 1<<16), false, false, "yyy"},
	} {
		f := pfRefusal("-f -", c.text)
		if f.Busy != c.busy || f.Syntax != c.syntax || !strings.Contains(f.Text, c.want) || len(f.Text) > maxErrorText || strings.ContainsAny(f.Text, "\x1b\x00\n") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestMissingAnchorsAndTablesAreNone(t *testing.T) {
	if !isAbsentTable(pfRefusal("-T kill", "pfctl: Table does not exist.\n")) || !isAbsentAnchor(pfRefusal("-s rules", "pfctl: Anchor does not exist.\n")) {
		t.Error("not seen")
	}
	if isAbsentTable(errors.New("Table does not exist")) || isAbsentAnchor(pfRefusal("-f", "permission denied")) {
		t.Error("seen where there is none")
	}
}

func TestPortsAsNumbers(t *testing.T) {
	got := numericPorts([]string{
		"pass in quick inet proto tcp from any to any port = ssh flags any keep state",
		"pass in quick inet proto udp from any port = 68 to any port = domain keep state",
		"pass in quick inet proto udp from any to any port = no-such-service keep state",
	})
	want := []string{
		"pass in quick inet proto tcp from any to any port = 22 flags any keep state",
		"pass in quick inet proto udp from any port = 68 to any port = 53 keep state",
		"pass in quick inet proto udp from any to any port = no-such-service keep state",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestParseAddresses(t *testing.T) {
	text := "lo0: flags=8049<UP> mtu 16384\n\tinet 127.0.0.1 netmask 0xff000000\n\tinet6 ::1 prefixlen 128\n\tinet6 fe80::1%lo0 prefixlen 64 scopeid 0x1\n" +
		"en0: flags=8863<UP> mtu 1500\n\tether aa:bb\n\tinet 192.0.2.4 netmask 0xffffff00 broadcast 192.0.2.255\n\tinet nonsense\n\tinet\n"
	var got []string
	for _, a := range parseAddresses(text) {
		got = append(got, a.String())
	}
	if d := cmp.Diff([]string{"127.0.0.1", "::1", "fe80::1%lo0", "192.0.2.4"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestF07_TheMainRulesetIsNeverLoaded: not even by mistake.
func TestF07_TheMainRulesetIsNeverLoaded(t *testing.T) {
	if err := (localFirewall{}).Load(context.Background(), "", "pass all\n"); !errors.Is(err, errMainRuleset) {
		t.Errorf("error %v", err)
	}
}

func TestLeaseSeconds(t *testing.T) {
	for _, c := range []struct {
		bootpd any
		want   int
	}{
		{map[string]any{"DHCPLeaseTimeSecs": uint64(600)}, 600},
		{map[string]any{"DHCPLeaseTimeSecs": "86400", "other": 3}, 86400},
		{map[string]any{}, 0},
		{nil, 0},
		{"DHCPLeaseTimeSecs = 600", 0},
		{map[string]any{"DHCPLeaseTimeSecs": int64(-1)}, 0},
		{map[string]any{"DHCPLeaseTimeSecs": uint64(1) << 63}, 0},
		{map[string]any{"DHCPLeaseTimeSecs": []any{uint64(600)}}, 0},
		{map[string]any{"DHCPLeaseTimeSecsToo": uint64(6)}, 0},
	} {
		if got := leaseSeconds(c.bootpd); got != c.want {
			t.Errorf("%v: %d, want %d", c.bootpd, got, c.want)
		}
	}
}

func FuzzPfctlOutput(f *testing.F) {
	f.Add("Status: Enabled\nToken : 12\n1 a 2 0 days 00:00:00\ninet 10.0.0.1\nport = ssh")
	f.Add("stdin:1: syntax error\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = ParsePFStatus(text)
		if token, err := ParsePFToken(text); err == nil && !isNumber(token) {
			t.Errorf("token %q", token)
		}
		for _, token := range ParsePFTokens(text) {
			if !isNumber(token) {
				t.Errorf("token %q", token)
			}
		}
		for _, line := range numericPorts(printedLines(text)) {
			if strings.ContainsAny(line, "\n\x00\x1b") {
				t.Errorf("line %q", line)
			}
		}
		if f := pfRefusal("-f -", text); f.Text == "" || len(f.Text) > maxErrorText {
			t.Errorf("text %q", f.Text)
		}
	})
}
