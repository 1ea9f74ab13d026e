package fidelity

import (
	"os"
	"strings"
	"testing"
)

// reference is a form of the step that was in use elsewhere: the password by a pipe,
// the rule by a here-document, both into one command.
const reference = `printf "%s\n" "$PASSWORD" | sudo -S -p "" tee /etc/sudoers.d/m1-reference <<END
m1 ALL=(ALL) NOPASSWD: ALL
END`

const reads = "/etc/sudoers.d/m1-reference"

// What that form does depends on the shell: only zsh gives sudo both. Elsewhere the
// right password never arrives, and where sudo asks nothing, it becomes the rule.
func TestF01_ReferenceFormBurnsAndLeaks(t *testing.T) {
	for name, c := range map[string]struct {
		shell, password, before string
		ok                      bool
		spent                   int
		leaks                   bool
	}{
		"zsh, right":           {"/usr/bin/zsh", right, "", true, 1, false},
		"zsh, wrong":           {"/usr/bin/zsh", "wrong", "", false, 2, false},
		"bash, right":          {"/bin/bash", right, "", false, 1, false},
		"dash, right":          {"/bin/dash", right, "", false, 1, false},
		"zsh, sudo asks not":   {"/usr/bin/zsh", right, "m1 ALL=(ALL) NOPASSWD: ALL\n", true, 0, true},
		"bash, sudo asks not":  {"/bin/bash", right, "m1 ALL=(ALL) NOPASSWD: ALL\n", true, 0, false},
		"zsh, with a bad rule": {"/usr/bin/zsh", right, "garbage\n", true, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := fresh(t, c.shell)
			if c.before != "" {
				w.put("/etc/sudoers.d/image", c.before, 0o440)
			}
			_, _, ok := w.as(c.shell, reference, c.password)
			if ok != c.ok || w.verifications() != c.spent {
				t.Errorf("ok %v, %d verifications; want %v, %d", ok, w.verifications(), c.ok, c.spent)
			}
			text, err := os.ReadFile(reads)
			if leaked := strings.Contains(string(text), c.password); leaked != c.leaks {
				t.Errorf("leaked %v, want %v (%v)", leaked, c.leaks, err)
			}
			if !c.leaks {
				return
			}
			if _, stderr, _ := w.as(c.shell, "sudo -n true", ""); !strings.Contains(stderr, `"horse"`) {
				t.Errorf("sudo does not show the line that it does not understand: %q", stderr)
			}
		})
	}
}

// What an attempt costs of what macOS allows before it locks the account.
func TestF02_WhatAnAttemptCosts(t *testing.T) {
	const one = `printf "%s\n" "$PASSWORD" | sudo -S -k -p "" true`
	for name, c := range map[string]struct {
		script, password string
		ok               bool
		spent            int
	}{
		"asking nothing":          {"sudo -n true", "", false, 0},
		"the right one":           {one, right, true, 1},
		"a wrong one":             {one, "wrong", false, 1},
		"the mark of a sealed":    {one, "<sealed>", false, 1},
		"an empty one":            {one, "", false, 0},
		"no line at all":          {`sudo -S -k -p "" true </dev/null`, "", false, 0},
		"a wrong one, not ended":  {`{ printf "%s\n" "$PASSWORD"; printf "%s\n" more; } | sudo -S -k -p "" true`, "wrong", false, 2},
		"four lines, three tries": {`{ yes "$PASSWORD" | head -n 4; } | sudo -S -k -p "" true`, "wrong", false, 3},
	} {
		w := fresh(t, "/usr/bin/zsh")
		if _, _, ok := w.as("/usr/bin/zsh", c.script, c.password); ok != c.ok || w.verifications() != c.spent {
			t.Errorf("%s: ok %v, %d verifications; want %v, %d", name, ok, w.verifications(), c.ok, c.spent)
		}
	}
}

// Which files of /etc/sudoers.d count, and which of them has the last word.
func TestWhatBecomesOfADropIn(t *testing.T) {
	const rule, takenBack = "m1 ALL=(ALL) NOPASSWD: ALL\n", "m1 ALL=(ALL) PASSWD: ALL\n"
	type file struct {
		name, text string
		mode       os.FileMode
		owner      int
	}
	ours := file{"m1-nopasswd", rule, 0o440, 0}
	for name, c := range map[string]struct {
		files  []file
		counts bool
	}{
		"none":                    {nil, false},
		"0440":                    {[]file{ours}, true},
		"0600":                    {[]file{{"m1-nopasswd", rule, 0o600, 0}}, true},
		"0644":                    {[]file{{"m1-nopasswd", rule, 0o644, 0}}, true},
		"writable by all":         {[]file{{"m1-nopasswd", rule, 0o666, 0}}, false},
		"anything for all":        {[]file{{"m1-nopasswd", rule, 0o777, 0}}, false},
		"of the user":             {[]file{{"m1-nopasswd", rule, 0o440, uid}}, false},
		"a dot in its name":       {[]file{{"m1.nopasswd", rule, 0o440, 0}}, false},
		"a backup":                {[]file{{"m1-nopasswd~", rule, 0o440, 0}}, false},
		"a later one asks":        {[]file{ours, {"zz", takenBack, 0o440, 0}}, false},
		"an earlier one asks":     {[]file{ours, {"aa", takenBack, 0o440, 0}}, true},
		"garbage beside it":       {[]file{ours, {"image", "garbage\n", 0o440, 0}}, true},
		"garbage after it":        {[]file{ours, {"zz", "garbage\n", 0o440, 0}}, true},
		"garbage in its own file": {[]file{{"m1-nopasswd", "garbage\n" + rule, 0o440, 0}}, true},
	} {
		w := fresh(t, "/usr/bin/zsh")
		for _, f := range c.files {
			w.put("/etc/sudoers.d/"+f.name, f.text, f.mode)
			w.must(os.Chown("/etc/sudoers.d/"+f.name, f.owner, 0))
		}
		if _, stderr, ok := w.as("/usr/bin/zsh", "sudo -n true", ""); ok != c.counts {
			t.Errorf("%s: %v, want %v: %s", name, ok, c.counts, stderr)
		}
	}
}

// sudo lists what it would ask a password for, as soon as anything needs none. So a
// listed command is no proof that it may be run.
func TestListedIsNotAllowedWithoutAPassword(t *testing.T) {
	const asks, tells = "sudo -n /usr/bin/id -u", "sudo -n -l /usr/bin/id -u"
	w := fresh(t, "/usr/bin/zsh")
	if _, _, ok := w.as("/usr/bin/zsh", tells, ""); ok {
		t.Error("listed although everything needs a password")
	}
	w.put("/etc/sudoers.d/image", "m1 ALL=(root) NOPASSWD: /usr/bin/true\n", 0o440)
	_, _, listed := w.as("/usr/bin/zsh", tells, "")
	if _, _, ok := w.as("/usr/bin/zsh", asks, ""); !listed || ok {
		t.Errorf("listed %v, run %v", listed, ok)
	}
}
