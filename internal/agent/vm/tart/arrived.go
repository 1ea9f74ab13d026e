package tart

import (
	"os"
	"path/filepath"

	"github.com/macfleet/macfleet/internal/filetree"
)

// arrivedEntries are as many files of one pull as are measured; it has three.
const arrivedEntries = 100

// Arrived is how many bytes of images that are not whole lie on the volume, whoever pulls
// them or has left them, but for the images beside.
func Arrived(home string, beside []string) int64 {
	theirs := map[string]bool{}
	for _, ref := range beside {
		theirs[leftoverName(ref)] = true
	}
	tmp := filepath.Join(home, "tmp")
	entries, _ := os.ReadDir(tmp) // that is not there: nothing came yet
	var sum int64
	for _, e := range entries {
		if leftoverPattern.MatchString(e.Name()) && !theirs[e.Name()] {
			sum += filetree.Size(filepath.Join(tmp, e.Name()), filetree.Limits{Entries: arrivedEntries})
		}
	}
	return sum
}
