package session

import "bytes"

// cipher is the fixed key that macOS scrambles /etc/kcpassword with, over and
// over. It hides nothing.
const cipher = "\x7d\x89\x52\x23\xd2\xbc\xdd\xea\xa3\xb9\x1f"

// marker is what macOS leaves in the place of a password it gave up on.
const marker = "<sealed>"

// padding is the multiple that the system pads the file to.
const padding = 12

// Encode is the content of /etc/kcpassword for a password.
func Encode(password string) []byte {
	n := (len(password)/padding + 1) * padding // at least one NUL ends it
	plain := make([]byte, n)
	copy(plain, password)
	return scramble(plain)
}

// Decode is the password in the content of /etc/kcpassword: what lies before
// the first NUL.
func Decode(data []byte) string {
	plain, _, _ := bytes.Cut(scramble(data), []byte{0})
	return string(plain)
}

// Sealed is the content that macOS leaves when the password did not log in.
func Sealed() []byte { return Encode(marker) }

func isSealed(data []byte) bool { return bytes.HasPrefix(data, Sealed()[:len(marker)]) }

func scramble(data []byte) []byte {
	out := make([]byte, len(data))
	for i, b := range data {
		out[i] = b ^ cipher[i%len(cipher)]
	}
	return out
}
