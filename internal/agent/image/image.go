// Package image brings images to the host and keeps room for them: pulls by the
// policies of Kubernetes with the credentials of each Pod, one pull at a time for a
// reference and one at a time for a registry; images wanted beforehand; and the
// removal of those least recently used when the volume is full. Back-off between
// attempts of a Pod is the caller's, the transfer the driver's.
package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Source is what of a driver the store needs.
type Source interface {
	Digest(ctx context.Context, ref string) (string, error)
	Pull(ctx context.Context, ref string, o vm.PullOptions) (string, error)
	Images(ctx context.Context) ([]vm.Image, error)
	RemoveImage(ctx context.Context, name string) error
	RemoveLeftovers()
}

// Options of a Store. Source must be set.
type Options struct {
	Source Source
	// Dir keeps what is known of images over restarts: who proved to be allowed to
	// have them, and when they were used. Empty: nothing is kept.
	Dir string
	// StallTimeout ends a pull that shows no progress for so long; there is no limit
	// to a whole pull. Default: 5 min.
	StallTimeout time.Duration
	// Arrived is how many bytes of images that are not whole lie on the volume, but for those
	// that pulls beside bring: while they change, a pull does not stall, whatever it tells.
	// Nil: it counts what it tells.
	Arrived func(beside []string) int64
	// PrePull are the images wanted on this host before any Pod asks.
	PrePull []string
	// Disk tells of the volume that holds the images. Nil: images are removed by
	// FreeNow and before a second try of a pull that found no space, and else never.
	Disk func(ctx context.Context) (free, total int64, err error)
	// InUse are the images that the Pods of this host name. Nil: none.
	InUse func() []string
	// Known reports whether InUse knows all Pods: before, nothing is removed. Nil: it
	// always does.
	Known func() bool
	// HighPercent of the volume in use lets images be removed, until no more than
	// LowPercent is. Defaults: 85 and 80, as a kubelet's.
	HighPercent, LowPercent int
	// ReliefPercent in use at most ends the shortage that FreeNow is called for. Default:
	// 83, as the Node has DiskPressure until 17 % are free.
	ReliefPercent int
	// GarbageFailed is told that room could not be made, every five minutes while that
	// is so. Nil: only the log is.
	GarbageFailed func(message string)
	// PrePullFailed is told of an image that could not be pulled beforehand, every half
	// an hour at most for each. Nil: only the log is.
	PrePullFailed func(message string)
	Clock         clock.WithTicker
	Log           *slog.Logger
}

// Defaults of Options.
const (
	defaultStallTimeout = 5 * time.Minute
	defaultHighPercent  = 85
	defaultLowPercent   = 80
	// defaultReliefPercent leaves what package health wants free before a pressure is over.
	defaultReliefPercent = 83
)

