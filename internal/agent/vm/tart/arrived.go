package tart

import (
	"os"
	"path/filepath"

	"github.com/macfleet/macfleet/internal/filetree"
)

// arrivedEntries are as many files of one pull as are measured; it has three.
const arrivedEntries = 100

// Arrived is how many bytes of images that are not whole lie on the volume, whoever pulls
// them or has left them.
func Arrived(home string) int64 {
	tmp := filepath.Join(home, "tmp")
	entries, _ := os.ReadDir(tmp) // that is not there: nothing came yet
	var sum int64
	for _, e := range entries {
		if leftoverPattern.MatchString(e.Name()) {
			sum += filetree.Size(filepath.Join(tmp, e.Name()), filetree.Limits{Entries: arrivedEntries})
		}
	}
	return sum
}
