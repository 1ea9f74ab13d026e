package slot

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/macfleet/macfleet/internal/atomicfile"
)

// leak is what is known of the places that the system has lost.
type leak struct {
	// BootSession in which it was seen; in another one it is over.
	BootSession string `json:"bootSession"`
	Leaked      int    `json:"leaked"`
	// Sealed: the host was empty since, and waits for its reboot.
	Sealed bool `json:"sealed,omitempty"`
}

// loadLeak reads what an earlier process of this boot knew.
func (g *Gate) loadLeak() leak {
	none := leak{BootSession: g.bootSession}
	if g.file == "" {
		return none
	}
	data, err := os.ReadFile(g.file)
	if errors.Is(err, os.ErrNotExist) {
		return none
	}
	var known leak
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		g.log.Warn("what is known of leaked VM slots cannot be read", "file", g.file, "err", err)
		return none
	}
	if known.BootSession != g.bootSession || known.Leaked < 0 || known.Leaked > Licence {
		return none
	}
	return known
}

// saveLeak writes it down, so that another process of this boot starts nothing that
// cannot run. Where the disk fails, that one finds out by a refused start as well.
func (g *Gate) saveLeak() {
	if g.file == "" {
		return
	}
	if err := atomicfile.WriteJSON(g.file, g.leak); err != nil {
		g.log.Error("leaked VM slots cannot be written down", "file", g.file, "err", err)
	}
}