func (o Options) withDefaults() Options {
	o.StallTimeout = cmp.Or(o.StallTimeout, defaultStallTimeout)
	o.HighPercent = cmp.Or(o.HighPercent, defaultHighPercent)
	o.LowPercent = cmp.Or(o.LowPercent, defaultLowPercent)
	o.ReliefPercent = cmp.Or(o.ReliefPercent, defaultReliefPercent)
	o.LowPercent = min(o.LowPercent, o.HighPercent-1)
	if o.Arrived == nil {
		o.Arrived = func([]string) int64 { return 0 }
	}
	if o.InUse == nil {
		o.InUse = func() []string { return nil }
	}
	if o.Known == nil {
		o.Known = func() bool { return true }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// reliefTarget is what may be used of the volume once the host is short no more.
func (o Options) reliefTarget() int { return min(o.LowPercent, o.ReliefPercent) }

// Store of images on one host. Its methods may be called at the same time.
type Store struct {
	o       Options
	ledger  *ledger
	changed chan struct{}

	// collecting lets one removal of images run at a time.
	collecting sync.Mutex
	// complained is Run's own: when it last told that room cannot be made.
	complained time.Time

	mu     sync.Mutex
	pulls  sharedPulls
	queues map[string]*registryQueue
	// removing are the digests that are being removed, and what is closed after.
	removing map[string]chan struct{}
	listed   []localImage
}

// New returns a store; Run makes it pull beforehand and remove what is not needed.
func New(o Options) *Store {
	o = o.withDefaults()
	path := ""
	if o.Dir != "" {
		path = filepath.Join(o.Dir, "images.json")
	}
	return &Store{
		o: o, ledger: openLedger(path, o.Log), changed: make(chan struct{}, 1),
		pulls: sharedPulls{}, queues: map[string]*registryQueue{}, removing: map[string]chan struct{}{},
	}
}

// Request of a Pod for an image.
type Request struct {
	// Ref as the Pod has it: host/namespace/name, with a tag or a digest.
	Ref    string
	Policy corev1.PullPolicy
	// PullSecrets of the Pod, in its order. Those that are not of a Docker type are
	// passed over.
	PullSecrets []corev1.Secret
	// Pulling is called before a registry is asked, once. Nil: it is not.
	Pulling func()
	// Waits is called with the image whose pull from the same registry this one has to
	// wait for, and with "" when it begins. Nil: it is not. It is called by
	// Ensure itself.
	Waits func(behind string)
	// Progress is called each minute of a pull with how far it has come, and how long ago
	// something came. Nil: it is not. It is called by Ensure itself.
	Progress func(percent int, quiet time.Duration)
}

// Result says what a Pod gets.
type Result struct {
	// Digest of the image, sha256:….
	Digest string
	// Ref names the image by its digest, so that a tag that moves changes nothing.
	Ref string
	// Pulled: a registry was asked, and Took so long. Else the image was here.
	Pulled bool
	Took   time.Duration
}

// Ensure returns once the image is on this host and the Pod may have it. Errors
// match vm.ErrInvalidReference, errNeverPull, vm.ErrAuth, vm.ErrImageNotFound,
// vm.ErrNoSpace (then a *noSpaceError), *stalledError and *secretError; Reason
// names them as Kubernetes does. A pull goes on while anybody waits for it.
func (s *Store) Ensure(ctx context.Context, r Request) (Result, error) {
	ref, err := parseReference(r.Ref)
	if err != nil {
		return Result{}, err
	}
	digest, err := s.present(ctx, ref)
	if err != nil {
		return Result{}, err
	}
	offered, badSecret := offer(r.PullSecrets, ref)
	if digest != "" && r.Policy != corev1.PullAlways && s.ledger.allows(ref.repository, digest, offered) {
		s.ledger.touch(digest, s.o.Clock.Now())
		return Result{Digest: digest, Ref: ref.at(digest)}, nil
	}
	if r.Policy == corev1.PullNever {
		return Result{}, neverPulled(ref, digest)
	}
	if badSecret != nil {
		return Result{}, badSecret
	}
	if r.Pulling != nil {
		r.Pulling()
	}
	begin := s.o.Clock.Now()
	digest, err = s.pullMakingRoom(ctx, ref, offered, r)
	if err != nil {
		return Result{}, err
	}
	now := s.o.Clock.Now()
	s.ledger.touch(digest, now)
	return Result{Digest: digest, Ref: ref.at(digest), Pulled: true, Took: now.Sub(begin)}, nil
}

// present returns the digest of an image on the host, empty when there is none. One
// that is being removed is waited for, and is none.
func (s *Store) present(ctx context.Context, ref reference) (string, error) {
	for {
		digest, err := s.digestNow(ctx, ref.String())
		if err != nil || digest == "" {
			return "", err
		}
		s.mu.Lock()
		removed := s.removing[digest]
		s.mu.Unlock()
		if removed == nil {
			return digest, nil
		}
		select {
		case <-removed:
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for the removal of %s: %w", ref, context.Cause(ctx))
		}
	}
}

// pullMakingRoom pulls, and once more after it has removed all images that nobody
// needs when there was no space.
func (s *Store) pullMakingRoom(ctx context.Context, ref reference, offered []credential, r Request) (string, error) {
	digest, err := s.pullAny(ctx, ref, offered, r)
	if !errors.Is(err, vm.ErrNoSpace) {
		return digest, err
	}
	s.o.Log.Warn("no space for an image, removing others", "image", ref.String())
	removed, collectErr := s.collect(ctx, everything)
	if collectErr != nil {
		s.o.Log.Warn("making room for an image", "image", ref.String(), "err", collectErr)
	}
	if removed == 0 {
		return "", err
	}
	return s.pullAny(ctx, ref, offered, r)
}

// pullAny tries the credentials in order, then none. Only a registry that refuses
// one is asked with the next: what else goes wrong would go wrong again.
func (s *Store) pullAny(ctx context.Context, ref reference, offered []credential, r Request) (string, error) {
	var first error
	for _, c := range append(offered[:len(offered):len(offered)], credential{}) {
		digest, err := s.pull(ctx, ref, c, foreground, r)
		if err == nil {
			return digest, nil
		}
		if !errors.Is(err, vm.ErrAuth) && !errors.Is(err, vm.ErrImageNotFound) {
			return "", err
		}
		if first == nil {
			first = err
		}
	}
	return "", refused(first, offered)
}
