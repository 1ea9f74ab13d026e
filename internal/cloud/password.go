package cloud

import "strings"

// Sealed is what the vendor shows in place of a password in answers to writes.
const Sealed = "<sealed>"

// Password is a usable password, or none. It cannot hold an empty or a sealed
// one, and it never prints itself.
type Password struct{ value string }

// NewPassword returns the password, or false when the text is empty or sealed
// and so says nothing about the password.
func NewPassword(text string) (Password, bool) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || strings.Contains(trimmed, Sealed) {
		return Password{}, false
	}
	return Password{value: text}, true
}

// Present reports whether there is a password.
func (p Password) Present() bool { return p.value != "" }

// Reveal returns the clear text. Give it to sudo's standard input or to a
// Secret, to nothing else.
func (p Password) Reveal() string { return p.value }

// String hides the password.
func (p Password) String() string { return "[redacted]" }

// GoString hides the password.
func (p Password) GoString() string { return "[redacted]" }

// MarshalText hides the password.
func (p Password) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }
