package tart

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// Disk formats of config.json.
const (
	formatRaw  = "raw"
	formatASIF = "asif"
)

// stackedMinor is the minor version from which images in layers are: tart's main
// after 2.35, not released yet.
const stackedMinor = 36

// An ASIF file, an overlay among them, is far smaller than its disk. Here it begins
// with the size of the disk.
var asifPattern = regexp.MustCompile(`^simulated ASIF disk of (\d+) bytes\n`)

func asifHeader(size int64) string { return fmt.Sprintf("simulated ASIF disk of %d bytes\n", size) }

func asifSize(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("looking at a disk: %w", err)
	}
	m := asifPattern.FindSubmatch(data)
	if m == nil {
		return 0, runtimeError("Could not find size information in disk image info")
	}
	return strconv.ParseInt(string(m[1]), 10, 64)
}

// setASIFSize leaves what is behind the header.
func setASIFSize(path string, size int64) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("growing a disk: %w", err)
	}
	grown := append([]byte(asifHeader(size)), asifPattern.ReplaceAll(data, nil)...)
	if err := os.WriteFile(path, grown, 0o644); err != nil {
		return fmt.Errorf("growing a disk: %w", err)
	}
	return nil
}

// asif is the ASIF file that says how big the VM's disk is, empty for a raw disk.
func (vm vmDir) asif(cfg vmConfig) string {
	switch {
	case vm.layout() == stacked:
		return vm.overlay()
	case cfg.DiskFormat == formatASIF:
		return vm.disk()
	}
	return ""
}

// diskBytes is the size of the disk as the guest sees it.
func (vm vmDir) diskBytes() (int64, error) {
	if vm.layout() == stackedRecord {
		m, err := vm.readManifest()
		return m.diskBytes(), err
	}
	cfg, err := vm.readConfig()
	if err != nil {
		return 0, err
	}
	if file := vm.asif(cfg); file != "" {
		return asifSize(file)
	}
	apparent, _ := vm.sizes()
	return apparent, nil
}

// shownDisk is the column Disk: up to 2.35 the length of the files, whatever their
// format, and since then the size of the disk.
func (c *cli) shownDisk(vm vmDir) int64 {
	apparent, _ := vm.sizes()
	if c.plan.minor() < stackedMinor {
		return apparent
	}
	if size, err := vm.diskBytes(); err == nil {
		return size
	}
	return apparent
}

// growDisk changes the disk to a size in decimal gigabytes; it never shrinks.
func (vm vmDir) growDisk(gigabytes int) error {
	if gigabytes == 0 {
		return nil
	}
	cfg, err := vm.readConfig()
	if err != nil {
		return err
	}
	file := vm.asif(cfg)
	current, resize := int64(0), setASIFSize
	if file == "" {
		st, err := os.Stat(vm.disk())
		if err != nil {
			return fmt.Errorf("looking at a disk: %w", err)
		}
		file, current, resize = vm.disk(), st.Size(), os.Truncate
	} else if current, err = asifSize(file); err != nil {
		return err
	}
	wanted := int64(gigabytes) * 1_000_000_000
	if wanted < current {
		return vm.smaller(file, wanted, current)
	}
	return resize(file, wanted)
}

// smaller is how tart refuses to shrink a disk; layers have words of their own.
func (vm vmDir) smaller(file string, wanted, current int64) error {
	if vm.layout() == stacked {
		return errors.New("ASIF overlay block count shrinks the stacked disk: " + file)
	}
	word := "new"
	if file == vm.disk() && vm.isASIF() {
		word = "New"
	}
	return runtimeError(fmt.Sprintf("%s disk size of %s should be larger than the current disk size of %s", word, human(wanted), human(current)))
}

func (vm vmDir) isASIF() bool {
	cfg, err := vm.readConfig()
	return err == nil && cfg.DiskFormat == formatASIF
}

// human is a size as Foundation's formatter shows it.
func human(bytes int64) string {
	return strconv.FormatFloat(float64(bytes)/1e9, 'f', -1, 64) + " GB"
}
