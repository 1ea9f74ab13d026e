package hostos

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// script answers commands by their words.
type script map[string]string

func (s script) Run(_ context.Context, name string, args ...string) (string, error) {
	if out, ok := s[strings.Join(append([]string{name}, args...), " ")]; ok {
		return out, nil
	}
	return "", errors.New(name + " is not there")
}

func mac() script {
	return script{
		"sysctl -n hw.ncpu hw.memsize kern.bootsessionuuid": "8\n17179869184\n7B1E-44\n",
		"sw_vers":                              "ProductName:\t\tmacOS\nProductVersion:\t\t26.0\nBuildVersion:\t\t25A354\n",
		"uname -r":                             "25.0.0\n",
		"ioreg -rd1 -c IOPlatformExpertDevice": "+-o J474sAP  <class IOPlatformExpertDevice>\n    {\n      \"IOPlatformUUID\" = \"0A1B2C3D-0000-1111-2222-333344445555\"\n    }\n",
		"df -k /x": "Filesystem   1024-blocks      Used Available Capacity iused ifree %iused  Mounted on\n" +
			"/dev/disk3s5   239362496  99362496 140000000    42% 500000 239362496    0%  /System/Volumes/Data\n",
	}
}

func TestReadFacts(t *testing.T) {
	got, err := ReadFacts(t.Context(), mac())
	want := Facts{
		CPUs: 8, MemoryBytes: 16 << 30, BootSession: "7B1E-44", OSImage: "macOS 26.0 (25A354)",
		Kernel: "25.0.0", PlatformUUID: "0A1B2C3D-0000-1111-2222-333344445555",
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("err %v (-want +got):\n%s", err, d)
	}
}

func TestNoFactsAreMadeUp(t *testing.T) {
	for command, bad := range map[string]string{
		"sysctl -n hw.ncpu hw.memsize kern.bootsessionuuid": "8\n17179869184\n",
		"sw_vers":                              "ProductName: macOS\n",
		"ioreg -rd1 -c IOPlatformExpertDevice": "{}\n",
	} {
		s := mac()
		s[command] = bad
		if f, err := ReadFacts(t.Context(), s); err == nil {
			t.Errorf("%s: %+v", command, f)
		}
		delete(s, command)
		if f, err := ReadFacts(t.Context(), s); err == nil {
			t.Errorf("without %s: %+v", command, f)
		}
	}
}

func TestReadDisk(t *testing.T) {
	got, err := ReadDisk(t.Context(), mac(), "/x")
	if d := cmp.Diff(Disk{TotalBytes: 239362496 << 10, FreeBytes: 140000000 << 10}, got); err != nil || d != "" {
		t.Errorf("err %v (-want +got):\n%s", err, d)
	}
	for _, bad := range []string{"", "one line only\n", "head\na b c d e\n"} {
		if got, err := ReadDisk(t.Context(), script{"df -k /x": bad}, "/x"); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// lsof fails where it may not look at some process, and tells of the others.
func TestWhatAFailedCommandPrintedIsKept(t *testing.T) {
	out, err := Commands{}.Run(t.Context(), "sh", "-c", "echo some; exit 1")
	if err == nil || out != "some\n" {
		t.Errorf("%q, %v", out, err)
	}
}
