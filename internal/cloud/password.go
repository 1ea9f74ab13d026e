package cloud

import (
	"strings"
	"unicode"
)

// Sealed is what the vendor shows in place of a password in answers to writes,
// and at times in readings.
const Sealed = "<sealed>"

// longestPassword is more than any that the vendor makes (12 letters and digits),
// and no more than what macOS takes from a terminal.
const longestPassword = 128

// Password is a usable password, or none. It cannot hold an empty or a sealed
// one, and it never prints itself.
type Password struct{ value string }

// NewPassword returns the password without blanks around it, or false when the
// text is empty, sealed, or cannot be a password that the vendor made, and so
// says nothing about the password. A wrong one is worse than none: a few of them
// lock the account.
func NewPassword(text string) (Password, bool) {
	text = strings.TrimSpace(text)
	placeholder := strings.HasPrefix(text, "<") && strings.HasSuffix(text, ">")
	if text == "" || placeholder || len(text) > longestPassword || strings.Contains(strings.ToLower(text), Sealed) {
		return Password{}, false
	}
	for _, r := range text {
		if r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return Password{}, false
		}
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
