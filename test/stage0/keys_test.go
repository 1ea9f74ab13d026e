package stage0

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/test/parttest"
)

func newKey(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

// as dials with another key than the fleet's.
func (b *bench) as(key ssh.Signer) (*remote.Session, error) {
	fleet := b.key
	b.key = key
	defer func() { b.key = fleet }()
	return b.dial()
}

func (b *bench) refuses(key ssh.Signer, whose string) {
	b.t.Helper()
	_, err := b.as(key)
	if refused := (*remote.AuthRefused)(nil); !errors.As(err, &refused) {
		b.t.Errorf("the key of %s: %v, want it refused", whose, err)
	}
}

// TestOnlyTheFleetsKeysLogInAfterConverge: the vendor puts every key of its project
// on a Mac. After the first converge none of them opens it but the fleet's and the
// profile's, not after a reboot, and not when it is added by hand; while the fleet's
// key is replaced both work, and the manager never loses its way in.
func TestOnlyTheFleetsKeysLogInAfterConverge(t *testing.T) {
	parttest.Skip(t)
	b := newBench(t)
	colleague, colleagueKey := newKey(t)
	admin, adminKey := newKey(t)
	if err := b.Install(t.Context(), mac.Install{AuthorizedKeys: []string{b.authorizedKey(), colleagueKey}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.as(colleague); err != nil {
		t.Fatalf("a fresh Mac takes every key of the project: %v", err)
	}
	s := b.session()
	b.probe(s)
	if err := s.Grant(t.Context(), secret(password)); err != nil {
		t.Fatal(err)
	}
	build := programs.builds[0]
	if _, err := s.Receive(t.Context(), build); err != nil {
		t.Fatal(err)
	}
	d := b.desired(build)
	d.Mac.AuthorizedKeys = []string{adminKey + " the administrator"}
	b.converge(s, d)
	d.Join = nil

	b.refuses(colleague, "a colleague's project")
	b.session()
	if _, err := b.as(admin); err != nil {
		t.Errorf("the profile's key: %v", err)
	}

	// The user may write into the home; nothing there counts any more.
	for _, name := range []string{"authorized_keys", "scw_authorized_keys"} {
		if err := os.WriteFile(filepath.Join(b.Root(), "Users/m1/.ssh", name), []byte(colleagueKey+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.refuses(colleague, "somebody who wrote it into the home")
	s = b.session()
	b.probe(s)

	// Whoever was root for a moment may have added one: a check sees it.
	path := filepath.Join(b.Root(), document.AuthorizedKeysFile)
	added, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(added, []byte(colleagueKey+"\n")...), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.as(colleague); err != nil {
		t.Fatalf("the file is not what sshd reads: %v", err)
	}
	report, err := s.Plan(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range report.Steps {
		if step.Name == "sshd" && step.Outcome != document.Planned {
			t.Errorf("a key that was added by hand: step sshd is %s", step.Outcome)
		}
	}
	b.converge(s, d)
	b.refuses(colleague, "somebody who was root for a moment")

	// The fleet's key is replaced: the new one comes with the old, then alone.
	old := b.key
	next, nextKey := newKey(t)
	d.SSHKeys = []string{nextKey, b.authorizedKey()}
	b.converge(s, d)
	b.session()
	b.key = next
	s = b.session()
	b.probe(s)
	d.SSHKeys = []string{nextKey}
	b.converge(s, d)
	b.refuses(old, "the fleet before")
	b.session()
}

// TestAKeyThatDoesNotLogInIsTakenBack: the Mac has no other door, so the files that
// name a key which a new connection refuses do not stay.
func TestAKeyThatDoesNotLogInIsTakenBack(t *testing.T) {
	parttest.Skip(t)
	b, s, d := prepared(t)
	d.Join = nil
	// StrictModes: sshd takes no file that the group may write the folder of.
	if err := os.Chmod(filepath.Join(b.Root(), "private/etc/ssh"), 0o775); err != nil {
		t.Fatal(err)
	}
	before, _ := b.read(document.AuthorizedKeysFile)
	_, other := newKey(t)
	d.SSHKeys = []string{b.authorizedKey(), other}
	_, err := s.Converge(t.Context(), d.Agent.SHA256, d, signer(d))
	var failed *remote.Failed
	if !errors.As(err, &failed) {
		t.Fatalf("a Mac that takes no key: %v", err)
	}
	if step, _ := failed.Report.FailedStep(); step.Name != "sshd" || !strings.Contains(step.Detail, "taken back") {
		t.Errorf("failed step %q: %s", step.Name, step.Detail)
	}
	if now, _ := b.read(document.AuthorizedKeysFile); now != before {
		t.Error("the keys that do not log in stay")
	}
}
