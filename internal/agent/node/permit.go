package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/macfleet/macfleet/internal/atomicfile"
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
	if err := atomicfile.WriteJSON(p.used, ids[max(0, len(ids)-usedPermits):]); err != nil {
		return fmt.Errorf("recording which join permits were used: %w", err)
	}
	return nil
}
