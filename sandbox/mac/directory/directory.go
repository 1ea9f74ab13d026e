// Package directory is the part of Open Directory that guards the one account
// of a simulated Mac: it checks passwords, counts the wrong ones and locks the
// account, for a while or until the next boot. Waiting out the delay of a
// wrong password, and refusing an empty one before it gets here, is left to
// the caller.
package directory

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Account checks the password of an account.
type Account struct {
	// Password is the right one.
	Password string
	// LockAfter is the number of wrong passwords after which the account is
	// locked until this Account ends with its boot; 0 means never.
	LockAfter int
	// Clock is the real one when nil.
	Clock clock.PassiveClock
	// Scale divides the durations of the steps; 0 means 1.
	Scale float64

	mu    sync.Mutex
	steps []wire.LockStep
	wrong int // since boot
	inRow int // since the last right password
	until time.Time
}

// Tune sets the steps of the lockout from now on.
func (a *Account) Tune(steps []wire.LockStep) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps = steps
}

// Locked reports whether the account is locked, for SSH with a key too.
func (a *Account) Locked() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lockedLocked()
}

func (a *Account) lockedLocked() bool {
	return a.LockAfter > 0 && a.wrong >= a.LockAfter || a.now().Before(a.until)
}

// Verify checks a password. While the account is locked even the right one is
// refused, and none counts towards the next step.
func (a *Account) Verify(password string) (right, locked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lockedLocked() {
		return false, true
	}
	if password == a.Password {
		a.inRow = 0
		return true, false
	}
	a.wrong++
	a.inRow++
	for _, s := range a.steps {
		if s.After == a.inRow {
			a.until = a.now().Add(a.scaled(s.For))
		}
	}
	return false, a.lockedLocked()
}

func (a *Account) now() time.Time {
	if a.Clock == nil {
		return time.Now()
	}
	return a.Clock.Now()
}

func (a *Account) scaled(d time.Duration) time.Duration {
	if a.Scale <= 0 {
		return d
	}
	return time.Duration(float64(d) / a.Scale)
}
