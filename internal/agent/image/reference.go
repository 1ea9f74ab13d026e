package image

import (
	"fmt"
	"strings"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// reference is the name of an image taken apart.
type reference struct {
	// repository is host/namespace/name.
	repository string
	// leaf is :tag or @digest.
	leaf string
}

// parseReference takes apart what is close to a reference; the driver is stricter.
func parseReference(text string) (reference, error) {
	r := reference{repository: text, leaf: ":latest"}
	if at := strings.Index(text, "@"); at >= 0 {
		r = reference{repository: text[:at], leaf: text[at:]}
	} else if colon := strings.LastIndex(text, ":"); colon > strings.LastIndex(text, "/") {
		r = reference{repository: text[:colon], leaf: text[colon:]}
	}
	host, rest, found := strings.Cut(r.repository, "/")
	if !found || host == "" || rest == "" || len(r.leaf) == 1 {
		return reference{}, fmt.Errorf("image %q: %w (want host/namespace/name:tag or …@sha256:…)", text, vm.ErrInvalidReference)
	}
	return r, nil
}

// String is the reference in full: without a tag it means latest.
func (r reference) String() string { return r.repository + r.leaf }

func (r reference) host() string {
	host, _, _ := strings.Cut(r.repository, "/")
	return host
}

// at names the same image by a digest.
func (r reference) at(digest string) string { return r.repository + "@" + digest }

// pinned reports whether the reference can never mean another image.
func (r reference) pinned() bool { return strings.HasPrefix(r.leaf, "@") }
