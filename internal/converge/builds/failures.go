package builds

import (
	"context"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// MaxFailures is how often a build may fail on this Mac before only a person can have
// it tried again.
const MaxFailures = 2

// failedBuild is a build that failed on this Mac.
type failedBuild struct {
	Times int `json:"times"`
	// Restart is Desired.Restart of the run in which it failed last. Another one is a
	// person's word to try again.
	Restart string `json:"restart,omitempty"`
}

// failures are remembered by the SHA-256 of the build. A file that cannot be read is an
// empty one: the build gets two more tries.
var failures = step.Note[map[string]failedBuild]{
	Path: document.StateDir + "/bad-builds.json", What: "which builds failed",
}

// RefuseFailed fails when the wanted build failed too often here, unless it is the one
// that was good last.
func (s Store) RefuseFailed() error {
	last, err := s.LastGood()
	build := s.Desired.Agent.SHA256
	if err != nil || last.Build == build {
		return err
	}
	all, err := failures.Read(s.Mac.Files)
	if err != nil {
		return err
	}
	failed := all[build]
	if failed.Times < MaxFailures || s.Desired.Restart != "" && s.Desired.Restart != failed.Restart {
		return nil
	}
	return step.Fail(document.Human, "build %s failed twice on this Mac, which keeps what it runs: "+
		"push another build, or ask for a restart to have it tried once more", build)
}

// RecordFailure counts a failure of the wanted build, and returns how many there were.
func (s Store) RecordFailure(ctx context.Context) (int, error) {
	all, err := failures.Read(s.Mac.Files)
	if err != nil {
		return 0, err
	}
	if all == nil {
		all = map[string]failedBuild{}
	}
	failed := failedBuild{Times: all[s.Desired.Agent.SHA256].Times + 1, Restart: s.Desired.Restart}
	all[s.Desired.Agent.SHA256] = failed
	return failed.Times, failures.Write(ctx, s.Mac.Files, all)
}

// clearFailures forgets the failures of a build that became healthy.
func (s Store) clearFailures(ctx context.Context) error {
	all, err := failures.Read(s.Mac.Files)
	if err != nil {
		return err
	}
	if _, failed := all[s.Desired.Agent.SHA256]; !failed {
		return nil
	}
	delete(all, s.Desired.Agent.SHA256)
	return failures.Write(ctx, s.Mac.Files, all)
}
