package mac

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestSudoList holds sudo -l to what sudo 1.9.13 was seen to do.
func TestSudoList(t *testing.T) {
	const agent = "m1 ALL = (root) NOPASSWD: /usr/bin/true converge, /usr/bin/true leave"
	b := startBench(t, nil)
	tests := []struct {
		name, rule, command string
		rc                  int
		out                 string
	}{
		{"no rule of his own", "", "-n -l /usr/bin/true converge", 1, ""},
		{"no rule of his own, all", "", "-n -l", 1, ""},
		{"a command without a password", agent, "-n -l /usr/bin/true converge", 0, "/usr/bin/true converge\n"},
		{"one that takes a password, as an administrator", agent, "-n -l /usr/bin/true other", 0, "/usr/bin/true other\n"},
		{"running that", agent, "-n /usr/bin/true other", 1, ""},
		{"running the free one", agent, "-n /usr/bin/true leave", 0, ""},
		{"one that is not there", agent, "-n -l /usr/bin/none", 1, ""},
		{"all", agent, "-n -l | tail -n 2", 0, "    (ALL) ALL\n    (root) NOPASSWD: /usr/bin/true converge, /usr/bin/true leave\n"},
		{"a command taken away again", agent + "\\nm1 ALL = !/usr/bin/true leave", "-n -l /usr/bin/true leave", 1, ""},
	}
	for _, tt := range tests {
		put := "rm -f /etc/sudoers.d/*"
		if tt.rule != "" {
			put += "; printf '" + tt.rule + "\\n' >/etc/sudoers.d/agent; chmod 0440 /etc/sudoers.d/agent"
		}
		if _, err := b.AsRoot(t.Context(), put); err != nil {
			t.Fatal(err)
		}
		if got := b.sh("sudo "+tt.command, ""); got.rc != tt.rc || got.out != tt.out {
			t.Errorf("%s: %+v, want rc %d and %q", tt.name, got, tt.rc, tt.out)
		}
	}
}

func TestSudoTicketsHoldAtATerminal(t *testing.T) {
	b := startBench(t, nil)
	c, _, err := b.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer time.AfterFunc(patience, func() { _ = c.Close() }).Stop()
	at := func(script, typed string) (string, error) {
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.RequestPty("xterm", 24, 80, ssh.TerminalModes{}); err != nil {
			t.Fatal(err)
		}
		s.Stdin = strings.NewReader(typed)
		out, err := s.CombinedOutput(script)
		return string(out), err
	}
	out, err := at("sudo id -u; sudo -n id -u; sudo -k; sudo -n id -u", testPassword+"\n")
	if err == nil || strings.Count(out, "0\r\n") != 2 || !strings.Contains(out, "a password is required") || strings.Contains(out, testPassword) && !strings.HasPrefix(out, testPassword) {
		t.Errorf("at a terminal: %q, %v", out, err)
	}
	if got := b.PasswordVerifications(); got != 1 {
		t.Errorf("%d verifications, want 1", got)
	}
	if out, err := at("sudo id -u && sudo -n id -u", testPassword+"\n"); err != nil {
		t.Errorf("at another terminal: %q, %v", out, err)
	}
	if got := b.sh(`read -r p; printf '%s\n' "$p" | sudo -S true && sudo -n true`, testPassword+"\n"); got.rc == 0 {
		t.Errorf("a ticket without a terminal: %+v", got)
	}
}
