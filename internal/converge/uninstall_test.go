package converge

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

func (f *fixture) uninstall(force bool) document.Report {
	f.mac.Changes = nil
	return Uninstall(context.Background(), f.options(), force)
}

func TestUninstallTakesAllBack(t *testing.T) {
	f := newFixture(t)
	f.sudoers("m1-nopasswd", broadRule)
	f.keyed('a')
	f.converge()
	r := f.uninstall(false)
	if s, failed := r.FailedStep(); failed || r.Exit != document.ExitChanged || r.Epoch != 3 {
		t.Fatalf("step %s: %s; exit %d", s.Name, s.Detail, r.Exit)
	}
	f.gone(
		document.AgentPlist, document.HostdPlist, document.CurrentAgent, document.AgentLink, document.ConfigFile,
		document.BootstrapKubeconfig, document.JournalFile, document.UpgradeKeyFile, provedFile, sudoersFile("m1"), "/etc/kcpassword",
	)
	for _, j := range jobs() {
		if f.mac.Loaded(j.label) {
			t.Errorf("%s is loaded", j.name)
		}
	}
	if last := f.mac.Changes[len(f.mac.Changes)-2:]; last[0] != "remove "+sudoersFile("m1") {
		t.Errorf("the sudo rule was not the last to go: %v", last)
	}
	if r := f.uninstall(false); r.Exit == document.ExitBug {
		t.Errorf("again: %v", outcomes(r))
	}
	f.converge()
}

func TestUninstallWaitsForGuests(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Console.Guests = 1
	r := f.uninstall(false)
	if s, _ := r.FailedStep(); s.Class != document.Wait || !strings.Contains(s.Detail, "waits until no guest runs") {
		t.Errorf("%s: %s", s.Class, s.Detail)
	}
	if slices.ContainsFunc(f.mac.Changes, func(c string) bool { return strings.HasPrefix(c, "remove") }) {
		t.Errorf("removed something: %v", f.mac.Changes)
	}
	if r := f.uninstall(true); r.Exit != document.ExitChanged {
		t.Errorf("by force: %v", outcomes(r))
	}
}

func TestUninstallGoesOnAndNamesLeftovers(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Fail = func(call string) error {
		if call == "remove "+document.InstallDir {
			return errCut
		}
		return nil
	}
	r := f.uninstall(false)
	last := r.Steps[len(r.Steps)-1]
	if r.Exit != document.ExitRetry || last.Name != "leftovers" || !strings.Contains(last.Detail, document.InstallDir) {
		t.Errorf("exit %d, %s: %s", r.Exit, last.Name, last.Detail)
	}
	f.gone(document.AgentPlist, document.ConfigFile, sudoersFile("m1"))
}

func TestUninstallOfALostConfiguration(t *testing.T) {
	f := newFixture(t)
	f.converge()
	if err := f.mac.Interfaces().Files.Remove(document.ConfigFile); err != nil {
		t.Fatal(err)
	}
	o := f.options()
	if s, failed := Uninstall(context.Background(), o, true).FailedStep(); !failed || s.Class != document.Human {
		t.Errorf("%s (%s): %s", s.Name, s.Class, s.Detail)
	}
	o.Invoker = "m1"
	Uninstall(context.Background(), o, true)
	f.gone(sudoersFile("m1"))
}

func TestTakeOverRetiresKnownNamesOnly(t *testing.T) {
	f := newFixture(t)
	plistAttr := macos.Attr{Mode: 0o644, Owner: root, Group: wheel}
	for _, label := range append(formerLabels(), "com.example.backup") {
		f.mac.Put(daemonsDir+"/"+label+".plist", []byte("<plist/>"), plistAttr)
		f.mac.Load(label)
	}
	for _, name := range formerFiles() {
		f.mac.Put(name, []byte("old"), plistAttr)
	}
	f.mac.Put("/usr/local/bin/other", []byte("not ours"), plistAttr)
	if r := f.converge(); outcomes(r)["take-over"] != "" {
		t.Error("took over without being asked")
	}
	o := f.options()
	o.TakeOver = true
	r := f.run(o)
	i := slices.IndexFunc(r.Steps, func(s document.StepReport) bool { return s.Name == "take-over" })
	if s := r.Steps[i]; s.Outcome != document.Changed || s.Detail != "launch daemons of others, left alone: com.example.backup" {
		t.Errorf("%s: %q", s.Outcome, s.Detail)
	}
	for _, label := range formerLabels() {
		if f.mac.Loaded(label) {
			t.Errorf("%s is loaded", label)
		}
		f.gone(daemonsDir + "/" + label + ".plist")
	}
	f.gone(formerFiles()...)
	if !f.mac.Loaded("com.example.backup") || f.content("/usr/local/bin/other") != "not ours" {
		t.Error("something of another name was touched")
	}
	if s := f.run(o).Steps[i]; s.Outcome != document.Unchanged || s.Detail == "" {
		t.Errorf("again: %s %q", s.Outcome, s.Detail)
	}
}
