// Package session models loginwindow: whether a Mac has a console session, how
// one comes up by auto-login, what a wrong password does to /etc/kcpassword,
// and what a restart of loginwindow takes away. Where the file and the
// preference are kept, and which processes belong to a session, is left to the
// caller.
package session

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// loginTime passes between the start of loginwindow and a session.
	loginTime = 2 * time.Second
	// sealTime passes between a login that failed and the sealing of the file
	// (macOS 26: within ten seconds).
	sealTime = 5 * time.Second
)

// Mac is the machine around loginwindow, as it is at the time of a decision.
type Mac struct {
	// AutoLoginUser is the preference; empty when it is not set.
	AutoLoginUser string
	// Kcpassword is the content of /etc/kcpassword; nil when it is missing or
	// not root's alone.
	Kcpassword []byte
	// Username and Password are the account's.
	Username, Password string
	FileVault          bool
	// Never keeps every session away. IgnoredAtBoot makes auto-login wait for
	// a restart of loginwindow. Delay comes on top of the usual time.
	Never, IgnoredAtBoot bool
	Delay                time.Duration
}

// verdict is what loginwindow makes of a Mac.
type verdict struct {
	session bool
	seal    bool
	why     string
}

// decide is loginwindow's decision; kicked says that it was restarted rather
// than started by the boot.
func decide(m Mac, kicked bool) verdict {
	switch {
	case m.FileVault:
		return verdict{why: "FileVault is on"}
	case m.Never:
		return verdict{why: "no session comes up on this Mac"}
	case m.AutoLoginUser == "":
		return verdict{why: "autoLoginUser is not set"}
	case m.AutoLoginUser != m.Username:
		return verdict{why: "autoLoginUser is nobody here"}
	case m.Kcpassword == nil:
		return verdict{why: "no kcpassword of root's alone"}
	case isSealed(m.Kcpassword):
		return verdict{why: "the kcpassword is sealed"}
	case Decode(m.Kcpassword) != m.Password:
		return verdict{seal: true, why: "the kcpassword does not log in"}
	case m.IgnoredAtBoot && !kicked:
		return verdict{why: "the boot ignored auto-login"}
	}
	return verdict{session: true, why: "auto-login"}
}

// Options configure a Loginwindow. All functions are needed; they are called
// one at a time.
type Options struct {
	// Look reads the Mac.
	Look func() Mac
	// Seal replaces /etc/kcpassword by the sealed content.
	Seal func() error
	// End kills what belongs to the session.
	End func()
	// Log takes one line for whoever debugs.
	Log func(string)
	// Clock drives every delay; the real one when nil.
	Clock clock.WithDelayedExecution
	// Scale divides every delay; 0 means 1.
	Scale float64
}

// Loginwindow is that of one boot.
type Loginwindow struct {
	o Options

	mu     sync.Mutex
	active bool
	starts int // so that what an older start has planned does not happen
}

// New returns a loginwindow that has not started.
func New(o Options) *Loginwindow {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Scale <= 0 {
		o.Scale = 1
	}
	return &Loginwindow{o: o}
}

// Active reports whether the user has a console session.
func (l *Loginwindow) Active() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active
}

// Running reports whether it was started in this boot: launchd starts it again when it ends.
func (l *Loginwindow) Running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starts > 0
}

// Boot is the start of loginwindow by the boot.
func (l *Loginwindow) Boot() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.startLocked(false)
}

// Kick is launchctl kickstart of loginwindow: with restart it starts anew, without
// only where none runs.
func (l *Loginwindow) Kick(restart bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if restart || l.starts == 0 {
		l.restartLocked()
	}
}

// Kill ends loginwindow, which launchd starts again, and reports whether one ran.
func (l *Loginwindow) Kill() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starts == 0 {
		return false
	}
	l.restartLocked()
	return true
}

// restartLocked ends the present session with everything in it, and has auto-login
// decided anew.
func (l *Loginwindow) restartLocked() {
	if l.active {
		l.active = false
		l.o.Log("loginwindow: the session ends")
	}
	l.o.End()
	l.startLocked(true)
}

// startLocked plans all that this start of loginwindow may do.
func (l *Loginwindow) startLocked(kicked bool) {
	l.starts++
	start := l.starts
	l.after(loginTime+l.o.Look().Delay, func() { l.login(start, kicked) })
	l.after(loginTime+sealTime, func() { l.seal(start) })
}

func (l *Loginwindow) after(d time.Duration, do func()) {
	l.o.Clock.AfterFunc(time.Duration(float64(d)/l.o.Scale), do)
}

func (l *Loginwindow) login(start int, kicked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starts != start {
		return
	}
	v := decide(l.o.Look(), kicked)
	l.active = v.session
	l.o.Log(fmt.Sprintf("loginwindow: session %t: %s", v.session, v.why))
}

// seal looks again, since the file may have been replaced meanwhile.
func (l *Loginwindow) seal(start int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starts != start || l.active || !decide(l.o.Look(), true).seal {
		return
	}
	if err := l.o.Seal(); err != nil {
		l.o.Log("loginwindow: " + err.Error())
	}
}
