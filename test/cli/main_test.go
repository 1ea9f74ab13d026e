// Package cli runs the programs as a person would, with bad input and with Ctrl-C:
// each mistake gets one clear line and the right exit code, and nothing is left
// behind.
package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/sandbox/world"
)

// programs are built once for all tests.
var programs struct {
	macfleet string
	world.Binaries
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mfcli")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs.macfleet = filepath.Join(dir, "macfleet")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", programs.macfleet, "./cmd/macfleet")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building macfleet: %v\n%s", err, output)
		return 1
	}
	if programs.Binaries, err = world.Build(context.Background(), world.BuildOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// result is how a program ended.
type result struct {
	code           int
	stdout, stderr string
}

// runProgram runs a program to its end, with exactly this environment.
func runProgram(t *testing.T, env []string, name string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = env
	cmd.Dir = t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		t.Fatalf("%s: %v", name, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// checkOneLine checks that the program ended with the code and one line that says
// all of the words.
func checkOneLine(t *testing.T, r result, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	line, rest, _ := strings.Cut(r.stderr, "\n")
	if line == "" || rest != "" {
		t.Errorf("standard error is not one line: %q", r.stderr)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Errorf("%q does not say %q", line, word)
		}
	}
}
