package tart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	asifImage    = "registry.test/macos/asif:v1"
	stackedImage = "registry.test/macos/stacked:v1"
	siblingImage = "registry.test/macos/sibling:v1"
)

// disksPlan has images of all kinds of disk.
func disksPlan(version string) *Plan {
	base := Layer{Name: "macOS", Bytes: 1 << 20}
	return &Plan{Version: version, Images: map[string]Image{
		asifImage:    {DiskGB: 100, DiskFormat: "asif"},
		stackedImage: {DiskGB: 50, Layers: []Layer{base, {Name: "Xcode", Bytes: 2 << 20}}},
		siblingImage: {DiskGB: 50, Layers: []Layer{base, {Name: "Android", Bytes: 2 << 20}}},
	}}
}

func (m *fakeMac) shown(name string) (disk float64, format string) {
	m.t.Helper()
	var got struct {
		Disk       float64
		DiskFormat string
	}
	if err := json.Unmarshal([]byte(m.must("get", name, "--format", "json")), &got); err != nil {
		m.t.Fatal(err)
	}
	return got.Disk, got.DiskFormat
}

// An ASIF file is far shorter than its disk, and get tells its length up to 2.35.
func TestASIFDisks(t *testing.T) {
	t.Parallel()
	for version, shown := range map[string]float64{"2.30.0": 0, "2.35.0": 0, "2.36.0": 100} {
		m := newMac(t, disksPlan(version))
		m.must("clone", asifImage, "vm")
		if st, err := os.Stat(m.vm("vm").disk()); err != nil || st.Size() > 1000 {
			t.Errorf("%s: the file has %d bytes, %v", version, st.Size(), err)
		}
		if disk, format := m.shown("vm"); disk != shown || format != "asif" {
			t.Errorf("%s: get shows %v GB of %s", version, disk, format)
		}
		got := m.do("set", "vm", "--disk-size", "50", "--cpu", "7")
		if got.code != 1 || got.err != "New disk size of 50 GB should be larger than the current disk size of 100 GB\n" {
			t.Errorf("%s: a disk shrank: %+v", version, got)
		}
		if cfg, err := m.vm("vm").readConfig(); err != nil || cfg.CPUCount != 7 {
			t.Errorf("%s: tart saves the rest before it looks at the disk: %+v, %v", version, cfg, err)
		}
		m.must("set", "vm", "--disk-size", "120")
		if size, err := m.vm("vm").diskBytes(); err != nil || size != 120e9 {
			t.Errorf("%s: a disk of %d bytes, %v", version, size, err)
		}
	}
}

func TestImagesInLayers(t *testing.T) {
	t.Parallel()
	m := newMac(t, disksPlan("2.36.0"))
	for _, image := range []string{stackedImage, siblingImage} {
		m.must("pull", image)
	}
	layers := func() int {
		stored, err := os.ReadDir(m.path("home", "cache", "content", "sha256"))
		if err != nil {
			t.Fatal(err)
		}
		return len(stored)
	}
	if layers() != 3 {
		t.Errorf("%d layers, the base is shared", layers())
	}
	m.must("clone", stackedImage, "vm")
	if vm := m.vm("vm"); exists(vm.disk()) || !exists(vm.overlay()) || !exists(vm.manifest()) {
		t.Error("the clone is not one over layers")
	}
	if disk, _ := m.shown("vm"); disk != 50 {
		t.Errorf("get shows a disk of %v GB", disk)
	}
	if got := m.do("set", "vm", "--disk-size", "20"); got.code != 1 || !strings.Contains(got.err, "shrinks the stacked disk") {
		t.Errorf("%+v", got)
	}
	m.must("set", "vm", "--disk-size", "60")
	m.must("clone", "vm", "copy")
	if disk, _ := m.shown("copy"); disk != 60 {
		t.Errorf("a copy has a disk of %v GB", disk)
	}
	if got := m.do("set", "vm", "--disk", "/etc/passwd"); got.code != 64 {
		t.Errorf("%+v", got)
	}
	// What a VM needs stays when its image goes.
	m.must("delete", stackedImage)
	if layers() != 3 {
		t.Errorf("%d layers after the image went", layers())
	}
	m.must("delete", "vm", "copy")
	if layers() != 2 {
		t.Errorf("%d layers after its VMs went", layers())
	}
	m.must("delete", siblingImage)
	if layers() != 0 {
		t.Errorf("%d layers nobody needs", layers())
	}
}

// A record whose layers went is pulled again, also by clone.
func TestALayerThatWentIsPulledAgain(t *testing.T) {
	t.Parallel()
	m := newMac(t, disksPlan("2.36.0"))
	m.must("pull", stackedImage)
	stored, err := filepath.Glob(m.path("home", "cache", "content", "sha256", "*"))
	if err != nil || len(stored) == 0 {
		t.Fatalf("no layers: %v", err)
	}
	if err := os.Remove(stored[0]); err != nil {
		t.Fatal(err)
	}
	if out := m.must("clone", stackedImage, "vm"); !strings.Contains(out, "pulling disk") || !exists(stored[0]) {
		t.Errorf("cloned without a layer: %s", out)
	}
}

func TestAnOlderTartTakesTheBaseForTheDisk(t *testing.T) {
	t.Parallel()
	m := newMac(t, disksPlan("2.35.0"))
	m.must("clone", stackedImage, "vm")
	if m.vm("vm").layout() != standalone {
		t.Errorf("the clone is %s", m.vm("vm").layout())
	}
}

func TestCloneMayRefuseToReplace(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{RefuseReplace: true}, "vm")
	if got := m.do("clone", testImage, "vm"); got.code != 1 || !strings.Contains(got.err, "already exists") {
		t.Errorf("%+v", got)
	}
	m.must("clone", testImage, "vm", "--overwrite")
}

func TestWithoutAControlSocket(t *testing.T) {
	t.Parallel()
	fault := []Fault{{Kind: SocketFails}}
	m := cloned(t, &Plan{Version: "2.36.0", Faults: fault}, "vm")
	if got := m.do("run", "vm", "--no-graphics"); got.code != 1 || !strings.Contains(got.err, "bind(") {
		t.Errorf("%+v", got)
	}
	m.arm(Plan{Version: "2.35.0", Faults: fault})
	m.boot("vm")
	if exists(filepath.Join(string(m.vm("vm")), "control.sock")) {
		t.Error("the socket is there")
	}
}

func TestFullDiskWhereTartWrites(t *testing.T) {
	t.Parallel()
	plan := disksPlan("2.36.0")
	m := newMac(t, plan)
	m.must("clone", stackedImage, "vm")
	plan.Faults = []Fault{{Kind: SetNoSpace}, {Kind: DeleteNoSpace}}
	m.arm(*plan)
	if got := m.do("set", "vm", "--cpu", "4"); got.code != 1 || !strings.Contains(got.err, "No space left") {
		t.Errorf("%+v", got)
	}
	if data, err := os.ReadFile(m.vm("vm").config()); err != nil || len(data) != 0 {
		t.Errorf("the configuration is %q, %v", data, err)
	}
	if got := m.do("delete", "vm"); got.code != 1 || !exists(string(m.vm("vm"))) {
		t.Errorf("%+v", got)
	}
}
