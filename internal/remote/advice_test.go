package remote

import (
	"strings"
	"testing"
)

// What ends an attempt ends up in a condition, before people who have to do
// something: each says on one line what is wrong and, of its own, what to do.
func TestEveryRefusalSaysWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, err := range []error{
		&GrantRefused{PasswordRejected}, &GrantRefused{AccountLocked}, &GrantRefused{RuleOverridden},
		&GrantRefused{NoPassword}, &GrantRefused{GrantFailed},
		&ReceiveRefused{Short}, &ReceiveRefused{Corrupt}, &ReceiveRefused{Full}, &ReceiveRefused{ReceiveFailed},
		&AuthRefused{User: "m1"}, &HostKeyMismatch{Want: Pin{"ssh-ed25519", "SHA256:a"}, Got: Pin{"ssh-ed25519", "SHA256:b"}},
		&HostKeyMismatch{Want: Pin{"ssh-ed25519", "SHA256:a"}},
	} {
		text := err.Error()
		what, todo, found := strings.Cut(text, "; ")
		if !found {
			what, todo, found = strings.Cut(text, ": put ")
		}
		if !found || len(what) < 20 || len(todo) < 15 || strings.Contains(text, "\n") || seen[text] {
			t.Errorf("%T says %q", err, text)
		}
		seen[text] = true
	}
}
