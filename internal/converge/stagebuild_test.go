package converge

import (
	"context"
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/builds"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// keyed gives the fixture a fleet's key.
func (f *fixture) keyed(seed byte) ed25519.PrivateKey {
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	f.desired.UpgradeKey = key.Public().(ed25519.PublicKey)
	return key
}

func (f *fixture) upgrade(key ed25519.PrivateKey) document.Report {
	o := f.options()
	o.Self = document.CurrentAgent
	return f.instructed(o, f.signed(f.signer(key).Upgrade(f.desired.Agent.SHA256)))
}

func TestUpgradeTakesASignedBuild(t *testing.T) {
	f := newFixture(t)
	key := f.keyed('a')
	f.converge()
	first, pid := f.desired.Agent.SHA256, f.mac.PID(document.AgentLabel)
	f.stage("second build")
	if r := f.upgrade(key); r.Exit != document.ExitChanged || r.Verb != document.VerbUpgrade {
		t.Fatalf("%+v", r)
	}
	if got := f.content(document.NextAgent); got != string(macostest.Build("second build")) {
		t.Errorf("next holds %q", got)
	}
	if buildOf(f.mac.Resolve(document.CurrentAgent)) != first || f.mac.PID(document.AgentLabel) != pid {
		t.Error("the upgrade touched what runs")
	}
	if r := f.upgrade(key); r.Exit != document.ExitUnchanged {
		t.Errorf("again: %v", outcomes(r))
	}
	// The build itself makes itself the current one.
	f.self = f.mac.Resolve(document.NextAgent)
	f.converge()
	if buildOf(f.mac.Resolve(document.CurrentAgent)) != f.desired.Agent.SHA256 {
		t.Error("the next build did not become the current one")
	}
}

func TestUpgradeRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(*fixture) ed25519.PrivateKey
		step    string
		class   document.Class
	}{
		"another fleet's key": {func(f *fixture) ed25519.PrivateKey {
			f.keyed('a')
			f.converge()
			return f.keyed('b')
		}, "signature", document.Human},
		"no key installed": {func(f *fixture) ed25519.PrivateKey {
			f.converge()
			return f.keyed('a')
		}, "signature", document.Human},
		"damaged key": {func(f *fixture) ed25519.PrivateKey {
			key := f.keyed('a')
			f.converge()
			f.mac.Put(document.UpgradeKeyFile, []byte("rot"), step.RootAttr(0o600))
			return key
		}, "signature", document.Human},
		"nothing staged": {func(f *fixture) ed25519.PrivateKey {
			key := f.keyed('a')
			f.converge()
			f.desired.Agent.SHA256 = strings.Repeat("0", 64)
			return key
		}, "install-dir", document.Retry},
		"no program": {func(f *fixture) ed25519.PrivateKey {
			key := f.keyed('a')
			f.converge()
			f.stageBytes([]byte("#!/bin/sh\nexec sh\n"))
			return key
		}, "install-dir", document.Human},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r := f.upgrade(c.arrange(f))
			s, _ := r.FailedStep()
			if s.Name != c.step || s.Class != c.class {
				t.Errorf("step %q failed (%s): %s", s.Name, s.Class, s.Detail)
			}
			if _, there := f.mac.Get(document.NextAgent); there {
				t.Error("a next build is there")
			}
		})
	}
}

func TestLaterKeyIsIgnored(t *testing.T) {
	f := newFixture(t)
	first := f.keyed('a')
	f.converge()
	f.keyed('b')
	r := f.converge()
	if s := r.Steps[1]; s.Name != "journal" || !strings.Contains(s.Detail, "another upgrade key, which is ignored") {
		t.Errorf("%s says %q", s.Name, s.Detail)
	}
	f.stage("second build")
	if r := f.upgrade(first); r.Exit != document.ExitChanged {
		t.Errorf("the first key no longer counts: %v", outcomes(r))
	}
}

func TestBuildsThatAreRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty":           {},
		"four bytes":      macostest.UnsignedBuild("")[:4],
		"script":          []byte("#!/bin/sh\necho hello\n"),
		"another machine": append([]byte{0xcf, 0xfa, 0xed, 0xfe, 0x07, 0, 0, 1}, "x86_64"...),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.stageBytes(data)
			f.refused("agent", document.Human, "is no program for this Mac")
			f.gone(programFile(f.desired.Agent.SHA256), incoming(f.desired.Agent.SHA256))
		})
	}
}

func TestUnsignedBuildIsSignedHere(t *testing.T) {
	for name, data := range map[string][]byte{
		"unsigned": macostest.UnsignedBuild("unsigned build"),
		"broken":   append(macostest.Build("broken build"), '!'),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.stageBytes(data)
			f.converge()
			build := f.desired.Agent.SHA256
			if buildOf(f.mac.Resolve(document.CurrentAgent)) != build {
				t.Error("the slot is not named by what was asked for")
			}
			if r := f.converge(); r.Exit != document.ExitUnchanged {
				t.Errorf("signed again: %v", outcomes(r))
			}
			f.mac.Overwrite(programFile(build), macostest.Build("something else"))
			if sound, err := (builds.Store{Env: f.env()}).Sound(context.Background(), build); err != nil || sound {
				t.Errorf("other bytes pass for the renewed build (%v)", err)
			}
		})
	}
}

// The staged file is the user's. What is installed is what was looked at.
func TestStagedFileThatChangesMeanwhile(t *testing.T) {
	f := newFixture(t)
	build := f.desired.Agent.SHA256
	f.mac.Fail = func(call string) error {
		if call == "mkdir "+installDir(build) {
			f.mac.Put(f.self, macostest.Build("evil build"), macos.Attr{Mode: 0o700, Owner: "m1", Group: "staff"})
		}
		return nil
	}
	f.refused("agent", document.Retry, "changed while it was copied")
	f.gone(programFile(build), incoming(build))
}
