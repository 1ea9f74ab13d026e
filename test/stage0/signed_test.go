package stage0

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/test/parttest"
)

// said is how a command of the console user ended.
type said struct {
	exit   int
	stderr string
}

// asUser runs a command line as whoever holds the fleet's SSH key, or is the console
// user: what an escaped guest is.
func (b *bench) asUser(line, stdin string) said {
	b.t.Helper()
	client, err := ssh.Dial("tcp", b.Address().String(), &ssh.ClientConfig{
		User: "m1", Auth: []ssh.AuthMethod{ssh.PublicKeys(b.key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: patience,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		b.t.Fatal(err)
	}
	var stderr bytes.Buffer
	session.Stdin, session.Stderr = strings.NewReader(stdin), &stderr
	err = session.Run(line)
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return said{0, stderr.String()}
	case errors.As(err, &exit):
		return said{exit.ExitStatus(), strings.TrimSpace(stderr.String())}
	}
	b.t.Fatal(err)
	return said{}
}

// text is what a signer has signed.
func (b *bench) text(data []byte, err error) string {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// state is the end of a Mac without what each instruction leaves.
func (b *bench) state() map[string]string {
	all := b.end()
	delete(all, "/private/var/db/macfleet/counter.json")
	return all
}

// Whoever is the console user can pass on to root what the fleet's key has signed for
// this Mac, once, and nothing else.
func TestTheConsoleUserCanTellRootNothing(t *testing.T) {
	parttest.Skip(t)
	b, s, d := prepared(t)
	d.Join = nil
	own := ed25519.NewKeyFromSeed(bytes.Repeat([]byte("x"), ed25519.SeedSize))
	ownSigner := document.NewSigner(own, d.Host, time.Now)
	open := d // it would let everybody in, and the manager out
	open.UpgradeKey, open.Mac.Network.SSHFrom = own.Public().(ed25519.PublicKey), []string{"203.0.113.0/24"}
	plain, err := document.EncodeDesired(open)
	if err != nil {
		t.Fatal(err)
	}
	other, later := d, d
	other.Host.Name, other.Host.ProviderID = "ci-other", d.Host.ProviderID+"0"
	later.Host.Epoch++
	const sudo = "sudo -n "
	seen := b.text(signer(d).Converge(d)) // on its way to root, past the console user
	if got := b.asUser(sudo+document.CurrentAgent+" converge --signed", seen); got.exit != document.ExitUnchanged {
		t.Fatalf("passed on: %+v", got)
	}
	cut := seen[:len(seen)/2]
	before := b.state()
	for name, c := range map[string]struct {
		line, stdin string
		exit        int
		says        string
	}{
		"own document":             {document.CurrentAgent + " converge", string(plain), 1, "a password is required"},
		"own document, next build": {document.NextAgent + " converge", string(plain), 1, ""},
		"own document, one step":   {document.CurrentAgent + " converge --step firewall", string(plain), 1, "a password is required"},
		"take-over":                {document.CurrentAgent + " converge --take-over", string(plain), 1, "a password is required"},
		"leave":                    {document.CurrentAgent + " leave", "", 1, "a password is required"},
		"uninstall":                {document.CurrentAgent + " uninstall", "", 1, "a password is required"},
		"uninstall by force":       {document.CurrentAgent + " uninstall --force", "", 1, "a password is required"},
		"another agent":            {document.CurrentAgent + " hostd --config /Users/m1/c", "", 1, "a password is required"},
		"unsigned":                 {document.CurrentAgent + " converge --signed", string(plain), 64, `this build reads "macfleet.dev/signed/v1"`},
		"truncated":                {document.CurrentAgent + " converge --signed", cut, 64, "malformed JSON"},
		"nothing":                  {document.CurrentAgent + " leave --signed", "", 64, "malformed JSON"},
		"replayed":                 {document.CurrentAgent + " converge --signed", seen, 20, "the converge is an old one"},
		"replayed as another verb": {document.CurrentAgent + " uninstall --signed", seen, 64, `is for the verb "converge"`},
		"own key":                  {document.CurrentAgent + " converge --signed", b.text(ownSigner.Converge(open)), 24, "the converge is not signed by this fleet's key"},
		"own build":                {document.CurrentAgent + " upgrade", b.text(ownSigner.Upgrade(programs.builds[1].SHA256)), 24, "the upgrade is not signed by this fleet's key"},
		"own leave":                {document.CurrentAgent + " leave --signed", b.text(ownSigner.Leave()), 24, "the leave is not signed by this fleet's key"},
		"own uninstall":            {document.CurrentAgent + " uninstall --signed", b.text(ownSigner.Uninstall()), 24, "the uninstall is not signed by this fleet's key"},
		"of another Mac":           {document.CurrentAgent + " converge --signed", b.text(signer(other).Converge(other)), 23, `not to epoch 1 of "ci-other"`},
		"leave of another Mac":     {document.CurrentAgent + " leave --signed", b.text(signer(other).Leave()), 23, `not to epoch 1 of "ci-other"`},
		"of another epoch":         {document.CurrentAgent + " converge --signed", b.text(signer(later).Converge(later)), 23, "not to epoch 2 of"},
	} {
		got := b.asUser(sudo+c.line, c.stdin)
		if got.exit != c.exit || !strings.Contains(got.stderr, c.says) || strings.Contains(got.stderr, "\n") && c.exit != 1 {
			t.Errorf("%s: exit %d, %q; want %d, and one line with %q", name, got.exit, got.stderr, c.exit, c.says)
		}
	}
	if diff := cmp.Diff(before, b.state()); diff != "" {
		t.Errorf("the console user has changed the Mac:\n%s", diff)
	}
	if got := b.converge(s, d)["signature"]; got != document.Unchanged {
		t.Errorf("afterwards the manager's document is %q", got)
	}
	b.showsNoSecret(password)
}

// What the fleet signed for one push installs no build a second time; the manager goes
// back to an older build on purpose.
func TestAnOlderSignedBuildIsNotReplayed(t *testing.T) {
	parttest.Skip(t)
	b, s, d := prepared(t)
	d.Join = nil
	older := d
	d.Agent = document.Agent{SHA256: programs.builds[1].SHA256, Version: "v0.0.1"}
	if _, err := s.Receive(t.Context(), programs.builds[1]); err != nil {
		t.Fatal(err)
	}
	seen := b.text(signer(older).Upgrade(older.Agent.SHA256))
	if got := b.asUser("sudo -n "+document.CurrentAgent+" upgrade", seen); got.exit != document.ExitChanged {
		t.Fatalf("passed on: %+v", got)
	}
	b.converge(s, d)
	if got := b.asUser("sudo -n "+document.CurrentAgent+" upgrade", seen); got.exit != document.ExitRetry || !strings.Contains(got.stderr, "the upgrade is an old one") {
		t.Errorf("replayed: %+v", got)
	}
	if next := b.root("readlink " + document.InstallDir + "/next"); strings.TrimSpace(next) != d.Agent.SHA256 {
		t.Errorf("next is %s", next)
	}
	if _, err := s.Receive(t.Context(), programs.builds[0]); err != nil {
		t.Fatal(err)
	}
	b.converge(s, older)
	if f := b.probe(s); f.CurrentAgent != older.Agent.SHA256 {
		t.Errorf("the manager could not go back: %s", f.CurrentAgent)
	}
}

// A manager whose clock is behind the one before it is let in all the same.
func TestAClockThatWentBackShutsNobodyOut(t *testing.T) {
	parttest.Skip(t)
	b, s, d := prepared(t)
	d.Join = nil
	ahead := document.NewSigner(fleetKey, d.Host, func() time.Time { return time.Now().Add(48 * time.Hour) })
	if _, err := s.ConvergeInstalled(t.Context(), d, ahead); err != nil {
		t.Fatal(err)
	}
	b.converge(s, d)
	if _, err := s.Leave(t.Context(), signer(d)); err != nil {
		t.Error(err)
	}
}

// A person with the password needs no signature; the fleet needs no password.
func TestLeavingTakesAPasswordOrASignature(t *testing.T) {
	parttest.Skip(t)
	b, s, d := prepared(t)
	const asked = `read -r p; printf '%s\n' "$p" | sudo -S -k -p '' `
	if got := b.asUser(asked+document.CurrentAgent+" leave", password+"\n"); got.exit != document.ExitChanged {
		t.Errorf("a person: %+v", got)
	}
	if _, there := b.read(document.AgentPlist); there {
		t.Error("the agent's job is still there")
	}
	if r, err := s.Uninstall(t.Context(), signer(d)); err != nil || !r.Changed() {
		t.Errorf("the fleet: %+v, %v", r, err)
	}
	for _, name := range []string{document.HostdPlist, document.CurrentAgent, "/etc/sudoers.d/m1-nopasswd"} {
		if _, there := b.read(name); there {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range []string{document.DiskMarkerFile, document.UpgradeKeyFile, document.CounterFile} {
		if _, there := b.read(name); !there {
			t.Errorf("%s is gone", name)
		}
	}
}

// A fleet whose signing key was lost is refused in one line, and what runs goes on.
func TestALostSigningKeyIsSaid(t *testing.T) {
	parttest.Skip(t)
	b, s, d := prepared(t)
	another := ed25519.NewKeyFromSeed(bytes.Repeat([]byte("y"), ed25519.SeedSize))
	d.UpgradeKey, d.Join, d.Node.MaxVMs = another.Public().(ed25519.PublicKey), nil, 1
	_, err := s.ConvergeInstalled(t.Context(), d, document.NewSigner(another, d.Host, time.Now))
	var failed *remote.Failed
	if !errors.As(err, &failed) || failed.Class != document.Human || !strings.Contains(err.Error(), "is not signed by this fleet's key") {
		t.Errorf("got %v", err)
	}
	if text, _ := b.read(document.ConfigFile); strings.Contains(text, `"maxVMs":1`) {
		t.Error("it was applied")
	}
}
