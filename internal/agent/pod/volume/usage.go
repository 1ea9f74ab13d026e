package volume

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
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
)

// Excess is something that has outgrown its limit.
type Excess struct {
	// What holds too much, in words for people.
	What string
	// Used and Limit are bytes on the host's disk.
	Used, Limit int64
}

func (e Excess) String() string {
	return fmt.Sprintf("%s: %d bytes, the limit is %d", e.What, e.Used, e.Limit)
}

// Usage finds what of a Pod's files on the host has outgrown its limit: an emptyDir,
// what lies beside the volumes in a share, or all of it together on the disk, which
// counts against the limit of ephemeral-storage as with a kubelet. Nil: nothing has.
func (s *Store) Usage(p *corev1.Pod) *Excess {
	d := dirs{disk: filepath.Join(s.o.Dir, string(p.UID))}
	disk, memory := weigh(d.report()), &weight{}
	if ram, ok := s.o.Secrets.Made(); ok {
		d.ram = filepath.Join(ram, string(p.UID))
		memory = weigh(d.memory())
	}
	for _, v := range mounted(p) {
		w := disk
		if inMemory(v) {
			w = memory
		}
		used, limit := w.take(v.Name), SizeLimit(v)
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

// SizeLimit is that of an emptyDir in bytes, which one in memory always has; 0: none.
func SizeLimit(v corev1.Volume) int64 {
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
			sum += min(SizeLimit(v), MaxMemory+1)
		}
	}
	return sum
}

// storageLimit is the greatest limit of ephemeral-storage of a container, in bytes;
// 0: none has one. Containers run one after the other.
func storageLimit(p *corev1.Pod) int64 {
	var greatest int64
	for _, c := range containers(p) {
		q := c.Resources.Limits[corev1.ResourceEphemeralStorage]
		greatest = max(greatest, q.Value())
	}
	return greatest
}

// weight is what a share holds on disk, in bytes.
type weight struct {
	all int64
	// below volumesDir, by what may be the name of a volume.
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

// blockBytes is the unit of st_blocks, whatever the file system's own is.
const blockBytes = 512

// weigh adds up a share. It follows no link, as guests make them.
func weigh(dir string) *weight {
	w := &weight{volumes: map[string]int64{}}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return w
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			// A guest changes the tree meanwhile. What it closed counts the next time.
			if e != nil && e.IsDir() {
				_ = root.Chmod(name, 0o700)
			}
			return nil
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // as above
		}
		w.all += onDisk(info)
		if rest, in := strings.CutPrefix(name, volumesDir+"/"); in {
			volume, _, _ := strings.Cut(rest, "/")
			w.volumes[volume] += onDisk(info)
		}
		return nil
	})
	return w
}

func onDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * blockBytes
	}
	return info.Size()
}
