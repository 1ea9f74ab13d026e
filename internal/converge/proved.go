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
	provedFile       = document.StateDir + "/proved.json"
	provedConfigFile = document.StateDir + "/proved-config.json"
)

// rootFile is what only root may read.
var rootFile = macos.Attr{Mode: 0o600, Owner: root, Group: wheel}

// provenBuild is the build that proved itself last, with the configuration it had then:
// what the Mac goes back to when a new build does not prove itself.
type provenBuild struct {
	Build        string `json:"build"`
	ConfigSHA256 string `json:"configSHA256"`
}

// proved reads the last proof; none is the zero value. One that cannot be read is
// as good as none: it is written again by the next proof.
func (t *target) proved() (provenBuild, error) {
	var p provenBuild
	data, err := read(t.Mac.Files, provedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("reading which build was proved last: %w", err)
	}
	if json.Unmarshal(data, &p) != nil || !document.IsSHA256(p.Build) {
		return provenBuild{}, nil
	}
	return p, nil
}

// notProved says that the wanted build and configuration are not the proved ones.
func (t *target) notProved() ([]string, error) {
	p, err := t.proved()
	if err != nil {
		return nil, err
	}
	want, err := t.wantedIdentity()
	if err != nil || p.Build == want.build && p.ConfigSHA256 == want.configHash {
		return nil, err
	}
	return []string{"the build was not proved with this configuration"}, nil
}

// noteProved remembers that the wanted build runs with the wanted configuration.
func (t *target) noteProved(ctx context.Context) error {
	config, err := document.EncodeConfig(t.desired)
	if err != nil {
		return err
	}
	now := provenBuild{Build: t.desired.Agent.SHA256, ConfigSHA256: document.Hash(config)}
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encoding the proof: %w", err)
	}
	// A proof whose configuration does not match it is no way back, so the order of
	// the two does not matter to a run that is cut off between them.
	if err := write(ctx, t.Mac.Files, file{provedConfigFile, config, rootFile}); err != nil {
		return err
	}
	if err := write(ctx, t.Mac.Files, file{provedFile, append(data, '\n'), rootFile}); err != nil {
		return err
	}
	return t.forgive(ctx)
}
