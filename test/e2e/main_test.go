package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/world"
)

// binaries are built once for all tests of the package.
var binaries world.Binaries

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if err := mac.Supported(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return 1
	}
	last := ""
	built, err := world.Build(context.Background(), world.BuildOptions{Progress: func(text string) {
		if text != last {
			fmt.Fprintln(os.Stderr, "e2e:", text)
			last = text
		}
	}})
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", errors.Unwrap(err))
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return 1
	}
	binaries = built
	return m.Run()
}
