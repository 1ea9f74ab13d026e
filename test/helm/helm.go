// Package helm is the helm that the tests of the chart use, and what only a helm on a
// real API server shows: what --wait waits for, what the chart looks up, and what its
// hook may.
package helm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Binary is the helm that hack/generate.sh leaves in bin below the root of the
// repository, or one built for this run where nobody has generated anything yet.
func Binary(root string) (string, error) {
	made, err := filepath.Abs(filepath.Join(root, "bin", "helm"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(made); err == nil {
		return made, nil
	}
	dir, err := os.MkdirTemp("", "helm-")
	if err != nil {
		return "", err
	}
	built := filepath.Join(dir, "helm")
	cmd := exec.Command("go", "build", "-o", built, "helm.sh/helm/v4/cmd/helm")
	cmd.Dir = filepath.Join(root, "hack", "tools")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building helm: %w\n%s", err, out)
	}
	return built, nil
}
