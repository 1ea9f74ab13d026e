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

// parseReference takes apart what is close to a reference; the driver is stricter. Of a tag
// and a digest the digest alone counts, as for other runtimes of Kubernetes.
func parseReference(text string) (reference, error) {
	name, digest, pinned := strings.Cut(text, "@")
	r := reference{repository: name, leaf: ":latest"}
	// A colon before the last slash is that of the registry's port.
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		r = reference{repository: name[:colon], leaf: name[colon:]}
	}
	empty := len(r.leaf) == 1
	if pinned {
		r.leaf, empty = "@"+digest, empty || digest == ""
	}
	host, rest, found := strings.Cut(r.repository, "/")
	if !found || host == "" || rest == "" || empty {
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
