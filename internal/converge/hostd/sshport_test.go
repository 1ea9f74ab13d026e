package hostd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
)

func TestSSHWatch(t *testing.T) {
	for looks, want := range map[string]string{
		"++++":       "....",
		"--+--+":     "......",
		"---":        "..R",
		"---+---":    "..R...R",
		"---------":  "..R..R..R",
		"--+---":     ".....R",
		"-+-+-+-+-+": "..........",
	} {
		var w sshWatch
		got := ""
		for _, look := range looks {
			if w.next(look == '+') {
				got += "R"
			} else {
				got += "."
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", looks, got, want)
		}
	}
}

// Nothing but another listening socket empties its queue.
func TestTheSSHPortIsOpenedAnewWhenNobodyAnswers(t *testing.T) {
	f := newFixture(t)
	f.mac.SSHD.Silent = true
	f.minutes(2)
	if f.mac.SSHD.Reloads != 0 {
		t.Error("opened anew early")
	}
	f.minutes(1)
	if f.mac.SSHD.Reloads != 1 {
		t.Errorf("opened anew %d times", f.mac.SSHD.Reloads)
	}
	f.minutes(5)
	if f.mac.SSHD.Reloads != 1 || strings.Contains(strings.Join(f.answer(nil).Troubles, " "), aboutSSH) {
		t.Errorf("opened anew %d times, troubles %q", f.mac.SSHD.Reloads, f.answer(nil).Troubles)
	}
}

// A look that is over, or a hostd that is to stop, does not leave the port shut.
func TestTheSSHPortIsOpenedAlsoWhenTheLookIsOver(t *testing.T) {
	f := newFixture(t)
	f.mac.SSHD.Silent = true
	f.minutes(2)
	ctx, cancel := context.WithCancel(t.Context())
	f.mac.Fail = func(call string) error {
		if call == "bootout "+macostest.SSHLabel {
			cancel()
		}
		return nil
	}
	_ = f.watchSSH(ctx)
	if ctx.Err() == nil || f.mac.SSHD.Reloads != 1 {
		t.Errorf("opened anew %d times (%v)", f.mac.SSHD.Reloads, ctx.Err())
	}
}

// A hostd that died in between has shut the port itself: the next one opens it at its
// first look.
func TestAnSSHPortThatWasLeftShutIsOpened(t *testing.T) {
	f := newFixture(t)
	if err := f.o.Mac.Launchd.Bootout(t.Context(), macostest.SSHLabel); err != nil {
		t.Fatal(err)
	}
	if err := f.o.Mac.Clock.Sleep(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	f.minutes(1)
	if f.mac.SSHD.Reloads != 1 {
		t.Errorf("opened %d times", f.mac.SSHD.Reloads)
	}
	f.minutes(1)
	if got := strings.Join(f.answer(nil).Troubles, " "); strings.Contains(got, aboutSSH) {
		t.Errorf("troubles %q", got)
	}
}

// What a person turned off stays off, and what could not be loaded again is not booted out.
func TestRemoteLoginThatIsTurnedOffStaysOff(t *testing.T) {
	f := newFixture(t)
	f.mac.SSHD.Silent = true
	f.mac.DisabledJobs[macostest.SSHLabel] = true
	f.minutes(5)
	if f.mac.SSHD.Reloads != 0 || !f.mac.Loaded(macostest.SSHLabel) {
		t.Errorf("opened anew %d times, loaded %t", f.mac.SSHD.Reloads, f.mac.Loaded(macostest.SSHLabel))
	}
	f.mac.Reboot()
	f.minutes(2)
	if f.mac.SSHD.Reloads != 0 || f.mac.Loaded(macostest.SSHLabel) {
		t.Error("turned on against a person's will")
	}
	if got := strings.Join(f.answer(nil).Troubles, " "); !strings.Contains(got, "launchctl enable system/"+macostest.SSHLabel) {
		t.Errorf("troubles %q", got)
	}
}
