package volume

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs a setup script with a sleep and a sudo that cost nothing.
func run(t *testing.T, script string) (string, error) {
	t.Helper()
	bin := t.TempDir()
	for name, text := range map[string]string{"sleep": "#!/bin/sh\n", "sudo": "#!/bin/sh\n[ \"$1\" = -n ] && shift\nexec \"$@\"\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// exitCode is 0 for a script that did not end with one of its own.
func exitCode(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func TestSetupScriptMakesLinks(t *testing.T) {
	source, guest := t.TempDir(), t.TempDir()
	var links []Link
	for _, name := range []string{"plain", "with space", "it's", `"double"`, "$HOME `id` \\", "-rf", "ünïcode", "deep/er/down", "*"} {
		from := filepath.Join(source, name)
		if err := os.MkdirAll(from, 0o700); err != nil {
			t.Fatal(err)
		}
		links = append(links, Link{Source: from, MountPath: filepath.Join(guest, name)})
	}
	// An empty directory in the way, and a link of an earlier attempt.
	if err := errors.Join(os.Mkdir(links[0].MountPath, 0o700), os.Symlink(guestShares+"/macfleet/volumes/old", links[1].MountPath)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := run(t, SetupScript(links, nil)); err != nil || out != "" {
			t.Fatalf("%v: %s", err, out)
		}
		for _, l := range links {
			if got, err := os.Readlink(l.MountPath); err != nil || got != l.Source {
				t.Errorf("%s leads to %q, %v", l.MountPath, got, err)
			}
		}
	}
	if SetupScript(nil, nil) != "" {
		t.Error("a script for nothing")
	}
}

func TestSetupScriptReplacesNothingOfOthers(t *testing.T) {
	for name, put := range map[string]func(string) error{
		"a directory that is not empty": func(p string) error { return os.MkdirAll(p+"/x", 0o700) },
		"a file":                        func(p string) error { return os.WriteFile(p, []byte("mine"), 0o600) },
		"a link to /etc":                func(p string) error { return os.Symlink("/etc", p) },
	} {
		at := filepath.Join(t.TempDir(), "mount")
		if err := put(at); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(at)
		out, err := run(t, SetupScript([]Link{{Source: t.TempDir(), MountPath: at}}, nil))
		want := "mount path " + at + " is " + name + ", which is not replaced"
		if exitCode(err) != NeverMounted || out != want {
			t.Errorf("%s: %v: got %q, want %q", name, err, out, want)
		}
		if after, err := os.Lstat(at); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s was replaced", name)
		}
	}
}

func TestSetupScriptSaysWhatFailed(t *testing.T) {
	guest := t.TempDir()
	file := filepath.Join(guest, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, SetupScript([]Link{{Source: guest, MountPath: file + "/below"}}, nil))
	if exitCode(err) != NeverMounted || !strings.HasPrefix(out, "mount path "+file+"/below: ") || strings.Contains(out, "\n") {
		t.Errorf("%v: %q", err, out)
	}
	out, err = run(t, SetupScript([]Link{{Source: guest + "/none", MountPath: guest + "/m"}}, nil))
	if want := "the guest does not see " + guest + "/none, which " + guest + "/m should lead to"; exitCode(err) != 1 || out != want {
		t.Errorf("%v: %q", err, out)
	}
}

// TestSetupScriptNamesPlacesForMounts: macOS' own words do not say where else.
func TestSetupScriptNamesPlacesForMounts(t *testing.T) {
	sealed := "ln() { echo 'ln: /data: Read-only file system' >&2; return 1; }\nsudo() { shift; \"$@\"; }\n"
	at := filepath.Join(t.TempDir(), "data")
	out, err := run(t, sealed+SetupScript([]Link{{Source: t.TempDir(), MountPath: at}}, nil))
	want := "mount path " + at + ": ln: /data: Read-only file system; macOS seals it: mount below /Users, /private, /opt or /Volumes"
	if exitCode(err) != NeverMounted || out != want {
		t.Errorf("%v: got %q, want %q", err, out, want)
	}
}

// What lies elsewhere needs no link, and a link that cannot be made is nobody's end.
func TestMessagesBelowDevices(t *testing.T) {
	if got := messageScript([]string{"", "/tmp/m", "/dev/../tmp/m", "/dev/fd/1", "/dev"}); got != "" {
		t.Errorf("a script for nothing: %s", got)
	}
	paths := []string{"/dev/termination-log", "/dev/it's"}
	script := messageScript(paths)
	if want := "message '/dev/termination-log'\nmessage '/dev/it'\\''s'\n"; script != want {
		t.Errorf("got %s, want %s", script, want)
	}
	fails := "ln() { return 1; }\nsudo() { return 1; }\n"
	if out, err := run(t, fails+SetupScript(nil, paths)); err != nil || out != "" {
		t.Errorf("%v: %s", err, out)
	}
	dir := t.TempDir()
	if out, err := run(t, prologue+"message '"+dir+"/m'\nmessage '"+dir+"/m'\n"); err != nil || out != "" {
		t.Errorf("%v: %s", err, out)
	}
	if to, err := os.Readlink(dir + "/m"); err != nil || to != "/private/tmp/m" {
		t.Errorf("it leads to %s, %v", to, err)
	}
}
