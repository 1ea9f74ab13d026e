package converge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/atomicfile"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/proofreboot"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// errDied is thrown where the program of a run ends in the middle of it.
var errDied = errors.New("the program died")

// counters are the effects that a bootstrap may have once.
type counters map[string]int

func (c counters) note(call string) {
	verb, rest, _ := strings.Cut(call, " ")
	switch {
	case verb == "bootstrap", call == "reboot", strings.HasPrefix(call, "restart "), strings.HasPrefix(call, "add volume"):
		c[call]++
	case verb == "write" && slices.Contains([]string{"/etc/kcpassword", document.DiskMarkerFile}, rest):
		c[call]++
	}
}

// untilConverged runs as a manager would: again after each failure, and after
// each reboot that the Mac asked for.
func (f *fixture) untilConverged() {
	f.t.Helper()
	var r document.Report
	for range 8 {
		r = f.run(f.options())
		if r.Rebooting {
			f.mac.Reboot()
			continue
		}
		if r.Exit == document.ExitUnchanged {
			return
		}
		if _, failed := r.FailedStep(); failed {
			f.elapse(15 * time.Minute)
		}
	}
	s, _ := r.FailedStep()
	f.t.Errorf("never converged: %v; %s: %s", outcomes(r), s.Name, s.Detail)
}

func (f *fixture) elapse(d time.Duration) {
	f.t.Helper()
	if err := f.mac.Interfaces().Clock.Sleep(context.Background(), d); err != nil {
		f.t.Fatal(err)
	}
}

// runAndDie runs until the effect of that number, and ends before it happens.
func (f *fixture) runAndDie(at int, count counters) {
	f.dieAt(at, count, func() { f.run(f.options()) })
}

// dieAt does the same with any run.
func (f *fixture) dieAt(at int, count counters, run func()) {
	n := 0
	f.mac.Fail = func(call string) error {
		if n == at {
			panic(errDied)
		}
		n++
		count.note(call)
		return nil
	}
	defer func() {
		if p := recover(); p != nil && p != errDied { //nolint:errorlint // a value thrown by this very function
			panic(p)
		}
		f.mac.Fail = func(call string) error { count.note(call); return nil }
	}()
	run()
}

// ephemeral files tell when and in which boot something was done; the last is what
// a trial of the volume leaves when it is cut off.
var ephemeral = []string{
	lockFile, document.DiskMarkerFile, document.ReportFile, proofreboot.File, document.GuestVolume + "/.macfleet-owner",
}

func (f *fixture) end() map[string]string {
	all := f.mac.Snapshot()
	for _, name := range ephemeral {
		delete(all, name)
	}
	for name := range all {
		if strings.HasPrefix(name, "/var/run") || path.Dir(name) == document.StateDir && !strings.Contains(name, "prove") && !atomicfile.IsTemp(name) {
			delete(all, name)
		}
	}
	// What lives is not what the files say.
	for _, j := range ourJobs() {
		all[j.label+" as launchd knows it"] = f.mac.Definition(j.label)
	}
	all["the token that the agent read"] = f.joinedWith
	all["old connections"] = fmt.Sprint(f.mac.PF.Open)
	return all
}

