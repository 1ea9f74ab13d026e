package sudoers

import "testing"

func TestDecide(t *testing.T) {
	base := "root ALL=(ALL) ALL\n%admin\tALL = (ALL) ALL\n"
	tests := []struct {
		name string
		text string
		req  Request
		want Decision
	}{
		{"admin needs a password", base, Request{Path: "/usr/bin/true"}, Decision{true, true}},
		{"nopasswd", base + "m1 ALL=(ALL) NOPASSWD: ALL\n", Request{Path: "/usr/bin/true"}, Decision{true, false}},
		{"later rule wins", base + "m1 ALL=(ALL) NOPASSWD: ALL\nm1 ALL=(ALL) ALL\n", Request{Path: "/x"}, Decision{true, true}},
		{"tag holds for the rest of the list", "m1 ALL = NOPASSWD: /a, /b\n", Request{Path: "/b"}, Decision{true, false}},
		{"tag turned off", "m1 ALL = NOPASSWD: /a, PASSWD: /b\n", Request{Path: "/b"}, Decision{true, true}},
		{"other command", "m1 ALL = NOPASSWD: /a\n", Request{Path: "/b"}, Decision{}},
		{"negated", "m1 ALL = NOPASSWD: ALL, !/b\n", Request{Path: "/b"}, Decision{false, false}},
		{"other user", "bob ALL = NOPASSWD: ALL\n", Request{Path: "/b"}, Decision{}},
		{"runas defaults to root", "m1 ALL = NOPASSWD: ALL\n", Request{Path: "/b", RunAs: "bob"}, Decision{}},
		{"arguments", "m1 ALL = NOPASSWD: /a converge\n", Request{Path: "/a", Args: []string{"converge"}}, Decision{true, false}},
		{"other arguments", "m1 ALL = NOPASSWD: /a converge\n", Request{Path: "/a", Args: []string{"leave"}}, Decision{}},
		{"star in arguments", "m1 ALL = NOPASSWD: /a run *\n", Request{Path: "/a", Args: []string{"run", "/x/y", "z"}}, Decision{true, false}},
		{"no arguments allowed", `m1 ALL = NOPASSWD: /a ""` + "\n", Request{Path: "/a", Args: []string{"x"}}, Decision{}},
		{"star in a path stays in the folder", "m1 ALL = NOPASSWD: /d/*/a\n", Request{Path: "/d/x/y/a"}, Decision{}},
		{"alias", "Cmnd_Alias VERBS = /a x, \\\n  /a y\nm1 ALL = NOPASSWD: VERBS\n", Request{Path: "/a", Args: []string{"y"}}, Decision{true, false}},
		{"comment", "# m1 ALL = NOPASSWD: ALL\n", Request{Path: "/a"}, Decision{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p Policy
			if errs := p.Add("f", []byte(tt.text)); len(errs) > 0 {
				t.Fatalf("Add: %v", errs[0])
			}
			tt.req.User, tt.req.Groups = "m1", []string{"staff", "admin"}
			if tt.req.RunAs == "" {
				tt.req.RunAs = "root"
			}
			if got := p.Decide(tt.req); got != tt.want {
				t.Errorf("Decide = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestAddRefusesAndKeepsTheRest(t *testing.T) {
	for _, bad := range []string{
		"secret-password", "m1 ALL", "m1 ALL = NOPASSWD ALL", "m1 ALL = (root NOPASSWD: ALL",
		"m1 ALL = relative/path", "Cmnd_Alias lower = /a", "m1 host = ALL", "m1 ALL = ",
	} {
		t.Run(bad, func(t *testing.T) {
			var p Policy
			errs := p.Add("drop", []byte("\n"+bad+"\nm1 ALL = NOPASSWD: ALL\n"))
			if len(errs) != 1 || errs[0].Line != 2 || errs[0].File != "drop" {
				t.Fatalf("errors = %v, want one at drop:2", errs)
			}
			if !p.Decide(Request{User: "m1", RunAs: "root", Path: "/a"}).Allowed {
				t.Error("the good line after the bad one was lost")
			}
		})
	}
}

func TestIgnored(t *testing.T) {
	for name, want := range map[string]bool{"m1-nopasswd": false, "m1.conf": true, "m1~": true, ".tmp": true} {
		if got := Ignored(name); got != want {
			t.Errorf("Ignored(%q) = %v, want %v", name, got, want)
		}
	}
}
