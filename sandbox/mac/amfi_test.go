package mac

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// signedBench is a Mac with a staged darwin program that has a twin.
func signedBench(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	darwin, linux := twins(t)
	b := startBench(t, func(o *Options) {
		o.Twins = map[string]string{fmt.Sprintf("%x", sha256.Sum256(darwin)): linux}
		if change != nil {
			change(o)
		}
	})
	b.grant()
	if got := b.sh("cat >first && chmod 0755 first && cp first second && codesign --force --sign - --identifier second second", string(darwin)); got.rc != 0 {
		t.Fatalf("staging: %+v", got)
	}
	return b
}

func TestF08_OverwritingAProgramInPlaceGetsItKilled(t *testing.T) {
	b := signedBench(t, nil)
	tests := []struct {
		name, script string
		rc           int
	}{
		{"first execution", "sudo -n cp first /Library/agent && sudo -n /Library/agent x", 0},
		{"overwritten", "sudo -n /bin/sh -c 'cat second >/Library/agent' && sudo -n /Library/agent x", 137},
		{"signed again, which makes a new file", "sudo -n codesign --force --sign - --identifier third /Library/agent && sudo -n /Library/agent x", 0},
		{"replaced by rename", "sudo -n cp first /Library/next && sudo -n mv /Library/next /Library/agent && sudo -n /Library/agent x", 0},
	}
	for _, tt := range tests {
		if got := b.sh(tt.script, ""); got.rc != tt.rc {
			t.Errorf("%s: %+v, want rc %d", tt.name, got, tt.rc)
		}
	}
	if err := b.SetSwitches(t.Context(), Switches{RecycledVnodes: 1}); err != nil {
		t.Fatal(err)
	}
	if got := b.sh("sudo -n /bin/sh -c 'cat second >/Library/agent' && sudo -n /Library/agent x", ""); got.rc != 0 {
		t.Errorf("overwritten, the kernel having forgotten: %+v", got)
	}
}

func TestF08_LaunchdTellsThatAProgramWasKilledForItsSignature(t *testing.T) {
	b := signedBench(t, nil)
	b.daemonRuns("/Library/agent")
	if got := b.root("cd /Users/m1 && cp first /Library/agent && launchctl bootstrap system " + plistPath); got.rc != 0 {
		t.Fatalf("bootstrap: %+v", got)
	}
	await(t, "the job to run", func() bool { return b.sh("cat proof", "").out == "501" })
	b.root("cd /Users/m1 && cat second >/Library/agent; launchctl kickstart -k system/dev.test.job")
	await(t, "the job to be killed", func() bool {
		return strings.Contains(b.sh("launchctl print system/dev.test.job", "").out, "\tlast exit reason = OS_REASON_CODESIGNING\n")
	})
	b.root("codesign --force --sign - --identifier agent /Library/agent; launchctl kickstart -k system/dev.test.job")
	await(t, "the job to run again", func() bool { return b.job()["state"] == "running" })
}

// daemonRuns writes a property list for a program in place of a script.
func (b *bench) daemonRuns(program string) {
	b.t.Helper()
	text := strings.NewReplacer("<string>/bin/sh</string><string>-c</string><string></string>", "<string>"+program+"</string><string>run</string>").
		Replace(plist("", keepAlive))
	if got := b.sh("cat >job.plist && sudo -n cp job.plist "+plistPath+" && sudo -n chown root:wheel "+plistPath, text); got.rc != 0 {
		b.t.Fatalf("writing the property list: %+v", got)
	}
}

func TestProgramsThatCannotBeExecuted(t *testing.T) {
	b := signedBench(t, nil)
	tests := []struct {
		name, prepare string
		rc            int
		says          string
	}{
		{"nothing in it", ": >bad", 126, "exec format error"},
		{"half of it", "dd if=first of=bad bs=1m count=1 2>/dev/null", 126, "exec format error"},
		{"a flipped byte", "printf x | dd of=bad bs=1 seek=4000 conv=notrunc 2>/dev/null", 137, ""},
		{"not executable", "chmod 0644 bad", 1, "command not found"},
		{"not there", "rm bad", 1, "command not found"},
	}
	for _, tt := range tests {
		got := b.sh("rm -f bad; cp first bad; "+tt.prepare+"; sudo -n ./bad x", "")
		if got.rc != tt.rc || !strings.Contains(got.err, tt.says) {
			t.Errorf("%s: %+v, want rc %d and %q", tt.name, got, tt.rc, tt.says)
		}
	}
}

