package session

import (
	"encoding/hex"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

func TestKcpassword(t *testing.T) {
	tests := []struct{ password, want string }{
		{"password", "0de82150a5d3af8ea3b91f7d"},
		{marker, "41fa3742bed9b9d4a3b91f7d"},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(Encode(tt.password)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.password, got, tt.want)
		}
	}
	for _, password := range []string{"", "x", "elevenchars", "twelve chars", "a password longer than the key of the cipher"} {
		data := Encode(password)
		if got := Decode(append(data, "noise"...)); got != password || len(data)%padding != 0 {
			t.Errorf("%q: decoded %q, %d bytes", password, got, len(data))
		}
	}
	if got := Decode(Encode("twelve chars")[:12]); got != "twelve chars" {
		t.Errorf("without a NUL: %q", got)
	}
}

// ready is a Mac that logs in by itself.
func ready() Mac {
	return Mac{AutoLoginUser: "m1", Kcpassword: Encode("secret"), Username: "m1", Password: "secret"}
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name          string
		change        func(*Mac)
		kicked        bool
		session, seal bool
	}{
		{"all in place", func(*Mac) {}, false, true, false},
		{"FileVault", func(m *Mac) { m.FileVault = true }, true, false, false},
		{"no preference", func(m *Mac) { m.AutoLoginUser = "" }, true, false, false},
		{"another user", func(m *Mac) { m.AutoLoginUser = "m2" }, true, false, false},
		{"no file", func(m *Mac) { m.Kcpassword = nil }, true, false, false},
		{"wrong password", func(m *Mac) { m.Password = "rotated" }, false, false, true},
		{"empty file", func(m *Mac) { m.Kcpassword = []byte{} }, false, false, true},
		{"sealed already", func(m *Mac) { m.Kcpassword = Sealed() }, false, false, false},
		{"headless boot", func(m *Mac) { m.IgnoredAtBoot = true }, false, false, false},
		{"headless, kicked", func(m *Mac) { m.IgnoredAtBoot = true }, true, true, false},
		{"never", func(m *Mac) { m.Never = true }, true, false, false},
	}
	for _, tt := range tests {
		m := ready()
		tt.change(&m)
		if got := decide(m, tt.kicked); got.session != tt.session || got.seal != tt.seal {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// desk is a loginwindow under a clock that stands still.
type desk struct {
	*Loginwindow
	clock       *testclock.FakeClock
	mac         Mac
	seals, ends int
}

func newDesk(m Mac) *desk {
	d := &desk{clock: testclock.NewFakeClock(time.Unix(0, 0)), mac: m}
	d.Loginwindow = New(Options{
		Look: func() Mac { return d.mac },
		Seal: func() error {
			d.seals++
			d.mac.Kcpassword = Sealed()
			return nil
		},
		End: func() { d.ends++ }, Log: func(string) {}, Clock: d.clock,
	})
	return d
}

func (d *desk) want(t *testing.T, when string, active bool, seals, ends int) {
	t.Helper()
	if d.Active() != active || d.seals != seals || d.ends != ends {
		t.Errorf("%s: active %t, seals %d, ends %d; want %t, %d, %d", when, d.Active(), d.seals, d.ends, active, seals, ends)
	}
}

func TestSessionComesAndGoes(t *testing.T) {
	d := newDesk(ready())
	d.Boot()
	d.want(t, "at boot", false, 0, 0)
	d.clock.Step(loginTime)
	d.want(t, "after the login", true, 0, 0)
	d.Kick(false)
	d.want(t, "kicked without -k", true, 0, 0)
	d.mac.Delay = 40 * time.Second
	d.Kick(true)
	d.want(t, "kicked", false, 0, 1)
	d.clock.Step(loginTime)
	d.want(t, "with a delay", false, 0, 1)
	d.clock.Step(40 * time.Second)
	d.want(t, "after the delay", true, 0, 1)
}

func TestWrongPasswordIsSealed(t *testing.T) {
	m := ready()
	m.Password = "rotated"
	d := newDesk(m)
	d.Boot()
	d.clock.Step(loginTime)
	d.want(t, "at once", false, 0, 0)
	d.clock.Step(sealTime)
	d.want(t, "later", false, 1, 0)
	d.Kick(true)
	d.clock.Step(loginTime)
	d.clock.Step(sealTime)
	d.want(t, "sealed once", false, 1, 1)
}

// A restart makes what an earlier start had planned void.
func TestKickReplacesAnEarlierStart(t *testing.T) {
	m := ready()
	m.Delay = 40 * time.Second
	d := newDesk(m)
	d.Boot()
	d.clock.Step(loginTime)
	d.mac.Delay = time.Hour
	d.Kick(true)
	d.clock.Step(time.Minute)
	d.want(t, "the old start", false, 0, 1)
	d.clock.Step(time.Hour)
	d.want(t, "the new start", true, 0, 1)
}

// A boot may start none, as on a Mac without a screen.
func TestWhereNoLoginwindowRunsNoneIsKilled(t *testing.T) {
	d := newDesk(ready())
	if d.Kill() {
		t.Error("one was killed before any ran")
	}
	d.Kick(false)
	d.clock.Step(loginTime)
	d.want(t, "started by a kick", true, 0, 1)
	if !d.Kill() {
		t.Error("none was found")
	}
	d.want(t, "killed", false, 0, 2)
	d.clock.Step(loginTime)
	d.want(t, "started again", true, 0, 2)
}
