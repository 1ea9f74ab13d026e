package image

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// errNeverPull says that the policy is Never and the Pod cannot have the image as
// it is on this host.
var errNeverPull = errors.New("imagePullPolicy is Never")

// errPreempted ends a pull that nobody waits for in favour of a Pod's.
var errPreempted = errors.New("a Pod pulls from this registry")

// errNoRoom ends a pull that nobody waits for before the host ends Pods for the room that it
// takes. It matches vm.ErrNoSpace, for which the driver keeps nothing of what has come.
var errNoRoom = fmt.Errorf("the host came to be short of disk meanwhile: %w", vm.ErrNoSpace)

func neverPulled(ref reference, digest string) error {
	if digest == "" {
		return fmt.Errorf("image %s is not on this host and %w", ref, errNeverPull)
	}
	return fmt.Errorf("image %s is of a repository that was pulled from with credentials, none of the Pod's imagePullSecrets is known to give access to it, and %w", ref, errNeverPull)
}

// refused adds to a registry's refusal whose credentials it was given.
func refused(err error, offered []credential) error {
	if len(offered) == 0 {
		return err
	}
	var names []string
	for _, c := range offered {
		names = append(names, c.secret.String())
	}
	return fmt.Errorf("%w (tried the credentials of %s, then none)", err, strings.Join(names, ", "))
}

// stalledError says that a pull was given up as it went on no more. By digest the next one
// goes on where it stood, as Source.Pull promises: it comes within minutes.
type stalledError struct {
	Ref string
	// Percent it had come to.
	Percent int
	// After is how long nothing came.
	After time.Duration
}

func (e *stalledError) Error() string {
	next := "goes on from there"
	if !strings.Contains(e.Ref, "@") {
		next = "begins anew, since a tag may move; by digest (name@sha256:…) it would go on from there"
	}
	return fmt.Sprintf("the pull of %s stalled at %d %%: nothing came for %s; the next try %s", e.Ref, e.Percent, e.After, next)
}

// noSpaceError says that an image does not fit. It matches vm.ErrNoSpace.
type noSpaceError struct {
	Ref string
	// Needed is an estimate in bytes, 0 when the pull did not come far enough for one.
	Needed int64
	// Free and Total bytes of the volume before the pull, 0 when they are not known.
	Free, Total int64
	Err         error
}

func (e *noSpaceError) Error() string {
	text := fmt.Sprintf("no space for image %s", e.Ref)
	if e.Needed > 0 {
		text += fmt.Sprintf(", which still needed about %s", gigabytes(e.Needed))
	}
	if e.Total > 0 {
		text += fmt.Sprintf("; the volume of images had %s free of %s", gigabytes(e.Free), gigabytes(e.Total))
	}
	return fmt.Sprintf("%s: %v", text, e.Err)
}

// Unwrap returns the driver's error, which matches vm.ErrNoSpace.
func (e *noSpaceError) Unwrap() error { return e.Err }

func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }

// secretError says that an image pull Secret is not one.
type secretError struct {
	Namespace, Name string
	// Problem quotes nothing of the Secret.
	Problem string
}

func (e *secretError) Error() string {
	return fmt.Sprintf("image pull Secret %s/%s %s", e.Namespace, e.Name, e.Problem)
}

// Reason is what a container waits for after Ensure failed, in the words of
// Kubernetes.
func Reason(err error) string {
	switch {
	case errors.Is(err, errNeverPull):
		return "ErrImageNeverPull"
	case errors.Is(err, vm.ErrInvalidReference):
		return "InvalidImageName"
	}
	return "ErrImagePull"
}
