package pmset

import (
	"strings"
	"testing"
)

func TestPmset(t *testing.T) {
	var saved map[string]int
	refuses := false
	o := Options{
		Save: func(m map[string]int) error {
			saved = m
			return nil
		},
		Refuses: func() bool { return refuses },
	}
	p := New(o)
	tests := []struct {
		name    string
		uid     int
		line    string
		refuses bool
		rc      int
		sleep   string
	}{
		{"a delivered Mac", 501, "-g custom", false, 0, "1"},
		{"not root", 501, "-a sleep 0", false, 77, "1"},
		{"a word for a number", 0, "-a sleep never", false, 64, "1"},
		{"an unknown setting", 0, "-a slep 0", false, 64, "1"},
		{"one of two is wrong", 0, "-a sleep 0 slep 0", false, 64, "1"},
		{"no value", 0, "-a sleep", false, 64, "1"},
		{"refused with exit code 0", 0, "-a sleep 0", true, 0, "1"},
		{"set", 0, "-a sleep 0 displaysleep 0 autorestart 1", false, 0, "0"},
	}
	for _, tt := range tests {
		refuses = tt.refuses
		got := p.Pmset(tt.uid, strings.Fields(tt.line))
		if got.RC != tt.rc {
			t.Errorf("%s: %+v, want rc %d", tt.name, got, tt.rc)
		}
		if got := setting(p, "sleep"); got != tt.sleep {
			t.Errorf("%s: sleep is %s, want %s", tt.name, got, tt.sleep)
		}
	}
	o.Changed = saved
	if p = New(o); setting(p, "sleep") != "0" || setting(p, "womp") != "1" || setting(p, "autorestart") != "1" {
		t.Errorf("after a boot: %s", p.list())
	}
}

func setting(p *Power, name string) string {
	for line := range strings.SplitSeq(p.Pmset(501, []string{"-g", "custom"}).Stdout, "\n") {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			return f[1]
		}
	}
	return ""
}
