// Package compile builds the programs of a release from a checkout: the same source
// gives the same bytes, wherever it lies.
package compile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Program is one binary of a release.
type Program struct {
	// Package is the folder of its main package, below the checkout's root.
	Package  string
	OS, Arch string
	// Tags as for go build.
	Tags string
}

// Compiler builds from one checkout, and stamps one version.
type Compiler struct {
	Root, Version string
}

// Build compiles the program into a file.
func (c Compiler) Build(ctx context.Context, p Program, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", p.Tags,
		"-ldflags", "-s -w -X main.version="+c.Version, "-o", out, "./"+p.Package)
	cmd.Dir = c.Root
	cmd.Env = append(withoutGoSettings(os.Environ()), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s/%s: %w: %s", p.Package, p.OS, p.Arch, err, said)
	}
	return nil
}

// withoutGoSettings drops what would make one machine's build differ from another's.
func withoutGoSettings(environment []string) []string {
	var kept []string
	for _, setting := range environment {
		name, _, _ := strings.Cut(setting, "=")
		switch name {
		case "GOFLAGS", "GOWORK", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GODEBUG", "GOFIPS140":
		default:
			kept = append(kept, setting)
		}
	}
	return kept
}
