package apfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const (
	// firstRAM is the number of the first disk that a boot leaves free.
	firstRAM = 4
	// sector is the unit of ram:// in bytes.
	sector = 512
	// maxRAM in bytes: hdiutil refuses more than a Mac could have.
	maxRAM = 1 << 40
)

// ramDisk is memory that was attached as a disk. None outlives its boot.
type ramDisk struct {
	number  int
	sectors int64
	// uid attached it; nobody else but root may touch it.
	uid int
	// name of its volume; empty: it has no file system.
	name  string
	mount string
}

func (r ramDisk) device() string { return fmt.Sprintf("/dev/disk%d", r.number) }

// HDIUtil runs the hdiutil command with args for a user: RAM disks are modelled,
// images in files are not.
func (d *Disk) HDIUtil(uid int, args []string) wire.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch line := strings.Join(args, " "); {
	case line == "info -plist":
		return d.images()
	case len(args) == 3 && args[0] == "attach" && args[1] == "-nomount" && strings.HasPrefix(args[2], "ram://"):
		return d.attachRAM(uid, strings.TrimPrefix(args[2], "ram://"))
	case (len(args) == 2 || len(args) == 3 && args[2] == "-force") && args[0] == "detach":
		return d.detach(uid, args[1], len(args) == 3)
	}
	return unmodelled("hdiutil", args)
}

func (d *Disk) attachRAM(uid int, size string) wire.Answer {
	sectors, err := strconv.ParseInt(size, 10, 64)
	if err != nil || sectors < 1 || sectors > maxRAM/sector {
		return refused("hdiutil: attach failed - Invalid argument")
	}
	r := ramDisk{number: firstRAM, sectors: sectors, uid: uid}
	for slices.ContainsFunc(d.ram, func(o ramDisk) bool { return o.number == r.number }) {
		r.number++
	}
	d.ram = append(d.ram, r)
	return wire.Answer{Stdout: fmt.Sprintf("%-20s\t%-30s\t\n", r.device(), "")}
}

func (d *Disk) images() wire.Answer {
	list := []map[string]any{}
	for _, r := range d.ram {
		entity := map[string]any{"dev-entry": r.device(), "potentially-mountable": true}
		if r.mount != "" {
			entity["mount-point"] = r.mount
		}
		list = append(list, map[string]any{
			"image-path": fmt.Sprintf("ram://%d", r.sectors), "image-type": "RAM disk device", "owner-uid": r.uid,
			"blockcount": r.sectors, "blocksize": sector, "writeable": true, "system-entities": []map[string]any{entity},
		})
	}
	return encode(map[string]any{"framework": "642.0.0", "images": list})
}

func (d *Disk) detach(uid int, device string, force bool) wire.Answer {
	r, ok := d.ramAt(device)
	switch {
	case !ok:
		return refused("hdiutil: detach failed - No such file or directory")
	case !r.allows(uid):
		return refused("hdiutil: detach failed - Operation not permitted")
	case r.mount != "" && !force && is(d.o.Busy):
		return refused("hdiutil: couldn't unmount %q - Resource busy", strings.TrimPrefix(r.device(), "/dev/"))
	case r.mount != "":
		if err := d.unmountRAM(r.mount); err != nil {
			return refused("hdiutil: detach failed - %v", err)
		}
	}
	d.ram = slices.DeleteFunc(d.ram, func(o ramDisk) bool { return o.number == r.number })
	return wire.Answer{Stdout: fmt.Sprintf("%q ejected.\n", strings.TrimPrefix(r.device(), "/dev/"))}
}

// NewfsHFS runs the newfs_hfs command, which takes -v NAME DEVICE.
func (d *Disk) NewfsHFS(uid int, args []string) wire.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(args) != 3 || args[0] != "-v" || args[1] == "" {
		return unmodelled("newfs_hfs", args)
	}
	r, ok := d.ramAt(args[2])
	switch {
	case !ok:
		return refused("newfs_hfs: %s: No such file or directory", args[2])
	case !r.allows(uid):
		return refused("newfs_hfs: %s: Permission denied", args[2])
	case r.mount != "":
		return refused("newfs_hfs: %s: Resource busy", args[2])
	}
	r.name = args[1]
	return wire.Answer{Stdout: fmt.Sprintf("Initialized %s as a %d MB case-insensitive HFS Plus volume\n", args[2], r.sectors*sector>>20)}
}

// mountRAM is diskutil mount nobrowse -mountPoint DIR DEVICE.
func (d *Disk) mountRAM(uid int, dir, device string) wire.Answer {
	r, ok := d.ramAt(device)
	switch {
	case !ok:
		return refused("Unable to find disk for %s", device)
	case !r.allows(uid) || r.name == "" || r.mount != "" || !filepath.IsAbs(dir) || is(d.o.Busy):
		return refused("Volume on %s failed to mount", strings.TrimPrefix(r.device(), "/dev/"))
	}
	real, err := filepath.EvalSymlinks(d.path(dir))
	if err != nil {
		return refused("Volume on %s failed to mount", strings.TrimPrefix(r.device(), "/dev/"))
	}
	if d.o.MountRAM != nil {
		if err := d.o.MountRAM(real, r.sectors*sector); err != nil {
			return refused("Volume on %s failed to mount (%v)", strings.TrimPrefix(r.device(), "/dev/"), err)
		}
	}
	r.mount = "/" + strings.Trim(strings.TrimPrefix(real, filepath.Clean("/"+d.o.Root)), "/")
	return wire.Answer{Stdout: fmt.Sprintf("Volume %s on %s mounted\n", r.name, r.device())}
}

func (d *Disk) unmountRAM(mount string) error {
	if d.o.UnmountRAM != nil {
		return d.o.UnmountRAM(d.path(mount))
	}
	entries, err := os.ReadDir(d.path(mount))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(d.path(mount), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// ramAt finds a RAM disk by its device, raw or not.
func (d *Disk) ramAt(device string) (*ramDisk, bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(device, "/dev/"), "r")
	i := slices.IndexFunc(d.ram, func(r ramDisk) bool { return r.device() == "/dev/"+name })
	if i < 0 {
		return nil, false
	}
	return &d.ram[i], true
}

func (r ramDisk) allows(uid int) bool { return uid == wire.RootUID || uid == r.uid }
