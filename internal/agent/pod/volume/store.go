package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/env"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/filetree"
)

// Options of a Store.
type Options struct {
	// Dir has a directory for each Pod. It is the store's alone.
	Dir string
	// Secrets is where volumes lie that must not reach a disk. Nil: Pods that need it
	// are told that there is none.
	Secrets RAMDisk
	// Source of objects and tokens.
	Source Source
	// Facts for the downward API. Nil: there are none.
	Facts func() env.Facts
	// HostPaths lists the directories below which Pods may have hostPath volumes. None
	// is allowed when it is empty.
	HostPaths []string
	// Own are directories of ours, which no hostPath may be, hold or be in, whatever
	// HostPaths says.
	Own []string
	// Limits of what the guest of a Pod may keep in a share, beside bytes. Zero: maxEntries
	// and maxDepth.
	Limits filetree.Limits
	// Clock is the real one when it is nil.
	Clock clock.PassiveClock
}

// Store makes the volumes of Pods. Its methods may be called at the same time.
type Store struct {
	o Options
	// writing is held while files of Pods are made and Pods are taken away, so that
	// nothing is written for a Pod that is gone.
	writing sync.Mutex
}

// New returns a store. It touches nothing yet.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Facts == nil {
		o.Facts = func() env.Facts { return env.Facts{} }
	}
	if o.Limits == (filetree.Limits{}) {
		o.Limits = filetree.Limits{Entries: maxEntries, Depth: maxDepth}
	}
	if o.Secrets == nil {
		o.Secrets = noRAMDisk{}
	}
	return &Store{o: o}
}

// Mode says what a guest needs besides the volumes that its containers mount.
type Mode struct {
	// Report: the guest may leave an exit code (see ExitReport).
	Report bool
	// Env: WriteEnv will follow.
	Env bool
}

// Setup is what a guest needs to have its volumes.
type Setup struct {
	Shares []vm.Share
	Links  []Link
	// RefreshAt is when Refresh is due; zero: when an object changes.
	RefreshAt time.Time
}

// SetUp makes the volumes of a Pod, or brings those that are there up to date: what
// containers wrote stays. It is called before a machine starts. Errors are
// *MountError.
func (s *Store) SetUp(ctx context.Context, p *corev1.Pod, m Mode) (Setup, error) {
	made, due, err := s.gatherAll(ctx, p)
	if err != nil {
		return Setup{}, err
	}
	d, err := s.dirs(ctx, p.UID, m.Env || slices.ContainsFunc(mounted(p), onRAMDisk))
	if err != nil {
		return Setup{}, err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := d.make(); err != nil {
		return Setup{}, wrong("making the Pod's directories: %w", err)
	}
	plan := planner{store: s, pod: p, dirs: d, shares: map[string]vm.Share{}}
	for _, v := range mounted(p) {
		if err := plan.make(v, made[v.Name]); err != nil {
			return Setup{}, of(v.Name, err)
		}
	}
	if err := s.claimHostPaths(d, plan.hostPaths); err != nil {
		return Setup{}, err
	}
	if err := plan.linkAll(); err != nil {
		return Setup{}, err
	}
	if m.Report {
		plan.share(vm.Share{Name: shareWritable, Path: d.report()})
	}
	if !m.Env {
		if err := s.dropEnv(p.UID); err != nil {
			return Setup{}, err
		}
	} else {
		plan.share(vm.Share{Name: shareSecret, Path: d.secret(), ReadOnly: true})
	}
	return Setup{Shares: plan.sorted(), Links: plan.links, RefreshAt: due}, nil
}

// Refresh brings what is made from objects up to date, for a Pod that was set up,
// and says when it is due again; zero: when an object changes. A volume that fails keeps
// what it has and holds up no other: the time is that of those which were renewed.
func (s *Store) Refresh(ctx context.Context, p *corev1.Pod) (time.Time, error) {
	volumes := slices.DeleteFunc(mounted(p), func(v corev1.Volume) bool { return !fromObjects(v) })
	if len(volumes) == 0 {
		return time.Time{}, nil
	}
	d, err := s.dirs(ctx, p.UID, slices.ContainsFunc(volumes, onRAMDisk))
	if err != nil {
		return time.Time{}, err
	}
	var due time.Time
	var errs []error
	// What is there takes its room until it is replaced.
	room, had := int64(maxPayload), map[string]int64{}
	for _, v := range volumes {
		had[v.Name] = taken(homeOf(d, p, v).path())
		room -= had[v.Name]
	}
	for _, v := range volumes {
		mayTake := had[v.Name] + max(room, 0)
		left := mayTake
		at, err := s.refresh(ctx, p, d, v, &left)
		if err != nil {
			errs = append(errs, of(v.Name, err))
		} else {
			room += had[v.Name] - (mayTake - left)
		}
		due = sooner(due, at)
	}
	return due, errors.Join(errs...)
}

// taken is how much room a volume has taken, counted as gathering.add does.
func taken(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what is not there takes nothing
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size() + perFile
		}
		return nil
	})
	return sum
}

