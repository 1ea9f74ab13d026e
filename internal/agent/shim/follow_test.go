package shim

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func startSpec(t *testing.T, script string, spec Spec) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "attempt-0")
	spec.Run = Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
	if err := starter(t).Start(dir, spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Kill(dir); err != nil {
			t.Error(err)
		}
		awaitGone(t, dir)
	})
	return dir
}

func TestOutputOfAMachineIsLogged(t *testing.T) {
	dir := startSpec(t, "echo one; echo two >&2; printf half", Spec{Log: "main.log"})
	awaitGone(t, dir)
	want := regexp.MustCompile(`^\S+Z stdout F one\n\S+Z stdout F two\n\S+Z stdout P half\n$`)
	if got := read(t, filepath.Join(dir, "main.log")); !want.MatchString(got) {
		t.Errorf("log %q", got)
	}
	if got := read(t, filepath.Join(dir, outputFile)); got != "one\ntwo\nhalf" {
		t.Errorf("output %q", got)
	}
}

// awaitText waits until a file has a text.
func awaitText(t *testing.T, path, text string) {
	t.Helper()
	late := time.After(deadline)
	for {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), text) {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			t.Fatalf("%s never says %q", path, text)
		}
	}
}

func TestOutputIsLoggedWhileTheMachineRuns(t *testing.T) {
	dir := startSpec(t, "echo begun; exec sleep 60", Spec{Log: "main.log"})
	awaitText(t, filepath.Join(dir, "main.log"), "stdout F begun\n")
}

func TestOutputStaysInItsBounds(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	// Each round is more than a file may have, and goes on until it was seen.
	round := "i=0; while [ $i -lt 300 ]; do echo line-$r-$i; i=$((i+1)); done; while [ ! -e " + gate + "-$r ]; do echo mark-$r; sleep 0.01; done"
	// What is written while a file is copied and emptied is lost: the last lines wait for a file
	// that is not full, which nobody copies.
	last := "while [ $(wc -c < $(cat " + gate + "-output)) -ge 2000 ]; do sleep 0.01; done; printf 'mark-4\\nlast\\n'"
	dir := startSpec(t, "for r in 0 1 2 3 4; do "+round+"; done; "+last, Spec{Log: "main.log", Logs: Logs{MaxBytes: 2000, MaxFiles: 3}})
	if err := os.WriteFile(gate+"-output", []byte(filepath.Join(dir, outputFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	for r := range 5 {
		awaitText(t, filepath.Join(dir, "main.log"), "mark-"+strconv.Itoa(r)+"\n")
		if err := os.WriteFile(gate+"-"+strconv.Itoa(r), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	awaitGone(t, dir)
	output := filepath.Join(dir, outputFile)
	files, err := filepath.Glob(output + "*")
	if err != nil || len(files) != 3 {
		t.Errorf("files %q, err %v", files, err)
	}
	if got := read(t, output); len(got) >= 2000 {
		t.Errorf("the output has %d bytes", len(got))
	}
	e, found, err := ReadExit(dir)
	if err != nil || !found || !strings.HasSuffix(e.Tail, "\nmark-4\nlast\n") || len(e.Tail) < 2000 || len(e.Tail) > tailBytes {
		t.Errorf("found %v, err %v, tail of %d bytes: %q", found, err, len(e.Tail), e.Tail)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "main.log*"))
	if err != nil || len(logs) != 3 {
		t.Errorf("logs %q, err %v", logs, err)
	}
}

// Nothing of the shim's is in the way of a machine that prints.
func TestMachineOutlivesItsShim(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	dir := startSpec(t, "echo begun; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo still here", Spec{Log: "main.log"})
	awaitText(t, filepath.Join(dir, outputFile), "begun")
	killShim(t, dir)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitText(t, filepath.Join(dir, outputFile), "still here")
	if _, found, err := ReadExit(dir); err != nil || found {
		t.Errorf("found %v, err %v", found, err)
	}
}
