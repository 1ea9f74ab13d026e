package document

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Images says which images a Mac has, the same for all Macs of a profile.
type Images struct {
	// PrePull are references of images that are there before a Pod asks for them.
	PrePull []string `json:"prePull,omitempty"`
	// GCHighPercent of their volume in use lets images be removed, until no more than
	// GCLowPercent is. 0: the agent's defaults.
	GCHighPercent int `json:"gcHighPercent,omitempty"`
	GCLowPercent  int `json:"gcLowPercent,omitempty"`
}

// Pods says what Pods may have of a Mac, the same for all Macs of a profile.
type Pods struct {
	// HostPaths are the directories that volumes of the type hostPath may be in, or
	// be. Empty: there are no such volumes.
	HostPaths []string `json:"hostPaths,omitempty"`
}

const (
	// maxPrePull bounds Images.PrePull.
	maxPrePull = 32
	// maxHostPaths bounds Pods.HostPaths.
	maxHostPaths = 16
	// maxGCPercent bounds both thresholds of Images: in a volume that is fuller, less
	// is free than a Node must have, and images are removed whatever a threshold says.
	maxGCPercent = 85
	// maxReference and maxPath are lengths in bytes.
	maxReference = 512
	maxPath      = 1024
)

// imageShape: host, namespace with name, and a tag, a digest or both.
var imageShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[A-Za-z0-9_][A-Za-z0-9._-]*)+(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?$`)

// reserved directories are macOS' or ours, the places that tart may run from, and those
// that hold them. /var, /etc and /tmp are links to /private, and below /System all of the
// disk is there once more, as it is behind the link with its name in /Volumes. macOS takes
// names such as /.vol and /.nofollow at the root for other ways to any file. Letters are
// of either case: the disk does not tell them apart.
var reserved = regexp.MustCompile(`(?i)^/(volumes|opt|([.][^/]*|private|var|etc|tmp|usr|bin|sbin|dev|cores|system|library|applications|opt/homebrew|volumes/(macfleet|macintosh hd))(/.*)?)$`)

// homes are the directories of users and what holds them; shared is what is in none. Who
// writes to the console user's home can have the agent run what it likes.
var (
	homes  = regexp.MustCompile(`(?i)^/users(/.*)?$`)
	shared = regexp.MustCompile(`(?i)^/users/shared(/.*)?$`)
)

func (i Images) validate() error {
	if len(i.PrePull) > maxPrePull {
		return &FieldError{Field: "images.prePull", Reason: fmt.Sprintf("has more than %d images", maxPrePull)}
	}
	for n, ref := range i.PrePull {
		if len(ref) > maxReference || !imageShape.MatchString(ref) {
			return &FieldError{Field: fmt.Sprintf("images.prePull[%d]", n), Reason: "is not an image such as registry.example.com/macos/base:v1"}
		}
	}
	for field, percent := range map[string]int{"images.gcHighPercent": i.GCHighPercent, "images.gcLowPercent": i.GCLowPercent} {
		if percent < 0 || percent > maxGCPercent {
			return &FieldError{Field: field, Reason: fmt.Sprintf("is not between 0 and %d: a fuller volume is DiskPressure", maxGCPercent)}
		}
	}
	if i.GCHighPercent != 0 && i.GCLowPercent >= i.GCHighPercent {
		return &FieldError{Field: "images.gcLowPercent", Reason: "is not below gcHighPercent"}
	}
	return nil
}

func (p Pods) validate() error {
	if len(p.HostPaths) > maxHostPaths {
		return &FieldError{Field: "pods.hostPaths", Reason: fmt.Sprintf("has more than %d paths", maxHostPaths)}
	}
	for n, dir := range p.HostPaths {
		if !sharable(dir) {
			return &FieldError{Field: fmt.Sprintf("pods.hostPaths[%d]", n), Reason: "is not the absolute path of a directory below /, without . and .., colons, commas and control characters"}
		}
		if reserved.MatchString(dir) {
			return &FieldError{Field: fmt.Sprintf("pods.hostPaths[%d]", n), Reason: "is a directory of macOS or of the node's own files"}
		}
		if homes.MatchString(dir) && !shared.MatchString(dir) {
			return &FieldError{Field: fmt.Sprintf("pods.hostPaths[%d]", n), Reason: "is in the home of a user, or holds homes: only /Users/Shared and what is below it can be allowed there"}
		}
	}
	return nil
}

// sharable refuses what is no clean path, the whole disk, and the characters that
// separate the parts of a share on tart's command line.
func sharable(dir string) bool {
	return len(dir) <= maxPath && path.IsAbs(dir) && dir != "/" && path.Clean(dir) == dir &&
		!strings.ContainsAny(dir, ":,") && !slices.ContainsFunc([]rune(dir), func(r rune) bool { return r < ' ' || r == 0x7f })
}
