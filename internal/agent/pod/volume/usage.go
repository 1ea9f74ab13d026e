package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/macfleet/macfleet/internal/filetree"
)

const (
	// DefaultMemory is the limit of an emptyDir in memory that sets none, in bytes: the
	// RAM disk is shared with the Secrets of all Pods, and a full one has no room for
	// theirs.
	DefaultMemory = 64 << 20
	// MaxMemory is what the emptyDirs in memory of one Pod may hold together, in bytes:
	// twice that leaves 64 MiB of the RAM disk for the Secrets of two Pods.
	MaxMemory = 96 << 20
	// besideDisk and besideMemory are what a guest may leave in the shares that it
	// writes to beside its volumes, in bytes: reports, and what macOS leaves anywhere.
	besideDisk   = 64 << 20
	besideMemory = 1 << 20
	// maxEntries files and directories may lie in the shares of one kind that a Pod
	// writes to, and maxDepth inside one another: empty ones count nothing in bytes and
	// cost the agent time all the same. A checkout of a large repository has 400,000.
	maxEntries = 1_000_000
	maxDepth   = 100
)

// Excess is something that has outgrown its limit.
type Excess struct {
	// What holds too much, in words for people.
	What string
	// Used and Limit are bytes on the host's disk. Both are 0 where it is not bytes that
	// are too many.
	Used, Limit int64
}

func (e Excess) String() string {
	if e.Limit == 0 {
		return e.What
	}
	return fmt.Sprintf("%s: %d bytes, the limit is %d", e.What, e.Used, e.Limit)
}

// Usage finds what of a Pod's files on the host has outgrown its limit: an emptyDir,
// what lies beside the volumes in a share, or all of it together on the disk, which
// counts against the limit of ephemeral-storage as with a kubelet. Nil: nothing has.
func (s *Store) Usage(p *corev1.Pod) *Excess {
	d := dirs{disk: filepath.Join(s.o.Dir, string(p.UID))}
	disk, err := s.weigh(d.report(), p)
	memory := &weight{}
	if ram, ok := s.o.Secrets.Made(); ok && err == nil {
		d.ram = filepath.Join(ram, string(p.UID))
		memory, err = s.weigh(d.memory(), p)
	}
	if limit, ok := errors.AsType[*filetree.LimitError](err); ok {
		return &Excess{What: "the VM keeps " + limit.Error() + " on the host"}
	}
	for _, v := range mounted(p) {
		w := disk
		if inMemory(v) {
			w = memory
		}
		used, limit := w.take(v.Name), sizeLimit(v)
		if limit > 0 && used > limit {
			return &Excess{fmt.Sprintf("emptyDir volume %q is larger than its sizeLimit", v.Name), used, limit}
		}
	}
	for _, beside := range []Excess{
		{"what the VM wrote to " + guestPath(shareWritable, "") + " beside its volumes is too much", disk.rest(), besideDisk},
		{"what the VM wrote to " + guestPath(shareMemory, "") + " beside its volumes is too much", memory.rest(), besideMemory},
		{"emptyDir volumes hold more than the limit of ephemeral-storage", disk.all, storageLimit(p)},
	} {
		if beside.Limit > 0 && beside.Used > beside.Limit {
			return &beside
		}
	}
	return nil
}

// sizeLimit is that of an emptyDir in bytes, which one in memory always has; 0: none.
func sizeLimit(v corev1.Volume) int64 {
	switch {
	case v.EmptyDir == nil:
		return 0
	case v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() > 0:
		return v.EmptyDir.SizeLimit.Value()
	case inMemory(v):
		return DefaultMemory
	}
	return 0
}

// Memory is what the emptyDirs in memory of a Pod may hold together, in bytes.
func Memory(volumes []corev1.Volume) int64 {
	var sum int64
	for _, v := range volumes {
		if inMemory(v) {
			// Each is capped, as the sum of huge ones fits no integer.
			sum += min(sizeLimit(v), MaxMemory+1)
		}
	}
	return sum
}

// storageLimit is the limit of ephemeral-storage of the containers that run at the same time,
// in bytes; 0: none has one.
func storageLimit(p *corev1.Pod) int64 {
	q := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]
	return q.Value()
}

// weight is what a share holds on disk, in bytes.
type weight struct {
	all int64
	// volumes of the Pod, by name. Those of other names are not counted apart: a guest
	// could make any number.
	volumes map[string]int64
	taken   int64
}

// take is the weight of a volume, which does not lie beside the volumes.
func (w *weight) take(volume string) int64 {
	w.taken += w.volumes[volume]
	return w.volumes[volume]
}

// rest is what no volume was.
func (w *weight) rest() int64 { return w.all - w.taken }

func (w *weight) add(name string, info fs.FileInfo) {
	if !info.Mode().IsRegular() {
		return
	}
	w.all += filetree.OnDisk(info)
	if rest, in := strings.CutPrefix(name, volumesDir+"/"); in {
		volume, _, _ := strings.Cut(rest, "/")
		if _, known := w.volumes[volume]; known {
			w.volumes[volume] += filetree.OnDisk(info)
		}
	}
}

// weigh adds up a share of a Pod. The error is a *filetree.LimitError.
func (s *Store) weigh(dir string, p *corev1.Pod) (*weight, error) {
	w := &weight{volumes: map[string]int64{}}
	for _, v := range mounted(p) {
		w.volumes[v.Name] = 0
	}
	err := filetree.Walk(dir, s.o.Limits, w.add)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	return w, err
}
