package macostest

import (
	"bytes"
	"context"
	"time"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// Where macOS keeps what it logs in with.
const (
	kcpasswordFile    = "/etc/kcpassword"
	loginwindowDomain = "/Library/Preferences/com.apple.loginwindow"
	autoLoginKey      = "autoLoginUser"
)

// Console is the graphical console of a Mac in memory.
type Console struct {
	// User and Password of the one account that can log in.
	User, Password string
	// LoginTakes is from the start of loginwindow to the session, 2 s when zero.
	LoginTakes time.Duration
	// SealTakes is from the start of loginwindow until it overwrites a password that
	// does not log in, 5 s when zero.
	SealTakes time.Duration
	// NeverSeals is a macOS that leaves a password that does not log in where it is.
	NeverSeals bool
	// Background: the user's session is switched out, and the console shows the login
	// window.
	Background bool
	// NoLogin keeps sessions from ever starting.
	NoLogin bool
	// NeedsRestart keeps a boot from logging in: a Mac without a display may not until
	// loginwindow is restarted.
	NeedsRestart bool
	// Guests that run. They live in the session and end with it.
	Guests int
	// Restarts counts the restarts of loginwindow.
	Restarts int
	// Refused counts the passwords that did not log in.
	Refused int

	session, seal time.Time
}

// LogOut ends the session and all in it.
func (m *Mac) LogOut() {
	m.Console.session, m.Console.seal, m.Console.Guests = time.Time{}, time.Time{}, 0
}

// loginwindow starts, and decides whether somebody is logged in.
func (m *Mac) loginwindow() {
	m.LogOut()
	user, _ := m.Default(loginwindowDomain, autoLoginKey)
	stored, found := m.files[kcpasswordFile]
	if user == "" || !found || m.System.FileVault || m.Console.NoLogin {
		return
	}
	if user == m.Console.User && unscramble(stored.data) == m.Console.Password {
		m.Console.session = m.now.Add(or(m.Console.LoginTakes, 2*time.Second))
		return
	}
	m.Console.Refused++
	if m.Console.NeverSeals {
		return
	}
	m.Console.seal = m.now.Add(or(m.Console.SealTakes, 5*time.Second))
}

// sealIfDue overwrites a stored password that did not log in.
func (m *Mac) sealIfDue() {
	if due := m.Console.seal; due.IsZero() || m.now.Before(due) {
		return
	}
	m.Console.seal = time.Time{}
	if f, found := m.files[kcpasswordFile]; found {
		f.data = scramble("<sealed>")
	}
}

func or(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// scrambleKey is the fixed one of macOS.
const scrambleKey = "\x7d\x89\x52\x23\xd2\xbc\xdd\xea\xa3\xb9\x1f"

func scramble(password string) []byte {
	data := make([]byte, (len(password)/12+1)*12)
	copy(data, password)
	for i := range data {
		data[i] ^= scrambleKey[i%len(scrambleKey)]
	}
	return data
}

// unscramble is the password in the file, or empty when none ends in it.
func unscramble(data []byte) string {
	plain := bytes.Clone(data)
	for i := range plain {
		plain[i] ^= scrambleKey[i%len(scrambleKey)]
	}
	password, _, found := bytes.Cut(plain, []byte{0})
	if !found {
		return ""
	}
	return string(password)
}

type session struct{ m *Mac }

func (s session) up() bool {
	return !s.m.Console.session.IsZero() && !s.m.now.Before(s.m.Console.session)
}

func (s session) Owner(context.Context) (string, error) {
	if s.up() && !s.m.Console.Background {
		return s.m.Console.User, nil
	}
	return "root", nil
}

func (s session) Aqua(_ context.Context, user string) (bool, error) {
	return s.up() && user == s.m.Console.User, nil
}

func (s session) RestartLoginwindow(context.Context) error {
	if err := s.m.change("restart loginwindow"); err != nil {
		return err
	}
	s.m.Console.Restarts++
	s.m.loginwindow()
	return nil
}

type guests struct{ m *Mac }

var _ macos.Guests = guests{}

func (g guests) Running(context.Context) (int, error) { return g.m.Console.Guests, nil }

// ScrambledPassword is a password as macOS stores it.
func ScrambledPassword(password string) []byte {
	const key = "\x7d\x89\x52\x23\xd2\xbc\xdd\xea\xa3\xb9\x1f"
	data := make([]byte, (len(password)/12+1)*12)
	copy(data, password)
	for i := range data {
		data[i] ^= key[i%len(key)]
	}
	return data
}
