package mac

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialAs connects with the given methods only.
func (b *bench) dialAs(user string, auth ...ssh.AuthMethod) error {
	c, err := ssh.Dial("tcp", b.Address().String(), &ssh.ClientConfig{
		User: user, Auth: auth, Timeout: patience, HostKeyCallback: ssh.InsecureIgnoreHostKey(), // a simulated Mac's key changes
	})
	if err != nil {
		return err
	}
	return c.Close()
}

func TestPreferencesAndPowerSurviveReboots(t *testing.T) {
	b := startBench(t, nil)
	b.asRoot(`defaults write com.apple.x k -bool true && pmset -a sleep 0 womp 1 && softwareupdate --schedule off`)
	check := func(when, sleep string) {
		t.Helper()
		got := strings.Join(strings.Fields(b.asRoot(`defaults read com.apple.x k; pmset -g custom | grep '^ sleep '; softwareupdate --schedule`)), " ")
		if want := "1 sleep " + sleep + " Automatic checking for updates is turned off"; got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	check("at once", "0")
	if got := b.ok("stat -f %Su:%Lp /var/root/Library/Preferences/com.apple.x.plist"); got != "root:600" {
		t.Errorf("the file: %s", got)
	}
	for _, forgets := range []bool{false, true} {
		if err := b.SetSwitches(t.Context(), Switches{Quirks: Quirks{PowerForgets: forgets}}); err != nil {
			t.Fatal(err)
		}
		if err := b.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("after a boot", map[bool]string{false: "0", true: "1"}[forgets])
	}
	if got := b.sh("pmset -a sleep 0", ""); got.rc != 77 {
		t.Errorf("pmset as the user: %+v", got)
	}
}

func TestVolumeOnAMac(t *testing.T) {
	b := startBench(t, nil)
	b.asRoot("diskutil apfs addVolume disk3 APFS guests -quota 1000000000B && chown m1:staff /Volumes/guests")
	b.ok("echo kept >/Volumes/guests/file")
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(b.ok("cat /Volumes/guests/file; stat -f %Su /Volumes/guests; df -k /Volumes/guests | tail -n 1"))
	if want := "kept m1 /dev/disk3s7 976562 0 976562"; !strings.HasPrefix(strings.Join(got, " "), want) || got[len(got)-1] != "/Volumes/guests" {
		t.Errorf("after a boot: %q, want %q", got, want)
	}
	if err := b.Install(t.Context(), Install{Password: testPassword, AuthorizedKeys: []string{b.authorizedKey()}}); err != nil {
		t.Fatal(err)
	}
	if got := b.sh("diskutil info disk3s7 || ls -d /Volumes/guests", ""); got.rc == 0 {
		t.Errorf("a wiped disk has the volume: %+v", got)
	}
}

func TestSSHHonoursItsSettings(t *testing.T) {
	b := startBench(t, nil)
	password, key := ssh.Password(testPassword), ssh.PublicKeys(b.signer)
	if err := b.dialAs("m1", password); err != nil {
		t.Errorf("a password on a fresh Mac: %v", err)
	}
	if b.dialAs("m1", ssh.Password("wrong")) == nil || b.PasswordVerifications() != 2 {
		t.Errorf("checks of passwords: %d", b.PasswordVerifications())
	}
	b.asRoot("mkdir -p /var/root/.ssh && cp /Users/m1/.ssh/scw_authorized_keys /var/root/.ssh/authorized_keys")
	if err := b.dialAs("root", key); err != nil {
		t.Errorf("root by key on a fresh Mac: %v", err)
	}
	write := func(text string) {
		b.asRoot("printf '" + text + "' >/etc/ssh/sshd_config.d/000-x.conf")
	}
	write(`PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin no\nAllowUsers m1\n`)
	if b.dialAs("m1", password) == nil || b.PasswordVerifications() != 2 {
		t.Error("a password was taken or checked against the settings")
	}
	if b.dialAs("root", key) == nil {
		t.Error("root logged in against the settings")
	}
	if err := b.dialAs("m1", key); err != nil {
		t.Errorf("the user by key: %v", err)
	}
	shown := b.asRoot("sshd -T")
	for _, line := range []string{"\npasswordauthentication no\n", "\nallowusers m1\n", "\nusepam yes\n"} {
		if !strings.Contains(shown, line) {
			t.Errorf("sshd -T without %q:\n%s", line, shown)
		}
	}
	for _, shut := range []string{`AllowUsers somebody\n`, `AuthorizedKeysFile none\n`, `PubkeyAuthentication no\n`, `Nonsense yes\n`} {
		write(shut)
		if b.dialAs("m1", key) == nil {
			t.Errorf("a key was taken under %s", shut)
		}
	}
	if err := b.dialAs("m1", key); err == nil || strings.Contains(err.Error(), "unable to authenticate") {
		t.Errorf("settings that sshd cannot read got as far as a login: %v", err)
	}
	var bad *ScriptError
	if _, err := b.AsRoot(t.Context(), "sshd -t -f /etc/ssh/sshd_config.d/000-x.conf"); !errors.As(err, &bad) || bad.RC != 255 {
		t.Errorf("sshd -t of nonsense: %v", err)
	}
	b.asRoot("rm /etc/ssh/sshd_config.d/000-x.conf")
	if err := b.dialAs("m1", key); err != nil {
		t.Errorf("without the drop-in: %v", err)
	}
}

func TestLogRotationSignalsTheProcess(t *testing.T) {
	b := startBench(t, nil)
	got := b.asRoot(`printf '/var/log/x.log 640 3 1 * - /var/run/x.pid 30\n' >/etc/newsyslog.d/x.conf
		dd if=/dev/zero of=/var/log/x.log bs=2048 count=1 2>/dev/null
		(trap 'echo told >/var/log/told; exit' USR1; : >/var/run/x.armed; while :; do sleep 0.05; done) & echo $! >/var/run/x.pid
		until test -e /var/run/x.armed; do sleep 0.05; done
		newsyslog -nvv -f /etc/newsyslog.d/x.conf | grep -c trimming
		newsyslog -f /etc/newsyslog.d/x.conf; wait; cat /var/log/told; stat -f %z /var/log/x.log /var/log/x.log.0`)
	if want := "1\ntold\n0\n2048"; got != want {
		t.Errorf("rotation: %q, want %q", got, want)
	}
}

func TestBootQuirks(t *testing.T) {
	b := startBench(t, nil)
	b.asRoot("echo x >/tmp/x && echo x >/var/run/x && echo x >/var/tmp/x")
	session := b.ok("sysctl -n kern.bootsessionuuid")
	set := func(q Quirks) {
		t.Helper()
		if err := b.SetSwitches(t.Context(), Switches{Quirks: q}); err != nil {
			t.Fatal(err)
		}
	}
	set(Quirks{IgnoresShutdown: true})
	if out := b.asRoot("shutdown -r now"); !strings.Contains(out, "Shutdown NOW!") {
		t.Errorf("shutdown says %q", out)
	}
	// A shutdown that is obeyed takes a third of a second.
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		if o, err := b.try("sysctl -n kern.bootsessionuuid", ""); err != nil || strings.TrimSpace(o.out) != session {
			t.Fatal("the Mac rebooted although it ignores that")
		}
	}
	set(Quirks{BaseSystem: true})
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	checks := b.PasswordVerifications()
	if b.dialAs("m1", ssh.PublicKeys(b.signer)) == nil || b.dialAs("m1", ssh.Password(testPassword)) == nil {
		t.Error("the base system let somebody in")
	}
	if b.PasswordVerifications() != checks+1 {
		t.Errorf("%d passwords checked", b.PasswordVerifications()-checks)
	}
	set(Quirks{})
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.ok("ls /tmp /var/run /var/tmp | grep -c '^x$'"); got != "1" {
		t.Errorf("files that a boot left: %s", got)
	}
}
