package converge

import (
	"context"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const broadRule = "m1 ALL=(ALL) NOPASSWD: ALL\n"

func (f *fixture) sudoers(name, text string) {
	f.mac.Put(sudoersDir+"/"+name, []byte(text), sudoersAttr)
}

func (f *fixture) allowed(command string) bool {
	f.t.Helper()
	exit, err := f.mac.Interfaces().Sudo.Try(context.Background(), "m1", strings.Fields(command)...)
	if err != nil {
		f.t.Fatal(err)
	}
	return exit != macos.SudoRefused
}

func TestSudoShrinksToTheVerbs(t *testing.T) {
	f := newFixture(t)
	f.sudoers("m1-nopasswd", broadRule)
	f.converge()
	for _, verb := range sudoVerbs {
		if !f.allowed(verb) {
			t.Errorf("%s is not allowed", verb)
		}
	}
	for _, other := range []string{
		anything, "/bin/sh", document.CurrentAgent + " hostd", document.CurrentAgent + " uninstall --force",
		document.CurrentAgent + " converge", document.CurrentAgent + " leave", document.CurrentAgent + " uninstall",
		document.NextAgent + " converge",
		document.CurrentAgent + " converge --step sudo", document.NextAgent + " uninstall",
	} {
		if f.allowed(other) {
			t.Errorf("%s is still allowed", other)
		}
	}
	info, err := f.mac.Interfaces().Files.Stat(context.Background(), sudoersFile("m1"))
	if err != nil || info.Attr != sudoersAttr {
		t.Errorf("%s (%v)", info.Attr, err)
	}
}

func TestBroadRuleThatComesBackIsShrunk(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.sudoers("m1-nopasswd", broadRule)
	if got := outcomes(f.converge())["sudo"]; got != document.Changed || f.allowed(anything) {
		t.Errorf("sudo %s", got)
	}
}

func TestGarbageDropInKeepsTheWayIn(t *testing.T) {
	f := newFixture(t)
	f.sudoers("m1-nopasswd", broadRule)
	f.sudoers("zz-other", "garbage\n")
	f.refused("sudo", document.Human, "zz-other")
	if !f.allowed(anything) {
		t.Error("the broad rule is gone, and sudo may refuse the new one")
	}
	if err := f.mac.Interfaces().Files.Remove(sudoersDir + "/zz-other"); err != nil {
		t.Fatal(err)
	}
	f.converge()
}

func TestLaterRuleThatOverridesIsReported(t *testing.T) {
	f := newFixture(t)
	f.sudoers("m1-nopasswd", broadRule)
	f.sudoers("zz-other", "m1 ALL=(ALL) PASSWD: "+strings.Join(sudoVerbs, ", ")+"\n")
	f.refused("sudo", document.Human, "a later rule")
	if f.content(sudoersFile("m1")) != broadRule {
		t.Error("the broad rule was not put back")
	}
}

func TestLaterRuleOnAConvergedMac(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.sudoers("zz-other", "m1 ALL=(ALL) PASSWD: ALL\n")
	f.refused("sudo", document.Human, "a later rule")
}

func TestAnotherBroadRuleIsMentioned(t *testing.T) {
	f := newFixture(t)
	f.sudoers("another", broadRule)
	r := f.converge()
	for _, s := range r.Steps {
		if s.Name == "sudo" && !strings.Contains(s.Detail, "still lets m1 run anything") {
			t.Errorf("sudo says %q", s.Detail)
		}
	}
}

func TestSudoRuleIsOneThatVisudoTakes(t *testing.T) {
	f := newFixture(t)
	f.mac.Fail = func(call string) error {
		if call == "write "+sudoersFile("m1") {
			if _, there := f.mac.Get(document.StateDir + "/sudoers.new"); !there {
				t.Error("the rule was not looked at before it took effect")
			}
		}
		return nil
	}
	f.converge()
	if _, left := f.mac.Get(document.StateDir + "/sudoers.new"); left {
		t.Error("the staged rule is left behind")
	}
}
