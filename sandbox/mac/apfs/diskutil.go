package apfs

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"howett.net/plist"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// rcUsage is the exit code of a form that is not modelled.
const rcUsage = 64

func unmodelled(name string, args []string) wire.Answer {
	what := name + " " + strings.Join(args, " ")
	return wire.Answer{RC: rcUsage, Stderr: name + ": not modelled: " + what + "\n", Unmodelled: what}
}

func refused(format string, args ...any) wire.Answer {
	return wire.Answer{RC: 1, Stderr: fmt.Sprintf(format, args...) + "\n"}
}

// Diskutil runs the diskutil command with args (without its name) for a user.
func (d *Disk) Diskutil(uid int, args []string) wire.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	verb, rest := "", args
	if len(args) > 0 {
		verb, rest = args[0], args[1:]
	}
	if verb == "apfs" && len(rest) > 0 {
		verb, rest = "apfs "+rest[0], rest[1:]
	}
	switch {
	case verb == "info" && len(rest) == 2 && rest[0] == "-plist":
		return d.infoPlist(rest[1])
	case verb == "info" && len(rest) == 1 && !strings.HasPrefix(rest[0], "-"):
		return d.info(rest[0])
	case verb == "list" && len(rest) == 0:
		return d.list()
	case verb == "apfs list" && slices.Equal(rest, []string{"-plist"}):
		return d.apfsList()
	case verb == "mount" && len(rest) == 4 && rest[0] == "nobrowse" && rest[1] == "-mountPoint":
		return d.mountRAM(uid, rest[2], rest[3])
	}
	if uid != wire.RootUID && slices.Contains([]string{"apfs addVolume", "apfs deleteVolume", "enableOwnership"}, verb) {
		return refused("Error: -69569: This operation requires root privileges")
	}
	switch {
	case verb == "apfs addVolume" && len(rest) >= 3:
		return d.add(args, rest)
	case len(rest) != 1:
		return unmodelled("diskutil", args)
	}
	changes := map[string]func(*Volume) wire.Answer{
		"mount": d.mount, "unmount": d.unmount, "enableOwnership": d.own, "apfs deleteVolume": d.remove,
	}
	change, ok := changes[verb]
	if !ok {
		return unmodelled("diskutil", args)
	}
	return d.change(rest[0], change)
}

// change applies one to an added volume and saves the outcome.
func (d *Disk) change(which string, how func(*Volume) wire.Answer) wire.Answer {
	found, ok := d.find(which)
	switch {
	case !ok:
		return refused("Unable to find disk for %s", which)
	case found.System:
		return refused("Error: -69888: Couldn't unmount disk")
	case is(d.o.Busy):
		return refused("Error: -69877: Couldn't open device")
	}
	i := slices.IndexFunc(d.added, func(v Volume) bool { return v.UUID == found.UUID })
	a := how(&d.added[i])
	d.added = slices.DeleteFunc(d.added, func(v Volume) bool { return v.UUID == "" })
	if err := d.saveLocked(); err != nil {
		return refused("%v", err)
	}
	return a
}

func (d *Disk) mount(v *Volume) wire.Answer {
	if v.Mount == "" {
		if err := d.attach(v); err != nil {
			return refused("Volume on %s failed to mount (%v)", v.Slice, err)
		}
	}
	return wire.Answer{Stdout: fmt.Sprintf("Volume %s on %s mounted\n", v.Name, v.Slice)}
}

func (d *Disk) unmount(v *Volume) wire.Answer {
	if v.Mount == "" {
		return refused("%s was already unmounted", v.Slice)
	}
	if err := d.stash(v); err != nil {
		return refused("Volume %s on %s failed to unmount: %v", v.Name, v.Slice, err)
	}
	return wire.Answer{Stdout: fmt.Sprintf("Volume %s on %s unmounted\n", v.Name, v.Slice)}
}

func (d *Disk) own(v *Volume) wire.Answer {
	v.Owners = true
	return wire.Answer{Stdout: "File system user/group ownership enabled\n"}
}

func (d *Disk) remove(v *Volume) wire.Answer {
	for _, dir := range []string{v.Mount, v.aside()} {
		if dir == "" {
			continue
		}
		if err := os.RemoveAll(d.path(dir)); err != nil {
			return refused("Error: -69888: Couldn't unmount disk (%v)", err)
		}
	}
	out := fmt.Sprintf("Started APFS operation\nDeleting APFS Volume from its APFS Container\nUnmounting %s\n"+
		"Erasing any xART session referenced by %s\nDeleting Volume\nFinished APFS operation\n", v.Slice, v.UUID)
	*v = Volume{}
	return wire.Answer{Stdout: out}
}

