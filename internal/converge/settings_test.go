package converge

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

func TestMacNeverSleeps(t *testing.T) {
	f := newFixture(t)
	f.converge()
	if diff := cmp.Diff(wantedPower(), f.mac.Power.Settings); diff != "" {
		t.Error(diff)
	}
	for _, p := range awakePreferences() {
		if got, _ := f.mac.Default(p.domain, p.key); got != "0" {
			t.Errorf("%s is %q", p.key, got)
		}
	}
	f.mac.Power.Settings["sleep"] = "5"
	if got := outcomes(f.converge())["power"]; got != document.Changed || f.mac.Power.Settings["sleep"] != "0" {
		t.Errorf("power %s: %v", got, f.mac.Power.Settings)
	}
}

func TestOnlySleepFailsThePowerStep(t *testing.T) {
	f := newFixture(t)
	delete(f.mac.Power.Settings, "powernap") // not every model has it
	f.converge()
	if got := outcomes(f.converge())["power"]; got != document.Unchanged {
		t.Errorf("power %s", got)
	}
	f.mac.Power.Deaf = []string{"womp", "disksleep"}
	f.mac.Power.Settings["womp"] = "0"
	f.converge()

	f = newFixture(t)
	f.mac.Power.Deaf = []string{"sleep"}
	f.refused("power", document.Human, "still sleeps")
}

