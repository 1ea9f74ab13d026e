package sshconf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plant writes a configuration with drop-ins and returns its root.
func plant(t *testing.T, dropIns map[string]string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "etc/ssh/sshd_config.d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"../sshd_config": "Include /etc/ssh/sshd_config.d/*\nAuthorizedKeysFile .ssh/authorized_keys\n"}
	for name, text := range dropIns {
		files[name] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFirstValueWins(t *testing.T) {
	root := plant(t, map[string]string{
		"100-macos.conf": "UsePAM yes\nPasswordAuthentication yes # stock\nAllowUsers late\n",
		"000-ours.conf": "passwordauthentication no\nAllowUsers m1 \"ad*\"\nMaxAuthTries=4\nLoginGraceTime 20\n" +
			"AuthorizedKeysFile .ssh/authorized_keys %h/.ssh/scw_%u /etc/keys\nPermitRootLogin no\n",
	})
	c, err := Read(root, MainFile)
	if err != nil {
		t.Fatal(err)
	}
	if c.Yes("passwordauthentication") || !c.Yes("usepam") || !c.Yes("kbdinteractiveauthentication") || c.MaxAuthTries() != 4 || c.LoginGrace() != 20*time.Second {
		t.Errorf("values: %v", c.values)
	}
	for user, want := range map[string]bool{"m1": true, "admin": true, "late": true, "other": false, "root": false} {
		if c.MayLogIn(user) != want {
			t.Errorf("%s may log in: %t", user, !want)
		}
	}
	want := []string{"/Users/m1/.ssh/authorized_keys", "/Users/m1/.ssh/scw_m1", "/etc/keys"}
	if diff := cmp.Diff(want, c.KeyFiles("m1", "/Users/m1")); diff != "" {
		t.Errorf("key files (-want +got):\n%s", diff)
	}
	shown := c.effective("127.0.0.1", "22")
	for _, line := range []string{
		"port 22\n", "listenaddress 127.0.0.1:22\n", "passwordauthentication no\n", "allowusers m1\nallowusers ad*\nallowusers late\n",
		"logingracetime 20\n", "permitrootlogin no\n", "maxsessions 10\n",
	} {
		if !strings.Contains(shown, line) {
			t.Errorf("-T does not print %q:\n%s", line, shown)
		}
	}
}

func TestDefaults(t *testing.T) {
	c, err := Read(plant(t, nil), MainFile)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Yes("passwordauthentication") || !c.MayLogIn("root") || c.RootByPassword() || c.LoginGrace() != 2*time.Minute {
		t.Errorf("values: %v", c.values)
	}
}

func TestBadConfigurations(t *testing.T) {
	tests := map[string]string{
		"Pasword no":               "Bad configuration option: Pasword",
		"PasswordAuthentication":   "line 1: missing argument",
		"UsePAM perhaps":           `unsupported option "perhaps"`,
		"LoginGraceTime soon":      `unsupported option "soon"`,
		"MaxAuthTries -1":          `unsupported option "-1"`,
		`AllowUsers "m1`:           "invalid quotes",
		"Match User m1":            ErrMatch.Error(),
		"Include sshd_config.d/00": "Too many recursive",
	}
	for text, want := range tests {
		_, err := Read(plant(t, map[string]string{"00": text}), MainFile)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Read(t.TempDir(), MainFile); err == nil {
		t.Error("no file is no error")
	}
}
