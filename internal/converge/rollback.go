package converge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	badBuildsFile = document.StateDir + "/bad-builds.json"
	// maxTries is how often a build may fail on this Mac before only a person can
	// have it tried again.
	maxTries = 2
)

// badBuild is a build that failed on this Mac.
type badBuild struct {
	Times int `json:"times"`
	// Restart is the wished restart under which it failed last. Another one is a
	// person's word to try again.
	Restart string `json:"restart,omitempty"`
}

// badBuilds are remembered by their SHA-256. A file that cannot be read is an
// empty one: the build gets two more tries.
func (t *target) badBuilds() (map[string]badBuild, error) {
	all := map[string]badBuild{}
	data, err := read(t.Mac.Files, badBuildsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading which builds failed: %w", err)
	}
	if json.Unmarshal(data, &all) != nil || all == nil {
		all = map[string]badBuild{}
	}
	return all, nil
}

func (t *target) keepBadBuilds(ctx context.Context, all map[string]badBuild) error {
	data, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding which builds failed: %w", err)
	}
	return write(ctx, t.Mac.Files, file{badBuildsFile, append(data, '\n'), rootFile})
}

// refuseBad fails for a build that failed too often here.
func (t *target) refuseBad() error {
	all, err := t.badBuilds()
	if err != nil {
		return err
	}
	build := t.desired.Agent.SHA256
	bad := all[build]
	if bad.Times < maxTries || t.desired.Restart != "" && t.desired.Restart != bad.Restart {
		return nil
	}
	return fail(document.Human, "build %s failed twice on this Mac, which keeps what it runs: "+
		"push another build, or ask for a restart to have it tried once more", build)
}

// blame counts a failure of the wanted build, and returns how many there were.
func (t *target) blame(ctx context.Context) (int, error) {
	all, err := t.badBuilds()
	if err != nil {
		return 0, err
	}
	bad := badBuild{Times: all[t.desired.Agent.SHA256].Times + 1, Restart: t.desired.Restart}
	all[t.desired.Agent.SHA256] = bad
	return bad.Times, t.keepBadBuilds(ctx, all)
}

// forgive forgets the failures of a build that has proved itself.
func (t *target) forgive(ctx context.Context) error {
	all, err := t.badBuilds()
	if err != nil {
		return err
	}
	if _, bad := all[t.desired.Agent.SHA256]; !bad {
		return nil
	}
	delete(all, t.desired.Agent.SHA256)
	return t.keepBadBuilds(ctx, all)
}

// restartJobs brings the jobs up with what is wanted. A build that does not prove
// itself makes room for the one before it.
func (t *target) restartJobs(ctx context.Context) error {
	want, err := t.wantedIdentity()
	if err != nil {
		return err
	}
	if owed, err := t.proofOwed(ctx); err != nil {
		return err
	} else if owed {
		// They stop again with this boot. What stays is watched in the run after the
		// reboot, which finds them unproved and still owed a restart.
		_, err := t.start(ctx, want)
		return err
	}
	err = t.bringUp(ctx, want)
	var unproved *unprovedError
	if errors.As(err, &unproved) {
		return t.rollBack(ctx, unproved)
	}
	if err != nil {
		return err
	}
	if err := t.noteProved(ctx); err != nil {
		return err
	}
	if err := t.noteRestart(ctx); err != nil {
		return err
	}
	return t.settle()
}

// settle pays what is owed, once all is proved.
func (t *target) settle() error {
	for _, j := range jobs() {
		if err := t.Mac.Files.Remove(j.owed); err != nil {
			return err
		}
	}
	return nil
}

// rollBack puts the proved build and its configuration back, if there is an older
// one and the new one is to blame. The step has failed in any case: the Mac is
// not what was wanted of it.
func (t *target) rollBack(ctx context.Context, unproved *unprovedError) error {
	old, config, err := t.wayBack()
	if err != nil || old.Build == "" || !unproved.started {
		return errors.Join(unproved, err)
	}
	build := t.desired.Agent.SHA256
	times, err := t.blame(ctx)
	if err != nil {
		return errors.Join(unproved, err)
	}
	if err := t.restore(ctx, old, config); err != nil {
		return fmt.Errorf("build %s did not prove itself: %w; going back to build %s failed too: %w",
			build, unproved, old.Build, err)
	}
	t.report.RolledBack = build
	class := document.Retry
	if times >= maxTries {
		class = document.Human
	}
	return fail(class, "build %s did not prove itself (failure %d on this Mac), build %s runs again: %w",
		build, times, old.Build, unproved)
}

// wayBack is the proved build, when it is another one than the wanted and whole,
// with its configuration.
func (t *target) wayBack() (provenBuild, []byte, error) {
	old, err := t.proved()
	if err != nil || old.Build == "" || old.Build == t.desired.Agent.SHA256 {
		return provenBuild{}, nil, err
	}
	config, err := read(t.Mac.Files, provedConfigFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && document.Hash(config) != old.ConfigSHA256 {
		return provenBuild{}, nil, nil
	}
	return old, config, err
}

func (t *target) restore(ctx context.Context, old provenBuild, config []byte) error {
	if sound, err := t.slotSound(ctx, old.Build); err != nil || !sound {
		return errors.Join(err, fmt.Errorf("build %s is not whole", old.Build))
	}
	if err := t.oweAll(ctx); err != nil {
		return err
	}
	if err := t.Mac.Files.Link(currentLink, old.Build); err != nil {
		return fmt.Errorf("linking %s: %w", currentLink, err)
	}
	attr := macos.Attr{Mode: 0o640, Owner: root, Group: staff}
	if err := write(ctx, t.Mac.Files, file{document.ConfigFile, config, attr}); err != nil {
		return err
	}
	if err := t.bringUp(ctx, identity{old.Build, old.ConfigSHA256}); err != nil {
		return err
	}
	return t.settle()
}
