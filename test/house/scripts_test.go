package house

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckGeneratedFailsWhereTheGeneratorFails runs it with generators that change nothing.
func TestCheckGeneratedFailsWhereTheGeneratorFails(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for status, fails := range map[int]bool{0: false, 3: true} {
		dir := t.TempDir()
		script := fmt.Sprintf("#!/bin/sh\nexit %d\n", status)
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "Makefile"), makefile, 0o600), os.Mkdir(filepath.Join(dir, "hack"), 0o700),
			os.WriteFile(filepath.Join(dir, "hack", "generate.sh"), []byte(script), 0o700)); err != nil { //nolint:gosec // make runs it
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "make", "check-generated", "GENERATED=hack")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		if out, err := cmd.CombinedOutput(); (err != nil) != fails {
			t.Errorf("a generator that ends with %d: %v\n%s", status, err, out)
		}
	}
}

// TestScriptsEndWhereAPartFails: without pipefail a failure before a | goes unseen.
func TestScriptsEndWhereAPartFails(t *testing.T) {
	var scripts []string
	for _, pattern := range []string{"*.sh", "*/*.sh"} {
		found, err := filepath.Glob(filepath.Join("..", "..", "hack", pattern))
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, found...)
	}
	if len(scripts) < 5 {
		t.Fatalf("only %q are found", scripts)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "#!/usr/bin/env bash\n") || !strings.Contains(string(text), "\nset -euo pipefail\n") {
			t.Errorf("%s does not say set -euo pipefail to a bash", script)
		}
	}
}
