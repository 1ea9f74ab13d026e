package directory

import (
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// steps are those of a stricter password policy: a minute, then five.
func steps() []wire.LockStep {
	return []wire.LockStep{{After: 3, For: time.Minute}, {After: 4, For: 5 * time.Minute}}
}

type attempt struct {
	wait          time.Duration
	password      string
	right, locked bool
}

func TestF03_WrongPasswordsLockTheAccountForAWhile(t *testing.T) {
	tests := []struct {
		name     string
		account  *Account
		attempts []attempt
	}{
		{"two wrong ones do nothing", &Account{}, []attempt{{0, "a", false, false}, {0, "b", false, false}, {0, "right", true, false}}},
		{"the third locks for a minute", &Account{}, []attempt{
			{0, "a", false, false},
			{0, "b", false, false},
			{0, "c", false, true},
			{59 * time.Second, "right", false, true},
			{time.Second, "right", true, false},
		}},
		{"the fourth locks for five", &Account{}, []attempt{
			{0, "a", false, false},
			{0, "b", false, false},
			{0, "c", false, true},
			{time.Minute, "d", false, true},
			{4 * time.Minute, "right", false, true},
			{time.Minute, "right", true, false},
		}},
		{"those refused while locked do not count", &Account{}, []attempt{
			{0, "a", false, false}, {0, "b", false, false}, {0, "c", false, true}, {0, "d", false, true}, {time.Minute, "right", true, false},
		}},
		{"a right one starts the count again", &Account{}, []attempt{
			{0, "a", false, false}, {0, "b", false, false}, {0, "right", true, false}, {0, "c", false, false},
		}},
		{"the scale divides", &Account{Scale: 60}, []attempt{
			{0, "a", false, false}, {0, "b", false, false}, {0, "c", false, true}, {time.Second, "right", true, false},
		}},
		{"until the next boot", &Account{LockAfter: 2}, []attempt{
			{0, "a", false, false}, {0, "right", true, false}, {0, "b", false, true}, {time.Hour, "right", false, true},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clock := testclock.NewFakeClock(time.Unix(0, 0))
			a := tt.account
			a.Password, a.Clock = "right", clock
			a.Tune(steps())
			for i, try := range tt.attempts {
				clock.Step(try.wait)
				right, locked := a.Verify(try.password)
				if right != try.right || locked != try.locked || a.Locked() != try.locked {
					t.Fatalf("attempt %d: right %t, locked %t (%t after); want %t and %t", i+1, right, locked, a.Locked(), try.right, try.locked)
				}
			}
		})
	}
}
