package mac

import (
	"errors"
	"strings"
	"testing"
)

func TestAPersonAtTheMachineIsRoot(t *testing.T) {
	b := startBench(t, nil)
	out, err := b.AsRoot(t.Context(), "id -un; whoami >&2; launchctl print system/none")
	var failed *ScriptError
	if !errors.As(err, &failed) || failed.RC == 0 {
		t.Fatalf("a script that fails ended with %v", err)
	}
	if strings.Count(out, "root") != 2 {
		t.Errorf("output %q, want root twice", out)
	}
	if _, err := b.AsRoot(t.Context(), "true"); err != nil {
		t.Error(err)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AsRoot(t.Context(), "true"); !errors.Is(err, ErrOff) {
		t.Errorf("a Mac that is off ran a script: %v", err)
	}
}
