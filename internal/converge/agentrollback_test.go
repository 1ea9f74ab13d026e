package converge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// A build that does not prove itself makes room for the one before it, twice; then
// only a person can have it tried again.
func TestBadBuildIsRolledBackAndRemembered(t *testing.T) {
	f := newFixture(t)
	f.converge()
	good, config := f.desired.Agent.SHA256, f.content(document.ConfigFile)
	f.stage("second build")
	bad := f.desired.Agent.SHA256
	f.dying(good, time.Second)
	for _, class := range []document.Class{document.Retry, document.Human} {
		r := f.refused("launchd", class, "did not prove itself")
		if r.RolledBack != bad {
			t.Errorf("rolled back %q, want %q", r.RolledBack, bad)
		}
		f.runs(good, config)
	}
	before := f.mac.PID(document.AgentLabel)
	f.refused("agent", document.Human, "failed twice on this Mac")
	if f.mac.PID(document.AgentLabel) != before || buildOf(f.mac.Resolve(document.CurrentAgent)) != good {
		t.Error("a build that is known to be bad was tried")
	}
	f.desired.Restart = "a person asks"
	f.refused("launchd", document.Human, "failure 3")
	f.refused("agent", document.Human, "failed twice on this Mac")
	f.desired.Restart = "once more"
	f.mac.Program = f.goodJob
	f.converge()
	f.runs(bad, f.content(document.ConfigFile))
	if all := f.failures(); len(all) != 0 {
		t.Errorf("still remembered as bad: %v ", all)
	}
}

// runs expects both jobs to run the build with that configuration.
func (f *fixture) runs(build, config string) {
	f.t.Helper()
	for _, j := range ourJobs() {
		want := document.Health{Build: build, ConfigHash: document.Hash([]byte(config)), PID: f.mac.PID(j.label)}
		if got := f.health(j); got != want {
			f.t.Errorf("%s is %+v, want %+v", j.label, got, want)
		}
		if _, pending := f.mac.Get(j.pending); pending {
			f.t.Errorf("a restart of %s is pending", j.label)
		}
	}
	if got := f.content(document.ConfigFile); got != config {
		f.t.Errorf("configuration %s, want %s", got, config)
	}
}

func TestBadHostdRollsBackBoth(t *testing.T) {
	f := newFixture(t)
	f.converge()
	good, config := f.desired.Agent.SHA256, f.content(document.ConfigFile)
	f.stage("second build")
	inner := f.mac.Program
	f.mac.Program = f.failing(inner, document.HostdLabel, good)
	f.refused("launchd", document.Retry, "did not prove itself")
	f.runs(good, config)
}

func TestFirstBuildHasNoRollbackTarget(t *testing.T) {
	f := newFixture(t)
	f.dying("", time.Second)
	if r := f.refused("launchd", document.Retry, ""); r.RolledBack != "" {
		t.Errorf("rolled back %s", r.RolledBack)
	}
	f.mac.Program = f.goodJob
	f.converge()
}

func TestDamagedRollbackTargetIsReported(t *testing.T) {
	f := newFixture(t)
	f.converge()
	good := f.desired.Agent.SHA256
	f.stage("second build")
	f.dying(good, time.Second)
	f.mac.Overwrite(programFile(good), []byte("rot"))
	f.refused("launchd", document.Retry, "is not whole")
}

func TestBadConfigurationIsNoFaultOfTheBuild(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.desired.Node.MaxVMs = 1
	f.dying("", 3*time.Second)
	f.refused("launchd", document.Retry, "does not stay")
	if all := f.failures(); len(all) != 0 {
		t.Errorf("blamed: %v ", all)
	}
}

func TestOldBuildsAreRemoved(t *testing.T) {
	f := newFixture(t)
	var builds []string
	for _, text := range []string{"1", "2", "3", "4"} {
		f.stage(text)
		builds = append(builds, f.desired.Agent.SHA256)
		f.converge()
	}
	names, err := f.mac.Interfaces().Files.List(document.InstallDir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range builds {
		if strings.Contains(strings.Join(names, " "), b) {
			got = append(got, b)
		}
	}
	if diff := cmp.Diff(builds[2:], got); diff != "" {
		t.Error(diff)
	}
}

// A proof and a configuration that do not belong together are no way back.
func TestDamagedLastGoodRecordIsNoRollbackTarget(t *testing.T) {
	f := newFixture(t)
	f.converge()
	good := f.desired.Agent.SHA256
	f.mac.Put(lastGoodConfigFile, []byte("{}\n"), step.RootAttr(0o600))
	f.stage("second build")
	f.dying(good, 3*time.Second)
	if r := f.refused("launchd", document.Retry, "does not stay"); r.RolledBack != "" {
		t.Error("went back to a configuration nobody proved")
	}
	if f.content(document.ConfigFile) == "{}\n" {
		t.Error("wrote a configuration nobody proved")
	}
	f.mac.Program = f.goodJob
	f.converge()
}

// A build that was never proved, because its run was cut off, is none to go back
// to; the one before it stays.
func TestRollbackTargetSurvivesACutRoll(t *testing.T) {
	f := newFixture(t)
	f.converge()
	good, config := f.desired.Agent.SHA256, f.content(document.ConfigFile)
	f.stage("second build")
	f.mac.Fail = func(call string) error {
		if call == "write "+document.ConfigFile {
			return errCut
		}
		return nil
	}
	f.refused("config", document.Retry, errCut.Error())
	f.mac.Fail = nil
	f.stage("third build")
	f.dying(good, 3*time.Second)
	f.refused("launchd", document.Retry, "did not prove itself")
	f.runs(good, config)
}

// Wherever a roll to a bad build is cut off, the Mac ends with the good one, and
// with the bad one refused.
func TestCutsOfABadRollEndWithTheGoodBuild(t *testing.T) {
	prepare := func(t *testing.T) (*fixture, string, string) {
		f := newFixture(t)
		f.converge()
		good, config := f.desired.Agent.SHA256, f.content(document.ConfigFile)
		f.stage("second build")
		f.desired.Node.MaxVMs = 1
		f.dying(good, 3*time.Second)
		return f, good, config
	}
	undisturbed, _, _ := prepare(t)
	undisturbed.run(undisturbed.options())
	for i, effect := range undisturbed.mac.Changes {
		for _, power := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %s/power cut %t", i, effect, power), func(t *testing.T) {
				f, good, config := prepare(t)
				f.runAndDie(i, counters{})
				if power {
					f.mac.Reboot()
				}
				var s document.StepReport
				for range 6 {
					r := f.run(f.options())
					if s, _ = r.FailedStep(); s.Name == "agent" {
						break
					}
					f.elapse(time.Minute)
				}
				if s.Name != "agent" || s.Class != document.Human {
					t.Errorf("step %s failed (%s): %s", s.Name, s.Class, s.Detail)
				}
				f.runs(good, config)
			})
		}
	}
}