func TestCodesign(t *testing.T) {
	b := signedBench(t, nil)
	tests := []struct {
		name, script string
		rc           int
		says         string
	}{
		{"as the linker made it", "codesign --verify --strict first", 0, ""},
		{"as signed here", "codesign --verify --strict second", 0, ""},
		{"a tool of the system", "codesign --verify --strict /bin/ls", 0, ""},
		{"a byte more", "cp first more; echo >>more; codesign --verify more && codesign --verify --strict more", 1, "main executable failed strict validation"},
		{"a flipped byte", "cp first bad; printf x | dd of=bad bs=1 seek=4000 conv=notrunc 2>/dev/null; codesign --verify --strict bad", 1, "bad: invalid signature (code or signature have been modified)"},
		{"a script", "echo echo >s; codesign --verify --strict s", 1, "s: code object is not signed at all"},
		{"nothing there", "codesign --verify --strict none", 1, "none: No such file or directory"},
		{"signed already", "codesign --sign - first", 1, "first: is already signed"},
		{"another's file", "codesign --force --sign - /Library/agent", 1, "ermi"},
		{"its own bundle", "mkdir -p A.app/Contents/MacOS; cp first A.app/Contents/MacOS/a; echo '<plist><dict><key>CFBundleExecutable</key><string>a</string></dict></plist>' >A.app/Contents/Info.plist; codesign --verify --deep --strict A.app", 0, ""},
		{"a broken bundle", "cp bad A.app/Contents/MacOS/a; codesign --verify --deep --strict A.app", 1, "A.app: invalid signature"},
		{"no bundle", "mkdir B.app; codesign --verify --deep --strict B.app", 1, "bundle format unrecognized"},
		{"a stranger's identity", "codesign --force --sign 'Developer ID' first", 64, "not modelled"},
	}
	b.root("cp /Users/m1/first /Library/agent")
	for _, tt := range tests {
		if got := b.sh(tt.script, ""); got.rc != tt.rc || !strings.Contains(got.err, tt.says) {
			t.Errorf("%s: %+v, want rc %d and %q", tt.name, got, tt.rc, tt.says)
		}
	}
	linked, signed := b.sh("codesign -dvvv first", "").err, b.sh("codesign -dvvv second", "").err
	if !strings.Contains(linked, "flags=0x20002(adhoc,linker-signed)") || !strings.Contains(signed, "Identifier=second\n") || !strings.Contains(signed, "flags=0x2(adhoc)") {
		t.Errorf("display:\n%s\n%s", linked, signed)
	}
	hash := regexp.MustCompile(`(?m)^CDHash=[0-9a-f]{40}$`)
	if a, z := hash.FindString(linked), hash.FindString(signed); a == "" || z == "" || a == z {
		t.Errorf("hashes %q and %q", a, z)
	}
}

func TestSigningMakesANewFileThatRunsAsTheSameTwin(t *testing.T) {
	b := signedBench(t, nil)
	before := b.ok("stat -f '%i %Su %Lp' second; shasum -a 256 <second")
	b.ok("codesign --force --sign - --identifier again second")
	after := b.ok("stat -f '%i %Su %Lp' second; shasum -a 256 <second")
	if bytes.Equal([]byte(before), []byte(after)) || strings.Fields(before)[0] == strings.Fields(after)[0] {
		t.Errorf("before %q, after %q", before, after)
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.sh("sudo -n ./second x", ""); got.rc != 0 || got.out != "linux 0 [./second x]\n" {
		t.Errorf("after signing twice and a reboot: %+v", got)
	}
}
