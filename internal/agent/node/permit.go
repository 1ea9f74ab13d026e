package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// usedPermits is how many used ids are remembered; a permit is valid for an hour.
const usedPermits = 100

// permits reads what was delivered and remembers what was used.
type permits struct {
	// file is the permit, written by converge; used is ours.
	file, used string
}

// read returns nil when no permit was delivered.
func (p permits) read() (*document.JoinPermit, error) {
	data, err := os.ReadFile(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the join permit: %w", err)
	}
	var permit document.JoinPermit
	if err := json.Unmarshal(data, &permit); err != nil {
		return nil, fmt.Errorf("parsing the join permit: %w", err)
	}
	return &permit, nil
}

// wasUsed fails when that cannot be known: then no Node may be made.
func (p permits) wasUsed(id string) (bool, error) {
	ids, err := p.ids()
	return slices.Contains(ids, id), err
}

func (p permits) ids() ([]string, error) {
	data, err := os.ReadFile(p.used)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the used join permits: %w", err)
	}
	var ids []string
	if err := json.Unmarshal(data, &ids); err != nil {
		return nil, fmt.Errorf("parsing the used join permits: %w", err)
	}
	return ids, nil
}

// use returns once it is on the disk that the permit was used.
func (p permits) use(id string) error {
	ids, err := p.ids()
	if err != nil || slices.Contains(ids, id) {
		return err
	}
	return p.record(append(ids, id))
}

// forget takes the record back, once it is sure that the permit made no Node.
func (p permits) forget(id string) error {
	ids, err := p.ids()
	if err != nil {
		return err
	}
	return p.record(slices.DeleteFunc(ids, func(used string) bool { return used == id }))
}

func (p permits) record(ids []string) error {
	data, err := json.Marshal(ids[max(0, len(ids)-usedPermits):])
	if err != nil {
		return fmt.Errorf("encoding the used join permits: %w", err)
	}
	if err := replace(p.used, data); err != nil {
		return fmt.Errorf("recording which join permits were used: %w", err)
	}
	return nil
}

// replace writes by one rename, with file and name synced to the disk.
func replace(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, writeErr := f.Write(data)
	if err := errors.Join(writeErr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
