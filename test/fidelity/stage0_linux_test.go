package fidelity

import (
	"crypto/ed25519"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

type secret string

func (s secret) Reveal() string { return string(s) }

var loginShells = []string{"/usr/bin/zsh", "/bin/bash", "/bin/dash"}

// inLoginShells runs a test with each shell that may stand between sshd and us.
func inLoginShells(t *testing.T, test func(*testing.T, *world)) {
	for _, shell := range loginShells {
		t.Run(shell, func(t *testing.T) { test(t, fresh(t, shell)) })
	}
}

const rule = "m1 ALL=(ALL) NOPASSWD: ALL\n"

// The grant that is sent to Macs: one verification, whatever comes of it, and the
// password stays nowhere.
func TestF01_GrantSpendsOneVerificationAndLeaksNothing(t *testing.T) {
	for name, c := range map[string]struct {
		password secret
		arrange  func(*world)
		want     remote.GrantOutcome
		spent    int
	}{
		"right":             {right, func(*world) {}, "", 1},
		"wrong":             {"wr0ng", func(*world) {}, remote.PasswordRejected, 1},
		"sealed":            {"<sealed>", func(*world) {}, remote.PasswordRejected, 1},
		"sudo asks nothing": {right, func(w *world) { w.put("/etc/sudoers.d/image", rule, 0o440) }, "", 0},
		"a later rule asks": {right, func(w *world) {
			w.put("/etc/sudoers.d/zz", "m1 ALL=(ALL) PASSWD: ALL\n", 0o440)
		}, remote.RuleOverridden, 1},
		"garbage beside it":  {right, func(w *world) { w.put("/etc/sudoers.d/image", "garbage\n", 0o440) }, "", 1},
		"our file is broken": {right, func(w *world) { w.put("/etc/sudoers.d/m1-nopasswd", "garbage\n", 0o666) }, "", 1},
		"no folder for it": {right, func(w *world) {
			w.must(os.Remove("/etc/sudoers.d"))
			w.put("/etc/sudoers.d", "", 0o644)
		}, remote.GrantFailed, 1},
	} {
		inLoginShells(t, func(t *testing.T, w *world) {
			session := w.openPort().session()
			c.arrange(w)
			err := session.Grant(t.Context(), c.password)
			var refused *remote.GrantRefused
			if errors.As(err, &refused); (c.want == "") != (err == nil) || c.want != "" && (refused == nil || refused.Outcome != c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
			if n := w.verifications(); n != c.spent {
				t.Errorf("%s: %d verifications, want %d", name, n, c.spent)
			}
			w.leaks(string(c.password))
			if c.want == "" {
				w.isRule("/etc/sudoers.d/m1-nopasswd")
			}
		})
	}
}

func (w *world) isRule(path string) {
	w.t.Helper()
	text, err := os.ReadFile(path)
	w.must(err)
	info, err := os.Stat(path)
	w.must(err)
	if string(text) != rule || info.Mode().Perm() != 0o440 {
		w.t.Errorf("%s is %q, %v", path, text, info.Mode())
	}
}

// agent plays the agent: it answers its verbs as such, and knows who runs it.
const agent = `#!/bin/sh
[ "$(id -u)" = 0 ] || exit 70
read -r document || exit 64
printf '{"schema":"macfleet.dev/report/v1","verb":"%s","exit":10}\n' "$1"
exit 10
`

func desired(build *remote.Build) document.Desired {
	return document.Desired{
		Host:  document.Host{Name: "ci-1", ProviderID: "scw-applesilicon://fr-par-1/1", Epoch: 1, User: "m1"},
		Agent: document.Agent{SHA256: build.SHA256}, Node: document.Node{MaxVMs: 2},
		Mac:     document.Mac{Network: document.Network{Subnet: document.DefaultSubnet}},
		SSHKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
	}
}

func signer(build *remote.Build) *document.Signer {
	key := ed25519.NewKeyFromSeed([]byte("the fleet that these tests play!"))
	return document.NewSigner(key, desired(build).Host, time.Now)
}

// The four executions of a fresh Mac, through real sshd, login shell and sudo.
func TestStage0RunsUnchanged(t *testing.T) {
	build, err := remote.NewBuild([]byte(agent))
	if err != nil {
		t.Fatal(err)
	}
	inLoginShells(t, func(t *testing.T, w *world) {
		session := w.openPort().session()
		if f, err := session.Probe(t.Context()); err != nil || f.Sudo || f.SudoAgent || f.User != "m1" || f.DiskFreeBytes == 0 {
			t.Fatalf("%+v, %v", f, err)
		}
		var silent *remote.NoReport
		if _, err := session.Converge(t.Context(), build.SHA256, desired(build), signer(build)); !errors.As(err, &silent) || silent.Reason != remote.SudoRefused {
			t.Errorf("before the grant: %v", err)
		}
		w.must(session.Grant(t.Context(), secret(right)))
		if _, err := session.Converge(t.Context(), build.SHA256, desired(build), signer(build)); !errors.As(err, &silent) || silent.Reason != remote.NotInstalled {
			t.Errorf("before the upload: %v", err)
		}
		if sent, err := session.Receive(t.Context(), build); err != nil || sent != build.PackedSize() {
			t.Fatalf("sent %d: %v", sent, err)
		}
		if r, err := session.Converge(t.Context(), build.SHA256, desired(build), signer(build)); err != nil || r.Exit != document.ExitChanged {
			t.Errorf("%+v, %v", r, err)
		}
		if f, err := session.Probe(t.Context()); err != nil || !f.Sudo || f.SudoAgent || len(f.Staged) != 1 {
			t.Errorf("%+v, %v", f, err)
		}
		if n := w.verifications(); n != 1 {
			t.Errorf("%d verifications", n)
		}
	})
}

// Where sudo knows the agent's verbs only, a new build comes by the installed one.
func TestStage0WhereSudoKnowsTheAgentOnly(t *testing.T) {
	build, err := remote.NewBuild([]byte(agent + "# the next one\n"))
	if err != nil {
		t.Fatal(err)
	}
	installed := document.InstallDir + "/" + document.Hash([]byte(agent))
	inLoginShells(t, func(t *testing.T, w *world) {
		w.put(installed+"/tart-kubelet", agent, 0o755)
		w.must(os.Symlink(installed, document.InstallDir+"/current"))
		w.must(os.Symlink(installed, document.InstallDir+"/next"))
		session := w.openPort().session()
		// Another rule makes sudo list everything; it is no way to root.
		w.put("/etc/sudoers.d/image", "m1 ALL=(root) NOPASSWD: /usr/bin/id\n", 0o440)
		if f, err := session.Probe(t.Context()); err != nil || f.SudoAgent || f.CurrentAgent == "" {
			t.Errorf("without our rule: %+v, %v", f, err)
		}
		w.put("/etc/sudoers.d/m1-nopasswd", w.narrow(build), 0o440)
		if f, err := session.Probe(t.Context()); err != nil || f.Sudo || !f.SudoAgent {
			t.Fatalf("with it: %+v, %v", f, err)
		}
		if _, err := session.Receive(t.Context(), build); err != nil {
			t.Fatal(err)
		}
		if r, err := session.Converge(t.Context(), build.SHA256, desired(build), signer(build)); err != nil || r.Verb != document.VerbConverge {
			t.Errorf("%+v, %v", r, err)
		}
		if _, _, ok := w.as("/bin/sh", "sudo -n "+document.CurrentAgent+" run", ""); ok {
			t.Error("another verb is run")
		}
		if n := w.verifications(); n != 0 {
			t.Errorf("%d verifications", n)
		}
	})
}
