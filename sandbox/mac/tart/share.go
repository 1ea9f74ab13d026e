package tart

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guest"
)

// autoMountTag is the tag of shares that macOS mounts by itself.
const autoMountTag = "com.apple.virtio-fs.automount"

// parseShares reads [name:]path[:ro][,tag=T] of every --dir. What has a tag of its own
// is left out: it shows up only where the guest mounts it.
func parseShares(dirs []string) ([]guest.Share, error) {
	var shares []guest.Share
	for _, d := range dirs {
		var s guest.Share
		rest, tag, _ := strings.Cut(d, ",tag=")
		if i := strings.LastIndex(rest, ":tag="); i >= 0 {
			rest, tag = rest[:i], rest[i+len(":tag="):]
		}
		rest, s.ReadOnly = strings.CutSuffix(rest, ":ro")
		s.Path = rest
		if name, path, named := strings.Cut(rest, ":"); named {
			s.Name, s.Path = name, path
		}
		if s.Name == "" && len(dirs) > 1 {
			return nil, errors.New("each --dir needs a name when there is more than one")
		}
		if s.Path == "" || strings.Contains(s.Name, "/") {
			return nil, fmt.Errorf("invalid --dir syntax: %s", d)
		}
		abs, err := filepath.Abs(s.Path)
		if err != nil {
			return nil, fmt.Errorf("invalid --dir path: %w", err)
		}
		if s.Path = abs; tag == "" || tag == autoMountTag {
			shares = append(shares, s)
		}
	}
	return shares, nil
}