// add takes CONTAINER APFS NAME [-quota SIZE].
func (d *Disk) add(all, args []string) wire.Answer {
	where, kind, name := strings.TrimPrefix(args[0], "/dev/"), args[1], args[2]
	if kind != "APFS" || name == "" || strings.Contains(name, "/") {
		return unmodelled("diskutil", all)
	}
	v := Volume{UUID: strings.ToUpper(uuid.NewString()), Name: name, Slice: d.freeSlice()}
	switch opts := args[3:]; {
	case len(opts) == 2 && opts[0] == "-quota":
		quota, ok := parseSize(opts[1])
		if !ok {
			return refused("%q is not a valid size", opts[1])
		}
		v.Quota = quota
	case len(opts) > 0:
		return unmodelled("diskutil", all)
	}
	switch {
	case where != container:
		return refused("Error: -69808: Some information was unavailable during an internal lookup")
	case is(d.o.AddFails):
		return refused("Error: -69571: Unable to create a new APFS Volume")
	}
	if err := d.attach(&v); err != nil {
		return refused("%v", err)
	}
	d.added = append(d.added, v)
	if err := d.saveLocked(); err != nil {
		return refused("%v", err)
	}
	return wire.Answer{Stdout: fmt.Sprintf("Will export new APFS Volume %q from APFS Container Reference %[2]s\n"+
		"Started APFS operation on %[2]s\nPreparing to add APFS Volume to APFS Container %[2]s\nCreating APFS Volume\n"+
		"Created new APFS Volume %[3]s\nMounting APFS Volume\nSetting volume permissions\n"+
		"Disk from APFS operation: %[3]s\nFinished APFS operation on %[2]s\n", name, container, v.Slice)}
}

func (d *Disk) freeSlice() string {
	for n := firstSlice; ; n++ {
		slice := fmt.Sprintf("%ss%d", container, n)
		if !slices.ContainsFunc(d.added, func(v Volume) bool { return v.Slice == slice }) {
			return slice
		}
	}
}

// parseSize reads a size such as 1000B, 20g or 1t; letters are powers of 1000.
func parseSize(s string) (int64, bool) {
	units := map[string]int64{"": 1, "b": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
	digits := strings.TrimRight(s, "bBkKmMgGtT")
	unit := strings.ToLower(s[len(digits):])
	if len(unit) == 2 {
		unit = strings.TrimSuffix(unit, "b")
	}
	factor, known := units[unit]
	n, err := strconv.ParseInt(digits, 10, 64)
	return n * factor, known && err == nil && n > 0 && n <= (1<<62)/factor
}

func encode(v any) wire.Answer {
	data, err := plist.MarshalIndent(v, plist.XMLFormat, "\t")
	if err != nil {
		return refused("%v", err)
	}
	return wire.Answer{Stdout: string(data) + "\n"}
}

func (d *Disk) infoPlist(which string) wire.Answer {
	v, ok := d.find(which)
	if !ok {
		a := encode(map[string]any{"Error": true, "ErrorMessage": "Could not find disk: " + which})
		a.RC = 1
		return a
	}
	size, used, free := d.space(v)
	values := map[string]any{
		"DeviceIdentifier": v.Slice, "DeviceNode": "/dev/" + v.Slice, "VolumeName": v.Name, "VolumeUUID": v.UUID,
		"DiskUUID": v.UUID, "MountPoint": v.Mount, "FilesystemType": "apfs", "FilesystemName": "APFS", "Internal": true,
		"APFSContainerReference": container, "ParentWholeDisk": container, "APFSContainerSize": d.o.Size(),
		"APFSContainerFree": d.free(), "GlobalPermissionsEnabled": v.Owners, "Writable": v.Mount != "/",
		"CapacityInUse": used, "TotalSize": size, "Size": size, "FreeSpace": free, "FileVault": false,
	}
	if v.Quota > 0 {
		values["CapacityQuota"] = v.Quota
	}
	return encode(values)
}

func (d *Disk) info(which string) wire.Answer {
	v, ok := d.find(which)
	if !ok {
		return refused("Could not find disk: %s", which)
	}
	mounted, owners := "No", "Disabled"
	if v.Mount != "" {
		mounted = "Yes"
	}
	if v.Owners {
		owners = "Enabled"
	}
	var b strings.Builder
	for _, kv := range [][2]string{
		{"Device Identifier", v.Slice},
		{"Device Node", "/dev/" + v.Slice},
		{"Volume Name", v.Name},
		{"Mounted", mounted},
		{"Mount Point", v.Mount},
		{"File System Personality", "APFS"},
		{"Owners", owners},
		{"Volume UUID", v.UUID},
		{"APFS Container", container},
	} {
		fmt.Fprintf(&b, "   %-26s%s\n", kv[0]+":", kv[1])
	}
	return wire.Answer{Stdout: b.String() + "\n"}
}

func (d *Disk) list() wire.Answer {
	var b strings.Builder
	fmt.Fprintf(&b, "/dev/%s (synthesized):\n   #:                       TYPE NAME                    SIZE       IDENTIFIER\n", container)
	for i, v := range append(d.system(), d.added...) {
		_, used, _ := d.space(v)
		fmt.Fprintf(&b, "%4d:                APFS Volume %-23s %5.1f GB   %s\n", i+1, v.Name, float64(used)/1e9, v.Slice)
	}
	return wire.Answer{Stdout: b.String() + "\n"}
}

func (d *Disk) apfsList() wire.Answer {
	var volumes []map[string]any
	for _, v := range append(d.system(), d.added...) {
		volumes = append(volumes, map[string]any{
			"APFSVolumeUUID": v.UUID, "Name": v.Name, "DeviceIdentifier": v.Slice, "CapacityQuota": v.Quota,
			"CapacityInUse": d.used(v), "CapacityReserve": 0, "FileVault": false, "Locked": false,
		})
	}
	return encode(map[string]any{"Containers": []map[string]any{{
		"ContainerReference": container, "CapacityCeiling": d.o.Size(), "CapacityFree": d.free(), "Volumes": volumes,
	}}})
}
