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
	path := filepath.Join(dir, AgentFile)
	if _, err := os.Stat(path + remote.PackedSuffix); err == nil {
		path += remote.PackedSuffix
	}
	build, err := remote.ReadBuild(path)
	if err != nil {
		return Agent{}, fmt.Errorf("the agent for Macs cannot be used: %w", err)
	}
	return Agent{Version: version, Build: build}, nil
}
