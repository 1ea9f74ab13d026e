// Package apfs models the disk of a Mac: one APFS container with the system's
// volumes and those somebody added, RAM disks, the diskutil command over them, and df. A
// volume that was added is a folder below /Volumes, kept aside while it is not
// mounted. That quotas are reported and not enforced is a limit of the model.
// Where the list is stored between boots is left to the caller.
package apfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
)

const (
	// container is the synthesized disk that all volumes are slices of.
	container = "disk3"
	dataMount = "/System/Volumes/Data"
	// aside holds the content of volumes that are not mounted.
	aside = "/System/Volumes/.unmounted"
	// firstSlice is the number of the first slice that the system leaves free.
	firstSlice = 7
)

// Volume is one volume of the container.
type Volume struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Slice  string `json:"slice"`           // such as disk3s7
	Mount  string `json:"mount,omitempty"` // empty: not mounted
	Quota  int64  `json:"quota,omitempty"` // bytes; 0: none
	Owners bool   `json:"owners,omitempty"`
	// System marks a volume that cannot be touched.
	System bool `json:"-"`
}

func (v Volume) aside() string { return filepath.Join(aside, v.UUID) }

// Options configure a Disk.
type Options struct {
	// Volumes are those that were added, as they were saved.
	Volumes []Volume
	// Save keeps them; it is called for each change.
	Save func([]Volume) error
	// Seed makes the identifiers of the system's volumes, e.g. a serial number.
	Seed string
	// Size and Used are those of the container in bytes.
	Size, Used func() int64
	// AddFails makes adding fail, Busy every other change; StayUnmounted keeps
	// added volumes away at boot. Nil means no.
	AddFails, Busy, StayUnmounted func() bool
	// MountRAM puts a RAM disk of some bytes over a directory, UnmountRAM takes it
	// away. Nil: the directory stands in for it.
	MountRAM   func(dir string, bytes int64) error
	UnmountRAM func(dir string) error
	// Root is put before every path; empty on the Mac itself.
	Root string
}

// Disk is the disk of one boot.
type Disk struct {
	o  Options
	mu sync.Mutex
	// added are the volumes beside the system's.
	added []Volume
	// ram are the RAM disks of this boot.
	ram []ramDisk
}

// Boot returns the disk as a boot finds it: what can be mounted is.
func Boot(o Options) (*Disk, error) {
	d := &Disk{o: o, added: slices.Clone(o.Volumes)}
	for i := range d.added {
		v := &d.added[i]
		if err := d.stash(v); err != nil {
			return nil, err
		}
		if is(o.StayUnmounted) {
			continue
		}
		if err := d.attach(v); err != nil {
			return nil, err
		}
	}
	return d, d.saveLocked()
}

func is(f func() bool) bool { return f != nil && f() }

func (d *Disk) path(p string) string { return filepath.Join(d.o.Root, p) }

func (d *Disk) saveLocked() error {
	if d.o.Save == nil {
		return nil
	}
	return d.o.Save(slices.Clone(d.added))
}

// stash puts a volume's content aside.
func (d *Disk) stash(v *Volume) error {
	if v.Mount == "" {
		return nil
	}
	if err := os.MkdirAll(d.path(aside), 0o700); err != nil {
		return fmt.Errorf("unmounting %s: %w", v.Name, err)
	}
	if err := os.Rename(d.path(v.Mount), d.path(v.aside())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmounting %s: %w", v.Name, err)
	}
	v.Mount = ""
	return nil
}

// attach mounts a volume below /Volumes, under its name or, when that is
// taken, its name and a number.
func (d *Disk) attach(v *Volume) error {
	if err := os.MkdirAll(d.path(v.aside()), 0o755); err != nil {
		return fmt.Errorf("mounting %s: %w", v.Name, err)
	}
	mount := "/Volumes/" + v.Name
	for n := 1; ; n++ {
		if _, err := os.Lstat(d.path(mount)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		mount = fmt.Sprintf("/Volumes/%s %d", v.Name, n)
	}
	if err := os.Rename(d.path(v.aside()), d.path(mount)); err != nil {
		return fmt.Errorf("mounting %s: %w", v.Name, err)
	}
	v.Mount = mount
	return nil
}

// system are the volumes that every Mac has and that matter to anybody.
func (d *Disk) system() []Volume {
	id := func(name string) string {
		return strings.ToUpper(uuid.NewSHA1(uuid.NameSpaceOID, []byte(d.o.Seed+name)).String())
	}
	return []Volume{
		{UUID: id("system"), Name: "Macintosh HD", Slice: container + "s1s1", Mount: "/", Owners: true, System: true},
		{UUID: id("data"), Name: "Data", Slice: container + "s5", Mount: dataMount, Owners: true, System: true},
	}
}

// find returns a volume by mount point, device, UUID or name.
func (d *Disk) find(which string) (Volume, bool) {
	device := strings.TrimPrefix(which, "/dev/")
	all := append(d.system(), d.added...)
	for _, fits := range []func(Volume) bool{
		func(v Volume) bool { return v.Mount != "" && v.Mount == filepath.Clean(which) },
		func(v Volume) bool { return v.Slice == device },
		func(v Volume) bool { return strings.EqualFold(v.UUID, which) },
		func(v Volume) bool { return v.Name == which },
	} {
		if i := slices.IndexFunc(all, fits); i >= 0 {
			return all[i], true
		}
	}
	return Volume{}, false
}

// holder is the volume that holds an absolute path without links.
func (d *Disk) holder(path string) Volume {
	best := d.system()[1]
	for _, v := range d.added {
		if v.Mount != "" && (path == v.Mount || strings.HasPrefix(path, v.Mount+"/")) {
			best = v
		}
	}
	return best
}

// used is what a volume's files take, in bytes; of the system's volumes, what
// the whole container holds beside the added ones.
func (d *Disk) used(v Volume) int64 {
	if v.System {
		return d.o.Used()
	}
	dir := v.Mount
	if dir == "" {
		dir = v.aside()
	}
	var sum int64
	_ = filepath.WalkDir(d.path(dir), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // a file that goes while it is counted takes nothing
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// free is what the container has left, in bytes.
func (d *Disk) free() int64 {
	left := d.o.Size() - d.o.Used()
	for _, v := range d.added {
		left -= d.used(v)
	}
	return max(left, 0)
}

// space is the size, use and rest of a volume as statfs(2) tells them.
func (d *Disk) space(v Volume) (size, used, free int64) {
	size, used, free = d.o.Size(), d.used(v), d.free()
	if v.Quota > 0 {
		size = v.Quota
		free = min(free, max(v.Quota-used, 0))
	}
	return size, used, free
}
