// Package clitest holds what tests of the operator's verbs share: a fleet with one of each
// trouble, and golden outputs. cd internal/cli && go test ./act
// ./explain ./show ./timeline -update writes these anew.
package clitest

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/cli/screen"
)

var update = flag.Bool("update", false, "write the golden outputs anew")

// Golden compares what is written with the file of that name below testdata.
func Golden(t *testing.T, name string, sc screen.Screen, write func(io.Writer, screen.Screen) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got, sc); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := errorsOf(os.MkdirAll("testdata", 0o755), os.WriteFile(path, got.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("%s (-want +got), -update writes it anew:\n%s", name, d)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
