package macos

import (
	"errors"
	"strings"
	"testing"
)

// Since macOS 14.4 launchd refuses kickstart -k for loginwindow; older ones take it.
func TestLoginwindowIsKilledWhereKickstartIsRefused(t *testing.T) {
	var (
		critical = &LaunchdError{Verb: "kickstart", Code: 1, Text: `Could not kickstart service "com.apple.loginwindow": 1: Operation not permitted`}
		none     = &commandError{Command: "killall", Code: 1, Text: "No matching", Complaint: "No matching processes belonging to you were found\n"}
		spared   = &commandError{Command: "killall", Code: 1, Text: "spared", Complaint: "kill: 321: Operation not permitted\n"}
		absent   = &LaunchdError{Verb: "kickstart", Code: LaunchdNoService, Text: "no service"}
		hung     = errors.New("launchctl: context deadline exceeded")
	)
	for name, c := range map[string]struct {
		restart, killall, start error
		calls                   string
		// says are in the error, and an empty one means that there is none.
		says []string
	}{
		"permitted":              {calls: "kickstart -k"},
		"refused, and it runs":   {restart: critical, calls: "kickstart -k, killall"},
		"refused, and none runs": {restart: critical, killall: none, calls: "kickstart -k, killall, kickstart"},
		"refused, and it stays":  {restart: critical, killall: spared, calls: "kickstart -k, killall", says: []string{"exit 1: Could not kickstart", "spared"}},
		"nothing helps": {
			restart: critical, killall: none, start: absent, calls: "kickstart -k, killall, kickstart",
			says: []string{"exit 1: Could not kickstart", "No matching", "no service"},
		},
		"no answer": {restart: hung, calls: "kickstart -k", says: []string{"deadline"}},
	} {
		var calls []string
		err := restartLoginwindow(func(kill bool) error {
			if kill {
				calls = append(calls, "kickstart -k")
				return c.restart
			}
			calls = append(calls, "kickstart")
			return c.start
		}, func() error {
			calls = append(calls, "killall")
			return c.killall
		})
		if got := strings.Join(calls, ", "); got != c.calls {
			t.Errorf("%s: %s, want %s", name, got, c.calls)
		}
		if (err == nil) != (len(c.says) == 0) {
			t.Errorf("%s: %v", name, err)
		}
		for _, text := range c.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v does not say %q", name, err, text)
			}
		}
	}
}
