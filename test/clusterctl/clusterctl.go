// Package clusterctl is the clusterctl that tests run: Cluster API's own, of the version
// that macfleet is built with.
package clusterctl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds clusterctl into a folder, from the module that makes releases.
func Build(ctx context.Context, root, dir string) (string, error) {
	binary, err := filepath.Abs(filepath.Join(dir, "clusterctl"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "sigs.k8s.io/cluster-api/cmd/clusterctl")
	cmd.Dir = filepath.Join(root, "hack", "release")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building clusterctl: %w\n%s", err, out)
	}
	return binary, nil
}

// Run runs it with a home of its own, which asks nobody for newer versions; the error has
// what it printed.
func Run(ctx context.Context, binary, home string, args ...string) (stdout string, err error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("clusterctl %q: %w\n%s%s", args, err, out.String(), told.String())
	}
	return out.String(), nil
}
