package converge

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// signer signs for the Mac of the fixture. Each is a manager of its own, a moment
// after the one before.
func (f *fixture) signer(key ed25519.PrivateKey) *document.Signer {
	f.managers++
	at := time.UnixMicro(1_800_000_000_000_000).Add(time.Duration(f.managers) * time.Second)
	return document.NewSigner(key, f.desired.Host, func() time.Time { return at })
}

// signed is what a signer has just made, as the Mac reads it.
func (f *fixture) signed(data []byte, err error) document.Received {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := document.DecodeSigned(bytes.NewReader(data))
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) instructed(o Options, r document.Received) document.Report {
	f.mac.Changes = nil
	return carryOut(f.t.Context(), o, r)
}

func TestASignedDocumentIsTakenOnce(t *testing.T) {
	f := newFixture(t)
	key := f.keyed('a')
	first := f.signed(f.signer(key).Converge(f.desired))
	r := f.instructed(f.options(), first)
	if s, failed := r.FailedStep(); failed || r.Exit != document.ExitChanged || r.Epoch != 3 || r.Revision != document.Revision(f.desired) {
		t.Fatalf("step %s: %s; %+v", s.Name, s.Detail, r)
	}
	if s := r.Steps[0]; s.Name != "signature" || s.Outcome != document.Unchanged {
		t.Errorf("first step %+v", s)
	}
	last := f.content(document.ReportFile)
	r = f.instructed(f.options(), first)
	if s, _ := r.FailedStep(); s.Name != "signature" || s.Class != document.Retry || r.Counter != first.Counter || !strings.Contains(s.Detail, "is an old one") {
		t.Errorf("again: step %q (%s): %s; counter %d", s.Name, s.Class, s.Detail, r.Counter)
	}
	f.nothingDone()
	if f.content(document.ReportFile) != last {
		t.Error("the kept report is that of a run that was refused")
	}
	if r := f.instructed(f.options(), f.signed(f.signer(key).Converge(f.desired))); r.Exit != document.ExitUnchanged {
		t.Errorf("signed anew: %v", outcomes(r))
	}
	if info, err := f.mac.Interfaces().Files.Stat(t.Context(), document.CounterFile); err != nil || info.Attr != step.RootAttr(0o600) {
		t.Errorf("the counter is %s (%v)", info.Attr, err)
	}
}

// What is not signed for this disk, or was taken before, changes nothing.
func TestInstructionsThatAreRefused(t *testing.T) {
	type try struct {
		step   string
		class  document.Class
		detail string
	}
	for name, c := range map[string]struct {
		make func(f *fixture, key ed25519.PrivateKey) document.Received
		want try
	}{
		"another fleet's key": {func(f *fixture, _ ed25519.PrivateKey) document.Received {
			return f.signed(f.signer(f.keyed('b')).Converge(f.desired))
		}, try{"signature", document.Human, "is not signed by this fleet's key"}},
		"another fleet's leave": {func(f *fixture, _ ed25519.PrivateKey) document.Received {
			return f.signed(f.signer(f.keyed('b')).Leave())
		}, try{"signature", document.Human, "the leave is not signed by this fleet's key"}},
		"another Mac": {func(f *fixture, key ed25519.PrivateKey) document.Received {
			f.desired.Host.Name = "ci-other"
			return f.signed(f.signer(key).Leave())
		}, try{"journal", document.Reinstall, `not to epoch 3 of "ci-other"`}},
		"another server": {func(f *fixture, key ed25519.PrivateKey) document.Received {
			f.desired.Host.ProviderID += "x"
			return f.signed(f.signer(key).Uninstall())
		}, try{"journal", document.Reinstall, document.NotWiped}},
		"another epoch": {func(f *fixture, key ed25519.PrivateKey) document.Received {
			f.desired.Host.Epoch--
			return f.signed(f.signer(key).Converge(f.desired))
		}, try{"journal", document.Reinstall, "belongs to epoch 3"}},
		"a damaged counter": {func(f *fixture, key ed25519.PrivateKey) document.Received {
			f.mac.Put(document.CounterFile, []byte("rot"), step.RootAttr(0o600))
			return f.signed(f.signer(key).Leave())
		}, try{"signature", document.Human, "counter.json is damaged"}},
		"a counter that says nothing": {func(f *fixture, key ed25519.PrivateKey) document.Received {
			f.mac.Put(document.CounterFile, []byte("{}"), step.RootAttr(0o600))
			return f.signed(f.signer(key).Leave())
		}, try{"signature", document.Human, "counter.json is damaged"}},
		"no key": {func(f *fixture, key ed25519.PrivateKey) document.Received {
			if err := f.mac.Interfaces().Files.Remove(document.UpgradeKeyFile); err != nil {
				f.t.Fatal(err)
			}
			return f.signed(f.signer(key).Converge(f.desired))
		}, try{"signature", document.Human, "no upgrade key is installed"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			key := f.keyed('a')
			f.converge()
			r := f.instructed(f.options(), c.make(f, key))
			s, _ := r.FailedStep()
			if got := (try{s.Name, s.Class, c.want.detail}); got != c.want || !strings.Contains(s.Detail, c.want.detail) {
				t.Errorf("step %q (%s): %s", s.Name, s.Class, s.Detail)
			}
			f.nothingDone()
		})
	}
}

