package mac

import (
	"strings"
	"testing"
)

func TestSudoCountsVerifications(t *testing.T) {
	tests := []struct {
		name, script, stdin string
		rc, verifications   int
		says                string
	}{
		{"without asking", "sudo -n true", "", 1, 0, "a password is required"},
		{"one wrong line", `read -r p; printf '%s\n' "$p" | sudo -S -k -p '' true`, "wrong\n", 1, 1, "1 incorrect password attempt"},
		{"the right line", `read -r p; printf '%s\n' "$p" | sudo -S -k -p '' id -u`, testPassword + "\n", 0, 1, ""},
		{"an empty line", `printf '\n' | sudo -S -k -p '' true`, "", 1, 0, "no password was provided"},
		{"nothing", `sudo -S -k -p '' true </dev/null`, "", 1, 0, "no password was provided"},
		{"two wrong lines", `printf 'a\nb\n' | sudo -S -k -p '' true`, "", 1, 2, "2 incorrect password attempts"},
		{"three wrong lines of four", `printf 'a\nb\nc\nd\n' | sudo -S -k -p '' true`, "", 1, 3, "3 incorrect password attempts"},
		{"the sealed marker", `printf '<sealed>\n' | sudo -S -k -p '' true`, "", 1, 1, "incorrect password"},
	}
	b := startBench(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := b.PasswordVerifications()
			got := b.sh(tt.script, tt.stdin)
			if n := b.PasswordVerifications() - before; n != tt.verifications || got.rc != tt.rc || !strings.Contains(got.err, tt.says) {
				t.Errorf("%d verifications, %+v; want %d, rc %d and %q", n, got, tt.verifications, tt.rc, tt.says)
			}
		})
	}
	for _, e := range b.Transcript() {
		if strings.Contains(strings.Join(e.Argv, " "), testPassword) {
			t.Errorf("the password is in the transcript: %q", e.Argv)
		}
	}
}

func TestSudoRaisesIdentityAndCleansTheEnvironment(t *testing.T) {
	b := startBench(t, nil)
	b.grant()
	got := b.ok(`SECRET=x sudo -n /bin/sh -c 'id -u; echo "$HOME $USER $SUDO_USER ${SECRET-unset}"; echo in | sudo -n -u m1 id -un; touch /Library/by-root; stat -f %Su /Library/by-root'`)
	if want := "0\n/Users/m1 root m1 unset\nm1\nroot"; got != want {
		t.Errorf("as root:\n%s\nwant:\n%s", got, want)
	}
	if got := b.sh("sudo -n /bin/sh -c 'kill -9 $$'", ""); got.rc != 137 {
		t.Errorf("a killed command: %+v, want rc 137", got)
	}
	if got := b.sh("touch /Library/by-user; chown m1 /Library/by-root; rm -f /Library/by-root", ""); got.rc == 0 || strings.Count(got.err, "ermi") != 3 {
		t.Errorf("the user changed root's files: %+v", got)
	}
}

func TestSudoDropIns(t *testing.T) {
	const rule = "m1 ALL = (ALL) NOPASSWD: ALL"
	tests := []struct {
		name, prepare string
		works         bool
		says          string
	}{
		{"good", `put zz-m1 0440 root:wheel "` + rule + `"`, true, ""},
		{"dot in its name", `put zz.m1 0440 root:wheel "` + rule + `"`, false, ""},
		{"world writable", `put zz-m1 0646 root:wheel "` + rule + `"`, false, "is world writable"},
		{"not root's", `put zz-m1 0440 m1:staff "` + rule + `"`, false, "is owned by uid 501, should be 0"},
		{"overridden by a later one", `put zz-m1 0440 root:wheel "` + rule + `"; put zzz 0440 root:wheel "m1 ALL = (ALL) ALL"`, false, ""},
		{"garbage before a good one is echoed", `put aa 0440 root:wheel hunter2; put zz-m1 0440 root:wheel "` + rule + `"`, true, "hunter2"},
	}
	b := startBench(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prepare := `read -r p; printf '%s\n' "$p" | sudo -S -k -p '' /bin/sh -c '
				put() { echo "$4" >/etc/sudoers.d/$1; chown $3 /etc/sudoers.d/$1; chmod $2 /etc/sudoers.d/$1; }
				rm -f /etc/sudoers.d/*; ` + tt.prepare + `'`
			if got := b.sh(prepare, testPassword+"\n"); got.rc != 0 {
				t.Fatalf("preparing: %+v", got)
			}
			got := b.sh("sudo -n true", "")
			if (got.rc == 0) != tt.works || !strings.Contains(got.err, tt.says) {
				t.Errorf("sudo -n: %+v, want works=%v, saying %q", got, tt.works, tt.says)
			}
		})
	}
}

func TestVisudo(t *testing.T) {
	b := startBench(t, nil)
	got := b.root(`echo "m1 ALL = NOPASSWD: ALL" >/tmp/good; echo "m1 ALL" >/tmp/bad
		visudo -cf /tmp/good; echo $?; visudo -cf /tmp/bad 2>/dev/null; echo $?; visudo -c; echo $?
		chmod 0644 /etc/sudoers.d/zz-m1; visudo -c >/dev/null 2>&1; echo $?`)
	want := "/tmp/good: parsed OK\n0\n1\n/etc/sudoers: parsed OK\n/private/etc/sudoers.d/zz-m1: parsed OK\n0\n1\n"
	if got.out != want {
		t.Errorf("visudo:\n%s%s\nwant:\n%s", got.out, got.err, want)
	}
}

func TestLockedAccountClosesSSH(t *testing.T) {
	b := startBench(t, func(o *Options) { o.LockAfter = 2 })
	b.sh(`printf 'a\nb\n' | sudo -S -k -p '' true`, "")
	if c, _, err := b.dial(); err == nil {
		_, err := openSession(c)
		if err == nil {
			t.Fatal("a locked account got a session")
		}
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.ok("true")
}

func TestArmedFault(t *testing.T) {
	b := startBench(t, nil)
	if err := b.ArmFault(t.Context(), Fault{Command: "sw_vers", RC: 9, Stderr: "broken\n"}); err != nil {
		t.Fatal(err)
	}
	if got := b.sh("sw_vers", ""); got.rc != 9 || got.err != "broken\n" {
		t.Errorf("armed: %+v", got)
	}
	b.ok("sw_vers")
}
