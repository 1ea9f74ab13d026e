package tart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEtherHardware(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"0a:00:10:0f:ff:a0": "1,a:0:10:f:ff:a0",
		"02:03:04:05:06:07": "1,2:3:4:5:6:7",
	}
	for mac, want := range tests {
		if got := etherHardware(mac); got != want {
			t.Errorf("%s: %s, want %s", mac, got, want)
		}
	}
}

func TestGrant(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	valid, expired := now.Add(time.Minute), now.Add(-time.Second)
	full := make([]lease, 0, 253)
	for i := range 253 {
		full = append(full, lease{ip: dhcp{Network: "10.0.0"}.free(taken(full)), hardware: "1,f:f:" + strings.Repeat("1", i+1), expires: valid})
	}
	tests := []struct {
		name   string
		leases []lease
		want   string // empty when the pool is
	}{
		{name: "first", want: "10.0.0.2"},
		{name: "lowest free", leases: []lease{{"10.0.0.2", "1,b", valid}, {"10.0.0.4", "1,c", valid}}, want: "10.0.0.3"},
		{name: "expired is free", leases: []lease{{"10.0.0.2", "1,b", expired}}, want: "10.0.0.2"},
		{name: "renewed", leases: []lease{{"10.0.0.9", "1,a", valid}}, want: "10.0.0.9"},
		{name: "own but given away", leases: []lease{{"10.0.0.9", "1,b", valid}, {"10.0.0.9", "1,a", expired}}, want: "10.0.0.2"},
		{name: "pool empty", leases: full},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := dhcp{File: filepath.Join(t.TempDir(), "leases"), Lock: filepath.Join(t.TempDir(), "lock"), Network: "10.0.0", Time: time.Hour}.open()
			if err != nil {
				t.Fatal(err)
			}
			if err := d.write(tt.leases); err != nil {
				t.Fatal(err)
			}
			ip, err := d.grant("1,a", now, false)
			if err != nil || ip != tt.want {
				t.Fatalf("granted %q, %v", ip, err)
			}
			got, err := readLeases(d.File)
			if err != nil {
				t.Fatal(err)
			}
			if ip == "" {
				if len(got) != len(tt.leases) {
					t.Errorf("%d leases, want %d", len(got), len(tt.leases))
				}
				return
			}
			if diff := cmp.Diff(lease{tt.want, "1,a", now.Add(time.Hour)}, got[len(got)-1], cmp.AllowUnexported(lease{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func taken(leases []lease) map[string]bool {
	used := map[string]bool{}
	for _, l := range leases {
		used[l.ip] = true
	}
	return used
}

func TestResolveTakesTheNewestValidLease(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	leases := []lease{
		{"10.0.0.2", "1,2:0:0:0:0:1", now.Add(time.Minute)},
		{"10.0.0.3", "1,2:0:0:0:0:1", now.Add(time.Hour)},
		{"10.0.0.4", "1,2:0:0:0:0:2", now.Add(-time.Hour)},
	}
	for mac, want := range map[string]string{"02:00:00:00:00:01": "10.0.0.3", "02:00:00:00:00:02": "", "02:00:00:00:00:03": ""} {
		if got := resolve(leases, mac, now); got != want {
			t.Errorf("%s: %q, want %q", mac, got, want)
		}
	}
}

func TestGuestTakesALease(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Network: "172.20.5"}, "vm")
	m.must("clone", "registry.test/ubuntu:v1", "ubuntu")
	m.boot("vm")
	if ip := m.must("ip", "vm"); ip != "172.20.5.2\n" {
		t.Errorf("ip %q", ip)
	}
	data, err := os.ReadFile(m.path("leases"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`^\{\n\tname=\w+\n\tip_address=172\.20\.5\.2\n\thw_address=1,[0-9a-f:]+\n\tidentifier=1,[0-9a-f:]+\n\tlease=0x[0-9a-f]+\n\}\n$`)
	if !block.Match(data) {
		t.Errorf("lease file:\n%s", data)
	}
	// A Linux guest has a lease that names no MAC, so that tart cannot find it.
	m.boot("ubuntu")
	if data, _ = os.ReadFile(m.path("leases")); !strings.Contains(string(data), "hw_address=ff,") {
		t.Errorf("lease file:\n%s", data)
	}
	if got := m.do("ip", "ubuntu"); got.code != 1 {
		t.Errorf("ip of a Linux guest: %+v", got)
	}
}

// Only macOS 15 keeps to itself that the keychain is locked.
func TestWhatALockedKeychainSays(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"15.6.1": "Internal Virtualization error", "15": "Code=1 ", "26.1": "-25308", "": "Code=-9 "} {
		if err := lockedKeychain(version); !strings.Contains(err.Error(), want) {
			t.Errorf("macOS %q says: %v", version, err)
		}
	}
}

func TestBootFaults(t *testing.T) {
	t.Parallel()
	plan := &Plan{Faults: []Fault{
		{Kind: BootNoLease, Name: "mute"},
		{Kind: BootCrash, Name: "sick"},
		{Kind: RunExitsEarly, Name: "early"},
		{Kind: RunNoSession, Name: "headless"},
		{Kind: RunLimit, Name: "refused"},
	}}
	m := cloned(t, plan, "mute", "sick", "early", "headless", "refused")
	m.boot("mute")
	if got := m.do("ip", "mute", "--wait", "1"); got.code != 1 || got.err != "no IP address found, is your VM running?\n" {
		t.Errorf("ip: %+v", got)
	}
	tests := []struct {
		vm   string
		exit int
		says string
	}{
		{"sick", 0, "guest has stopped the virtual machine due to error"},
		{"early", 1, "VZErrorDomain Code=1"},
		{"headless", 1, "VZErrorDomain Code=-9"},
		{"refused", 1, "The number of VMs exceeds the system limit (other running VMs: mute)"},
	}
	for _, tt := range tests {
		got := m.do("run", tt.vm)
		if got.code != tt.exit || !strings.Contains(got.out+got.err, tt.says) {
			t.Errorf("%s: %+v", tt.vm, got)
		}
	}
}
