package push

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/macfleet/macfleet/internal/remote"
)

// AgentFile is the darwin/arm64 agent for Macs, in the directory of --agent-dir; or there is
// the same file compressed, with remote.PackedSuffix, as the image has it.
const AgentFile = "tart-kubelet"

// Agent is the build of the agent that Macs are given.
type Agent struct {
	// Version for people.
	Version string
	// Build is the darwin/arm64 file; its SHA-256 is the name of the build.
	*remote.Build
}

// ReadAgent finds the agent in a directory and names its build.
func ReadAgent(dir, version string) (Agent, error) {
	path, err := agentPath(dir)
	if err != nil {
		return Agent{}, err
	}
	build, err := remote.ReadBuild(path)
	if err != nil {
		return Agent{}, fmt.Errorf("the agent for Macs cannot be used: %w", err)
	}
	return Agent{Version: version, Build: build}, nil
}

// agentPath is the one file that there is: of two nobody knows which is the older.
func agentPath(dir string) (string, error) {
	plain := filepath.Join(dir, AgentFile)
	packed := plain + remote.PackedSuffix
	if _, err := os.Stat(packed); err != nil {
		return plain, nil
	}
	if _, err := os.Stat(plain); err == nil {
		return "", fmt.Errorf("the agent for Macs is there twice: remove %s or %s", plain, packed)
	}
	return packed, nil
}
