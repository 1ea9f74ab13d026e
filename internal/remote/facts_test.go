package remote

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/macfleet/macfleet/internal/converge/document"
)

var (
	buildA = strings.Repeat("aa", 32)
	buildB = strings.Repeat("bb", 32)
)

var probed = `Last login: today
probe 1
os 15.6.1
build 24G90
arch arm64
hw.model Mac14,3
hw.memsize 17179869184
hw.ncpu 8
kern.bootsessionuuid 0F0B61E2-0000-4000-8000-000000000000
kern.hv_vmm_present 0
ioreg     "IOPlatformSerialNumber" = "C07XX0ABCDEF"
ioreg     "IOPlatformUUID" = "11111111-2222-3333-4444-555555555555"
disk /dev/disk3s5   239362496  20480000 218882496     9%  404167 2188824960    0%   /System/Volumes/Data
filevault FileVault is Off.
console m1
user m1
client ::ffff:203.0.113.9
current /usr/local/libexec/macfleet/` + buildA + `
slot /usr/local/libexec/macfleet/` + buildA + `/tart-kubelet
slot /usr/local/libexec/macfleet/` + buildB + `/tart-kubelet
slot /usr/local/libexec/macfleet/current/tart-kubelet
slot /usr/local/libexec/macfleet/next/tart-kubelet
staged      1234 .macfleet/staging/` + buildB + `.part
sudo yes
journal {"schema":"macfleet.dev/journal/v1","epoch":3,"name":"ci-1","created":"2026-01-01T00:00:00Z"}
something new
end 1
`

func TestParseFacts(t *testing.T) {
	got, complete := parseFacts(probed)
	if !complete {
		t.Error("not complete")
	}
	if got.DiskMarker == nil || got.DiskMarker.Epoch != 3 || got.DiskMarker.Name != "ci-1" {
		t.Errorf("journal %+v", got.DiskMarker)
	}
	got.DiskMarker = nil
	want := Facts{
		OSVersion: "15.6.1", Build: "24G90", Model: "Mac14,3", Arch: "arm64", Serial: "C07XX0ABCDEF",
		PlatformUUID: "11111111-2222-3333-4444-555555555555", MemoryBytes: 16 << 30, CPUs: 8,
		BootSession: "0F0B61E2-0000-4000-8000-000000000000", DiskFreeBytes: 218882496 << 10,
		FileVault: Off, ConsoleUser: "m1", User: "m1", Client: netip.MustParseAddr("203.0.113.9"), Sudo: true, CurrentAgent: buildA,
		InstalledBuilds: []string{buildA, buildB}, Staged: map[string]int64{buildB + ".part": 1234},
		Unknown: []string{"Last login: today", "something new"},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Error(diff)
	}
	if missing := got.Missing(); len(missing) != 0 {
		t.Errorf("missing %v", missing)
	}
}

func TestFactsThatFailedAreMissing(t *testing.T) {
	f, complete := parseFacts("probe 1\nos \narch arm64\nhw.memsize \ndisk \nfilevault \njournal \nend 1\n")
	if !complete || len(f.Unknown) != 0 || f.DiskMarker != nil || f.DiskMarkerDamaged || f.Sudo {
		t.Errorf("%v %+v", complete, f)
	}
	if len(f.Missing()) != 8 {
		t.Errorf("missing %v", f.Missing())
	}
}

func TestOddFactsAreKeptAsTheyCame(t *testing.T) {
	odd := []string{
		"hw.ncpu many", "hw.memsize -1", "disk /dev/disk 12% x", "filevault Busy", "staged x y", "staged 1",
		"current /elsewhere", "slot /x", "ioreg nonsense", "client UNKNOWN", `ioreg "a" = "b"`,
	}
	f, _ := parseFacts("probe 1\n" + strings.Join(odd, "\n") + "\nend 1\n")
	if diff := cmp.Diff(odd, f.Unknown); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedDiskMarkerIsSeen(t *testing.T) {
	if f, _ := parseFacts("journal {\"epoch\""); !f.DiskMarkerDamaged {
		t.Error("not seen")
	}
}

func FuzzParseFacts(f *testing.F) {
	f.Add(probed)
	f.Add("disk % %\nioreg \"\"\"\"\nstaged  \n")
	f.Fuzz(func(t *testing.T, text string) {
		facts, _ := parseFacts(text)
		if len(facts.Unknown) > maxUnknown || facts.DiskFreeBytes < 0 || facts.MemoryBytes < 0 || facts.CPUs < 0 {
			t.Errorf("%+v", facts)
		}
		if facts.CurrentAgent != "" && !document.IsSHA256(facts.CurrentAgent) {
			t.Error("not a build")
		}
	})
}

func TestTheFactOfFileVault(t *testing.T) {
	for said, want := range map[string]Switch{
		"FileVault is Off.": Off, "FileVault is On.": On, "fdesetup: not found": "",
		"FileVault is Off. Deferred enablement appears to be active for user 'm1'.": On,
	} {
		var f Facts
		if known := f.setFileVault(said); known != (want != "") || f.FileVault != want {
			t.Errorf("%q: %q, %t", said, f.FileVault, known)
		}
	}
}