// refresh is Refresh of one volume.
func (s *Store) refresh(ctx context.Context, p *corev1.Pod, d dirs, v corev1.Volume, room *int64) (time.Time, error) {
	files, due, err := gather(ctx, p, v, room, s.o.Source, s.o.Facts())
	if err != nil {
		return time.Time{}, err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := os.Lstat(d.disk); err != nil {
		return time.Time{}, fmt.Errorf("the Pod's volumes are not set up: %w", err)
	}
	return due, s.fill(homeOf(d, p, v), files)
}

// gatherAll reads the contents of all volumes that are made from objects, by name,
// before anything is written.
func (s *Store) gatherAll(ctx context.Context, p *corev1.Pod) (map[string]payload, time.Time, error) {
	made := map[string]payload{}
	room := int64(maxPayload)
	var due time.Time
	for _, v := range mounted(p) {
		if !fromObjects(v) {
			continue
		}
		files, at, err := gather(ctx, p, v, &room, s.o.Source, s.o.Facts())
		if err != nil {
			return nil, time.Time{}, of(v.Name, err)
		}
		made[v.Name] = files
		due = sooner(due, at)
	}
	return made, due, nil
}

// fill writes the contents of a volume that is made from objects.
func (s *Store) fill(h home, files payload) error {
	if err := os.MkdirAll(h.path(), 0o755); err != nil {
		return fmt.Errorf("making its directory: %w", err)
	}
	dir, err := os.OpenRoot(h.path())
	if err != nil {
		return fmt.Errorf("opening its directory: %w", err)
	}
	defer dir.Close()
	return files.swap(dir, s.o.Clock.Now())
}

// uidPattern is what may name a directory.
var uidPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)

func (s *Store) dirs(ctx context.Context, uid types.UID, ram bool) (dirs, error) {
	if !uidPattern.MatchString(string(uid)) {
		return dirs{}, wrong("the Pod's UID %q cannot name a directory", uid)
	}
	d := dirs{disk: filepath.Join(s.o.Dir, string(uid))}
	if !ram {
		return d, nil
	}
	root, err := s.o.Secrets.Dir(ctx)
	if err != nil {
		return dirs{}, wrong("secrets and volumes in memory need a RAM disk on the host: %w", err)
	}
	d.ram = filepath.Join(root, string(uid))
	return d, nil
}

// make makes the directories that shares begin with. A guest may have taken away the
// modes of those that it writes to.
func (d dirs) make() error {
	list := []string{d.report(), d.readable()}
	if d.ram != "" {
		list = append(list, d.secret(), d.memory())
	}
	for _, dir := range list {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil {
			return err
		}
	}
	return nil
}

// UIDs of all Pods of which there is something.
func (s *Store) UIDs() ([]types.UID, error) {
	var list []types.UID
	for _, root := range s.roots() {
		entries, err := os.ReadDir(root)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing the volumes of Pods: %w", err)
		}
		for _, e := range entries {
			uid := strings.TrimPrefix(e.Name(), gonePrefix)
			if e.IsDir() && uidPattern.MatchString(uid) {
				list = append(list, types.UID(uid))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
