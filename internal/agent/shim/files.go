package shim

import (
	"time"

	"github.com/macfleet/macfleet/internal/atomicfile"
)

const (
	// recordPatience is how long a record that cannot be written, as the disk is full,
	// is tried again.
	recordPatience = time.Minute
	recordPause    = time.Second
)

// record writes what must not be lost, and tries again for a while. tried is called
// after the first time.
func record(path string, value any, tried func()) error {
	begin := time.Now()
	err := atomicfile.WriteJSON(path, value)
	tried()
	for err != nil && time.Since(begin) < recordPatience {
		time.Sleep(recordPause)
		err = atomicfile.WriteJSON(path, value)
	}
	return err
}
