package stage0

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestF07_TheMainRulesetIsLeftAlone: a bootstrap, a reboot and another look load
// rules into anchors only. To load /etc/pf.conf takes the guests' network away.
func TestF07_TheMainRulesetIsLeftAlone(t *testing.T) {
	parttest.Skip(t)
	b, _, d := prepared(t)
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.converge(b.session(), d)
	loads := 0
	for _, e := range b.Transcript() {
		if filepath.Base(e.Argv[0]) != "pfctl" || !slices.Contains(e.Argv, "-f") {
			continue
		}
		loads++
		if !slices.Contains(e.Argv, "-a") || slices.ContainsFunc(e.Argv, func(a string) bool { return strings.Contains(a, "pf.conf") }) {
			t.Errorf("the main ruleset was loaded: %q", e.Argv)
		}
	}
	if loads == 0 {
		t.Error("no rules were loaded at all")
	}
}

// TestF08_WhatChangesIsANewFile: macOS remembers the signature of an inode, and
// kills a program whose bytes changed under it. So nothing is written in place:
// what has the old file open goes on reading the old bytes.
func TestF08_WhatChangesIsANewFile(t *testing.T) {
	parttest.Skip(t)
	b, s, d := prepared(t)
	path := filepath.Join(b.Root(), document.ConfigFile)
	open, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	before, err := open.Stat()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := b.read(document.ConfigFile)
	d.Node.MaxVMs, d.Join = 1, nil
	if got := b.converge(s, d)["config"]; got != document.Changed {
		t.Fatalf("config: %s", got)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(before, after) {
		t.Error("the file was overwritten in place")
	}
	if still, err := io.ReadAll(open); err != nil || string(still) != text {
		t.Errorf("what was open reads %q, %v", still, err)
	}
	if now, _ := b.read(document.ConfigFile); now == text {
		t.Error("it did not change")
	}
}

// A locked account takes the right password no more than a wrong one, and soon no
// key either; the reboot that its class asks for opens it again.
func TestF03_ALockedAccountOpensWithAReboot(t *testing.T) {
	parttest.Skip(t)
	b := newBench(t)
	s := b.session()
	var refused *remote.GrantRefused
	for range 3 {
		if err := s.Grant(t.Context(), secret("wrong")); !errors.As(err, &refused) || refused.Outcome != remote.PasswordRejected {
			t.Fatalf("a wrong password: %v", err)
		}
	}
	// sudo's words for it are those for a wrong one.
	if err := s.Grant(t.Context(), secret(password)); !errors.As(err, &refused) {
		t.Errorf("the right one of a locked account: %v", err)
	}
	// sshd takes the key and then ends the connection, before or after we notice.
	locked, err := b.dial()
	if err == nil {
		_, err = locked.Probe(t.Context())
	}
	if err == nil {
		t.Error("a locked account let a key in")
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = b.session()
	if f := b.probe(s); f.Sudo {
		t.Error("something was granted")
	}
	if err := s.Grant(t.Context(), secret(password)); err != nil {
		t.Error(err)
	}
}