// A disk that nobody has marked takes the document that brings a key, when that key
// has signed it. It takes nothing else.
func TestAFreshDiskTakesTheKeyThatHasSigned(t *testing.T) {
	for name, sign := range map[string]func(f *fixture) document.Received{
		"another key than it brings": func(f *fixture) document.Received {
			other := f.signer(f.keyed('b'))
			f.keyed('a')
			return f.signed(other.Converge(f.desired))
		},
		"no key": func(f *fixture) document.Received { return f.signed(f.signer(f.keyedOnly('a')).Converge(f.desired)) },
		"leave":  func(f *fixture) document.Received { return f.signed(f.signer(f.keyed('a')).Leave()) },
		"upgrade": func(f *fixture) document.Received {
			return f.signed(f.signer(f.keyed('a')).Upgrade(f.desired.Agent.SHA256))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r := f.instructed(f.options(), sign(f))
			if s, failed := r.FailedStep(); !failed || s.Class != document.Human {
				t.Errorf("step %q (%s): %s", s.Name, s.Class, s.Detail)
			}
			f.gone(document.UpgradeKeyFile, document.DiskMarkerFile, document.CounterFile)
		})
	}
}

// Only a disk that is not marked takes a key: one that was marked first, and cut, would take
// none any more.
func TestADiskIsMarkedAfterItHasItsKey(t *testing.T) {
	f := newFixture(t)
	f.keyed('a')
	f.converge()
	f.inOrder("write "+document.UpgradeKeyFile, "write "+document.DiskMarkerFile)
}

// keyedOnly is a fleet's key that no document brings.
func (f *fixture) keyedOnly(seed byte) ed25519.PrivateKey {
	key := f.keyed(seed)
	f.desired.UpgradeKey = nil
	return key
}

// A build is signed for one push. One that was taken before is refused later, though
// the fleet has signed it, and the manager can go back to it on purpose.
func TestOldBuildsComeBackAsSignedAnewOnly(t *testing.T) {
	f := newFixture(t)
	key := f.keyed('a')
	f.converge()
	o := f.options()
	o.Self = document.CurrentAgent
	f.stage("second build")
	second := f.signed(f.signer(key).Upgrade(f.desired.Agent.SHA256))
	if r := f.instructed(o, second); r.Exit != document.ExitChanged {
		t.Fatalf("%+v", r)
	}
	f.stage("third build")
	if r := f.upgrade(key); r.Exit != document.ExitChanged {
		t.Fatalf("%+v", r)
	}
	third := f.mac.Resolve(document.NextAgent)
	if s, _ := f.instructed(o, second).FailedStep(); s.Name != "signature" || !strings.Contains(s.Detail, "the upgrade is an old one") {
		t.Errorf("an old build: step %q: %s", s.Name, s.Detail)
	}
	if f.mac.Resolve(document.NextAgent) != third {
		t.Error("next moved")
	}
	f.stage("second build")
	if r := f.upgrade(key); r.Exit != document.ExitChanged || buildOf(f.mac.Resolve(document.NextAgent)) != second.Build {
		t.Errorf("the manager's way back: %+v", r)
	}
}

// A power cut right after an instruction was noted does not shut the manager out.
func TestACutAfterTheCounterLeavesTheWayIn(t *testing.T) {
	f := newFixture(t)
	key := f.keyed('a')
	noted := false
	f.mac.Fail = func(call string) error {
		if noted {
			return errCut
		}
		noted = call == "write "+document.CounterFile
		return nil
	}
	if r := f.instructed(f.options(), f.signed(f.signer(key).Converge(f.desired))); !noted || r.Exit == document.ExitChanged {
		t.Fatalf("it was not cut: %+v", r)
	}
	f.mac.Fail = nil
	if r := f.instructed(f.options(), f.signed(f.signer(key).Converge(f.desired))); r.Exit != document.ExitChanged {
		t.Errorf("%v", outcomes(r))
	}
}

// What cannot be noted is not acted on: it could be played once more.
func TestAnInstructionThatCannotBeNotedIsRefused(t *testing.T) {
	f := newFixture(t)
	key := f.keyed('a')
	f.converge()
	f.mac.Fail = func(call string) error {
		if call == "write "+document.CounterFile {
			return errCut
		}
		return nil
	}
	r := f.instructed(f.options(), f.signed(f.signer(key).Leave()))
	if s, _ := r.FailedStep(); s.Name != "signature" || s.Class != document.Retry || !strings.Contains(s.Detail, errCut.Error()) {
		t.Errorf("step %q (%s): %s", s.Name, s.Class, s.Detail)
	}
	if !f.mac.Loaded(document.AgentLabel) {
		t.Error("the agent has left")
	}
}

func TestSignedLeaveAndUninstall(t *testing.T) {
	f := newFixture(t)
	key := f.keyed('a')
	f.converge()
	r := f.instructed(f.options(), f.signed(f.signer(key).Leave()))
	if r.Exit != document.ExitChanged || r.Verb != document.VerbLeave || f.mac.Loaded(document.AgentLabel) {
		t.Errorf("leave: %+v", r)
	}
	f.mac.Console.Guests = 1
	if s, _ := f.instructed(f.options(), f.signed(f.signer(key).Uninstall())).FailedStep(); s.Class != document.Wait {
		t.Errorf("%s: %s", s.Class, s.Detail)
	}
	f.mac.Console.Guests = 0
	r = f.instructed(f.options(), f.signed(f.signer(key).Uninstall()))
	if s, failed := r.FailedStep(); failed || !slices.ContainsFunc(r.Steps, func(s document.StepReport) bool { return s.Name == "leftovers" }) {
		t.Errorf("uninstall: %s: %s", s.Name, s.Detail)
	}
	f.gone(document.CurrentAgent, sudoersFile("m1"))
}
