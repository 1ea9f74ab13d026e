package session

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	// PasswordFile is where macOS has the password for automatic login.
	PasswordFile = "/etc/kcpassword"
	// kcpasswordKey is what macOS has scrambled the file with since 10.2. It hides
	// nothing: the file is as secret as its mode.
	kcpasswordKey = "\x7d\x89\x52\x23\xd2\xbc\xdd\xea\xa3\xb9\x1f"
	// kcpasswordBlock is what the plain text is padded to a multiple of.
	kcpasswordBlock = 12
	// sealedPrefix is how the mark begins that macOS 26 puts in the place of a
	// password that did not log in.
	sealedPrefix = "\x41\xfa\x37\x42\xbe\xd9\xb9\xd4"
)

// errNoPassword never says what was given instead of a password.
var errNoPassword = errors.New("what was given is no password: it is empty, the mark of a sealed one, or holds a NUL or a line break")

// scramblePassword returns the contents of kcpassword. What reads it stops at the
// first NUL, of which there is always one.
func scramblePassword(password string) ([]byte, error) {
	if password == "" || password == document.Sealed || bytes.ContainsAny([]byte(password), "\x00\r\n") {
		return nil, errNoPassword
	}
	length := (len(password)/kcpasswordBlock + 1) * kcpasswordBlock
	data := make([]byte, length)
	copy(data, password)
	for i := range data {
		data[i] ^= kcpasswordKey[i%len(kcpasswordKey)]
	}
	return data, nil
}

// unscramblePassword returns what is in a kcpassword file: what comes before the
// first NUL.
func unscramblePassword(data []byte) string {
	plain := bytes.Clone(data)
	for i := range plain {
		plain[i] ^= kcpasswordKey[i%len(kcpasswordKey)]
	}
	plain, _, _ = bytes.Cut(plain, []byte{0})
	return string(plain)
}

// StoredPassword is what a kcpassword file is good for.
type StoredPassword string

const (
	passwordUsable  StoredPassword = "usable"
	passwordMissing StoredPassword = "missing"
	passwordSealed  StoredPassword = "sealed"
	// passwordDamaged: no password ends in it.
	passwordDamaged StoredPassword = "damaged"
)

// Stored judges the password for automatic login that is on the Mac.
func Stored(files macos.Files) (StoredPassword, error) {
	data, err := step.Read(files, PasswordFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading %s: %w", PasswordFile, err)
	}
	return JudgePassword(data), nil
}

// Usable reports whether macOS could log somebody in with it.
func (s StoredPassword) Usable() bool { return s == passwordUsable }

// JudgePassword says what the contents of a kcpassword file are good for, without
// unscrambling them.
func JudgePassword(data []byte) StoredPassword {
	if len(data) == 0 {
		return passwordMissing
	}
	if bytes.HasPrefix(data, []byte(sealedPrefix)) {
		return passwordSealed
	}
	for i, b := range data {
		if b == kcpasswordKey[i%len(kcpasswordKey)] {
			if i == 0 {
				return passwordDamaged
			}
			return passwordUsable
		}
	}
	return passwordDamaged
}
