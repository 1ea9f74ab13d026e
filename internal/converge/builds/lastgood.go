package builds

import (
	"context"
	"errors"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const lastGoodConfigFile = document.StateDir + "/proved-config.json"

var lastGood = step.Note[Identity]{Path: document.StateDir + "/proved.json", What: "which build was proved last"}

// Identity is what the processes of a build should say of themselves.
type Identity struct {
	Build        string `json:"build"`
	ConfigSHA256 string `json:"configSHA256"`
}

// Wanted is the build of the document, with the configuration it asks for.
func (s Store) Wanted() (Identity, error) {
	config, err := document.EncodeConfig(s.Desired)
	return Identity{s.Desired.Agent.SHA256, document.Hash(config)}, err
}

// LastGood is the build that was healthy last, with the configuration it had then: what
// the Mac goes back to when a new build does not become healthy. None is the zero
// value. A record that cannot be read is as good as none: the next healthy start
// writes it again.
func (s Store) LastGood() (Identity, error) {
	last, err := lastGood.Read(s.Mac.Files)
	if !document.IsSHA256(last.Build) {
		return Identity{}, err
	}
	return last, err
}

// NotLastGood says that the wanted build and configuration are not the last good ones.
func (s Store) NotLastGood() ([]string, error) {
	last, err := s.LastGood()
	if err != nil {
		return nil, err
	}
	want, err := s.Wanted()
	if err != nil || last == want {
		return nil, err
	}
	return []string{"the build was not proved with this configuration"}, nil
}

// RecordLastGood remembers that the wanted build runs with the wanted configuration.
func (s Store) RecordLastGood(ctx context.Context) error {
	config, err := document.EncodeConfig(s.Desired)
	if err != nil {
		return err
	}
	// A record whose configuration does not match it is no rollback target, so the
	// order of the two does not matter to a run that is cut off between them.
	if err := step.Write(ctx, s.Mac.Files, step.File{Path: lastGoodConfigFile, Data: config, Attr: step.RootAttr(0o600)}); err != nil {
		return err
	}
	if err := lastGood.Write(ctx, s.Mac.Files, Identity{s.Desired.Agent.SHA256, document.Hash(config)}); err != nil {
		return err
	}
	return s.clearFailures(ctx)
}

// RollbackTarget is the last good build, when it is another one than the wanted, with
// its configuration.
func (s Store) RollbackTarget() (Identity, []byte, error) {
	old, err := s.LastGood()
	if err != nil || old.Build == "" || old.Build == s.Desired.Agent.SHA256 {
		return Identity{}, nil, err
	}
	config, err := step.Read(s.Mac.Files, lastGoodConfigFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && document.Hash(config) != old.ConfigSHA256 {
		return Identity{}, nil, nil
	}
	return old, config, err
}