func TestMacDoesNotUpdateItself(t *testing.T) {
	f := newFixture(t)
	f.mac.SetDefault(softwareUpdateDomain, "AutomaticallyInstallMacOSUpdates", "1")
	f.converge()
	for key, want := range map[string]string{
		"AutomaticCheckEnabled": "1", "ConfigDataInstall": "1", "AutomaticDownload": "0",
		"AutomaticallyInstallMacOSUpdates": "0", "CriticalUpdateInstall": "0", "SplatEnabled": "0",
	} {
		if got, _ := f.mac.Default(softwareUpdateDomain, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if got, _ := f.mac.Default(setupAssistantDomain, "SkipPrivacySetup"); got != "1" {
		t.Errorf("the Setup Assistant shows: %q", got)
	}
}

// `macfleet machine logs` reads both as the console user: each is the user's, or the group's.
func TestLogsAreRotated(t *testing.T) {
	f := newFixture(t)
	f.converge()
	want := "# Written by macfleet; changes are overwritten.\n" +
		"/var/log/macfleet/tart-kubelet.err.log\tm1:staff\t640\t5\t10240\t*\tN\n" +
		"/var/log/macfleet-hostd.err.log\troot:staff\t640\t5\t10240\t*\tN\n"
	if diff := cmp.Diff(want, f.content(logRotation)); diff != "" {
		t.Error(diff)
	}
	f.gone(logRotationStage)
}

// Root renames and gives away what is in the folder of the log, by name.
func TestLogsAreInRootsFolder(t *testing.T) {
	f := newFixture(t)
	f.converge()
	files := f.mac.Interfaces().Files
	right := func() {
		t.Helper()
		for name, want := range map[string]string{document.LogDir: "root:wheel 0755", launchd.AgentErrorLog: "m1:staff 0640"} {
			if info, err := files.Stat(t.Context(), name); err != nil || info.Attr.String() != want {
				t.Errorf("%s is %s, want %s (%v)", name, info.Attr, want, err)
			}
		}
	}
	right()
	f.mac.Put(launchd.AgentErrorLog, []byte("panic"), f.desiredLogAttr())
	if got := outcomes(f.converge())["logs"]; got != document.Unchanged || f.content(launchd.AgentErrorLog) != "panic" {
		t.Errorf("logs %s", got)
	}
	f.mac.Put(launchd.AgentErrorLog, nil, macos.Attr{Mode: 0o666, Owner: "m1", Group: staff})
	f.converge()
	right()
	// What was put there while the folder was somebody's is not kept.
	if err := files.MakeDir(t.Context(), document.LogDir, macos.Attr{Mode: 0o750, Owner: "m1", Group: staff}); err != nil {
		t.Fatal(err)
	}
	if err := files.Link(launchd.AgentErrorLog+".0", "/etc/sudoers"); err != nil {
		t.Fatal(err)
	}
	f.converge()
	right()
	if _, err := files.Stat(t.Context(), launchd.AgentErrorLog+".0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link that the user could plant is kept (%v)", err)
	}
	if r := f.converge(); r.Exit != document.ExitUnchanged {
		t.Errorf("still changes: %v", outcomes(r))
	}
}

func (f *fixture) desiredLogAttr() macos.Attr {
	return logs{f.env()}.agentLog().Attr
}

func TestSSHIsShutToAllButKeys(t *testing.T) {
	f := newFixture(t)
	f.converge()
	got, err := f.mac.Interfaces().SSHD.Effective(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"passwordauthentication": "no", "kbdinteractiveauthentication": "no", "permitrootlogin": "no",
		"allowusers": "m1", "maxauthtries": "4", "usepam": "yes",
		"authorizedkeysfile": document.AuthorizedKeysFile, "authorizedkeyscommand": "none", "trustedusercakeys": "none",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	f.gone(sshdStage)
	if f.mac.SSHD.Reloads != 0 {
		t.Error("the SSH server was restarted")
	}
}

func TestSSHIsTakenBack(t *testing.T) {
	const before = "PasswordAuthentication no\n"
	for name, c := range map[string]struct {
		arrange func(*fixture)
		class   document.Class
		detail  string
	}{
		"refused": {func(f *fixture) { f.mac.SSHD.Broken = true }, document.Bug, "nothing was changed"},
		"deaf":    {func(f *fixture) { f.mac.SSHD.Deaf = true }, document.Retry, "taken back"},
		"silent":  {func(f *fixture) { f.mac.SSHD.Silent = true }, document.Retry, "taken back"},
		"overridden": {func(f *fixture) {
			f.mac.Put("/etc/ssh/sshd_config.d/000-a.conf", []byte("UsePAM no\n"), step.RootAttr(0o755))
		}, document.Human, "UsePAM"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.arrange(f)
			f.refused("sshd", c.class, c.detail)
			f.gone(sshdDropIn, sshdStage, document.AuthorizedKeysFile)

			f.mac.Put(sshdDropIn, []byte(before), f.fileAttr())
			f.mac.Put(document.AuthorizedKeysFile, []byte("a key\n"), f.fileAttr())
			f.refused("sshd", c.class, c.detail)
			if got := f.content(sshdDropIn); got != before {
				t.Errorf("%s holds %q", sshdDropIn, got)
			}
			if got := f.content(document.AuthorizedKeysFile); got != "a key\n" {
				t.Errorf("%s holds %q", document.AuthorizedKeysFile, got)
			}
		})
	}
}

// The settings name the file of the keys: nobody could log in by one that is not there.
func TestSSHNeverLooksForKeysInAFileThatIsNotThere(t *testing.T) {
	f := newFixture(t)
	f.mac.SSHD.Silent = true // so that both files are taken back
	f.refused("sshd", document.Retry, "taken back")
	f.inOrder("write "+document.AuthorizedKeysFile, "write "+sshdDropIn, "remove "+sshdDropIn, "remove "+document.AuthorizedKeysFile)
}

func TestTakingSSHBackFailsLoudly(t *testing.T) {
	f := newFixture(t)
	f.mac.SSHD.Silent = true
	f.mac.Fail = func(call string) error {
		if call == "remove "+sshdDropIn {
			return errors.New("read-only")
		}
		return nil
	}
	f.refused("sshd", document.Retry, "taking /etc/ssh/sshd_config.d/000-macfleet.conf back failed too")
}

// The vendor puts the keys of its whole project into the user's files, and people
// add theirs by hand: neither logs in once the Mac is the fleet's.
func TestOnlyTheKeysOfTheFleetAndTheProfileLogIn(t *testing.T) {
	const own = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	f := newFixture(t)
	f.desired.Mac.AuthorizedKeys = []string{own + " ada@example.com", fleetsKey + " the fleet's, again"}
	f.converge()
	lines := strings.Split(strings.TrimSpace(f.content(document.AuthorizedKeysFile)), "\n")
	if diff := cmp.Diff([]string{fleetsKey, own}, lines[1:]); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	info, err := f.mac.Interfaces().Files.Stat(t.Context(), document.AuthorizedKeysFile)
	if err != nil || info.String() != "root:wheel 0644" {
		t.Errorf("%s is %s, %v: sshd reads it as the user, and nobody else may write it", document.AuthorizedKeysFile, info.Attr, err)
	}

	// A key that somebody added is seen by a check, and goes.
	f.mac.Put(document.AuthorizedKeysFile, []byte(f.content(document.AuthorizedKeysFile)+"ssh-ed25519 AAAA thief\n"), f.fileAttr())
	check := f.options()
	check.Plan = true
	if got := outcomes(f.run(check))["sshd"]; got != document.Planned {
		t.Errorf("a key that was added by hand: step sshd is %s", got)
	}
	f.converge()
	if strings.Contains(f.content(document.AuthorizedKeysFile), "thief") {
		t.Error("the key that was added stays")
	}

	// While the fleet's key is replaced both log in, then the new one alone.
	f.desired.SSHKeys = []string{own, fleetsKey}
	f.desired.Mac.AuthorizedKeys = nil
	f.converge()
	f.desired.SSHKeys = []string{own}
	f.converge()
	if got := f.content(document.AuthorizedKeysFile); strings.Contains(got, fleetsKey) || !strings.Contains(got, own) {
		t.Errorf("after the fleet's key was replaced: %q", got)
	}
}

func TestADocumentWithoutKeysShutsNobodyOut(t *testing.T) {
	f := newFixture(t)
	f.desired.SSHKeys = nil
	f.refused("sshd", document.Bug, "names no SSH key of the fleet")
	f.gone(sshdDropIn, document.AuthorizedKeysFile)
}