// TestCutsAnywhereEndAsIfThereWereNone ends a run before each of its effects, and
// so after each, by the death of its program or by a power cut. What was to happen
// once has happened once, and the Mac ends as after an undisturbed run.
func TestCutsAnywhereEndAsIfThereWereNone(t *testing.T) {
	fresh := func(t *testing.T) *fixture {
		f := newFixture(t)
		f.sudoers("m1-nopasswd", broadRule)
		f.keyed('a')
		f.desired.Mac.ProofReboot = true
		f.desired.Mac.GuestQuotaBytes = 100e9
		return f
	}
	for name, prepare := range map[string]func(*testing.T) *fixture{
		"fresh": fresh,
		"roll": func(t *testing.T) *fixture {
			f := fresh(t)
			f.untilConverged()
			f.stage("second build")
			f.desired.Node.MaxVMs = 1
			return f
		},
		// Each of these alone: others that come with it hide what it forgets.
		"plist": func(t *testing.T) *fixture {
			f := fresh(t)
			f.untilConverged()
			for _, j := range ourJobs() {
				text, _ := f.mac.Get(j.plist)
				f.mac.Put(j.plist, bytes.Replace(text, []byte("Interactive"), []byte("Standard"), 1), step.RootAttr(0o644))
			}
			f.mac.Reboot() // launchd reads them
			return f
		},
		"firewall": func(t *testing.T) *fixture {
			f := fresh(t)
			f.untilConverged()
			f.mac.PF.Open = []netip.Addr{netip.MustParseAddr("192.168.64.7"), netip.MustParseAddr("fd00::7")}
			f.desired.Mac.Network.DenyPrivate = true
			return f
		},
		"token": func(t *testing.T) *fixture {
			f := fresh(t)
			f.untilConverged()
			f.desired.Join.Token = "ghijkl.0123456789abcdef"
			f.desired.Join.Permit.ID = "p2"
			return f
		},
	} {
		undisturbed, once := prepare(t), counters{}
		undisturbed.mac.Fail = func(call string) error { once.note(call); return nil }
		first := undisturbed.run(undisturbed.options())
		effects := slices.Clone(undisturbed.mac.Changes)
		if first.Rebooting {
			undisturbed.mac.Reboot()
		}
		undisturbed.untilConverged()
		want := undisturbed.end()
		for i, effect := range effects {
			for _, power := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d %s/power cut %t", name, i, effect, power), func(t *testing.T) {
					f, count := prepare(t), counters{}
					f.runAndDie(i, count)
					if power {
						f.mac.Reboot()
					}
					f.untilConverged()
					if diff := cmp.Diff(want, f.end()); diff != "" {
						t.Error(diff)
					}
					count.within(t, once, power)
				})
			}
		}
	}
}

// within expects each effect as often as undisturbed. A boot logs in by itself
// and loads the jobs, so after a power cut there may be fewer.
func (c counters) within(t *testing.T, once counters, power bool) {
	t.Helper()
	for call, n := range c {
		if n > once[call] {
			t.Errorf("%s happened %d times, undisturbed %d times", call, n, once[call])
		}
	}
	for call, n := range once {
		if !power && c[call] < n {
			t.Errorf("%s happened %d times, undisturbed %d times", call, c[call], n)
		}
	}
}

// TestSecretsStayWhereTheyBelong marks every secret of a document and looks for
// the marks wherever others could read them.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	const token, password = "marker-of-the-token", "marker-of-the-password"
	marked := func() *fixture {
		f := newFixture(t)
		f.mac.Console.Password = password
		f.desired.Secrets = &document.Secrets{ConsolePassword: password}
		f.desired.Join.Token = token
		return f
	}
	shows := func(where, text string) {
		t.Helper()
		for _, secret := range []string{token, password} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s", where, secret)
			}
		}
	}
	undisturbed := marked()
	undisturbed.converge()
	effects := slices.Clone(undisturbed.mac.Changes)
	for i := range effects {
		f := marked()
		n := 0
		f.mac.Fail = func(call string) error {
			shows("an effect", call)
			if n++; n > i {
				return errCut
			}
			return nil
		}
		line, err := document.EncodeReport(f.run(f.options()))
		if err != nil {
			t.Fatal(err)
		}
		shows("a report", string(line))
	}
	for name, content := range undisturbed.mac.Snapshot() {
		if name != document.BootstrapKubeconfig {
			shows(name, content)
		}
	}
	shows("its plan", planOf(t, marked()))
}

func planOf(t *testing.T, f *fixture) string {
	t.Helper()
	o := f.options()
	o.Plan = true
	line, err := document.EncodeReport(f.run(o))
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// TestFullDiskAtEveryWrite says that only a reinstall helps, and leaves nothing
// that a later run does not mend.
func TestFullDiskAtEveryWrite(t *testing.T) {
	undisturbed := newFixture(t)
	undisturbed.converge()
	for i, effect := range undisturbed.mac.Changes {
		verb, _, _ := strings.Cut(effect, " ")
		if verb != "write" && verb != "mkdir" && verb != "link" {
			continue
		}
		f := newFixture(t)
		n := 0
		f.mac.Fail = func(string) error {
			if n++; n > i {
				return fmt.Errorf("writing: %w", syscall.ENOSPC)
			}
			return nil
		}
		r := f.run(f.options())
		if s, _ := r.FailedStep(); s.Class != document.Reinstall || !strings.Contains(s.Detail, "no space left") || strings.HasPrefix(s.Detail, document.NotWiped) {
			t.Errorf("%s: step %s failed (%s): %s", effect, s.Name, s.Class, s.Detail)
		}
		f.mac.Fail = nil
		f.untilConverged()
		f.sameAs(undisturbed)
	}
}
