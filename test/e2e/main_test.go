package e2e

import (
	"context"
	"errors"
	"flag"
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
	flag.Parse()
	last := ""
	built, err := programs(context.Background(), func(text string) {
		if text != last {
			fmt.Fprintln(os.Stderr, "e2e:", text)
			last = text
		}
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", errors.Unwrap(err))
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return 1
	}
	binaries = built
	if err := widen(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return 1
	}
	return m.Run()
}

// atOnce sandboxes run side by side where -parallel says nothing: they mostly wait
// for the vendor, and need about 1 GB each.
const atOnce = "4"

func widen() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", atOnce)
}
