package tart

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// contractMac is a Mac for the contract suite: a simulated one, or the machine at hand
// when MACFLEET_TART names a real tart. Then MACFLEET_TART_IMAGE has to name a macOS
// image that may be pulled, and HOME and TART_HOME are still the test's own.
func contractMac(t *testing.T) (*fakeMac, string) {
	t.Helper()
	m := newMac(t, nil)
	installed := os.Getenv("MACFLEET_TART")
	if installed == "" {
		return m, testImage
	}
	image := os.Getenv("MACFLEET_TART_IMAGE")
	if image == "" {
		t.Skip("MACFLEET_TART without MACFLEET_TART_IMAGE")
	}
	m.tart = installed
	return m, image
}

// TestContract is what anything called tart has to do: arguments in; exit code, output
// and files out. $IMAGE stands for the image. Patterns match whole streams, `-` an
// empty one.
func TestContract(t *testing.T) {
	m, image := contractMac(t)
	m.must("clone", image, "still")
	m.must("clone", image, "live")
	m.boot("live")
	tests := []struct {
		args     string
		exit     int
		out, err string
		present  string // below TART_HOME, afterwards
		absent   string
	}{
		{args: "--version", out: `\d+\.\d+\.\d+`},
		{args: "frobnicate", exit: 64, out: "-", err: `Error: (?s:.*)Usage: (?s:.*)`},
		{args: "list --format yaml", exit: 64, err: `Error: (?s:.*)`},
		{args: "list --source cloud", exit: 64, err: `Error: (?s:.*)`},
		{args: "list --source local -q", out: "live\nstill\n"},
		{args: "list --source oci -q", out: `(?s:.*)@sha256:[0-9a-f]{64}\n(?s:.*)`},
		{args: "list --frob", exit: 64, err: `Error: (?s:.*)`},
		{args: "get nobody", exit: 2, out: "-", err: `(?s:.*)does not exist\n`},
		{args: "set nobody --cpu 4", exit: 2, err: `(?s:.*)does not exist\n`},
		{args: "ip nobody", exit: 2, err: `(?s:.*)does not exist\n`},
		{args: "run nobody", exit: 2, err: `(?s:.*)does not exist\n`},
		{args: "stop nobody", exit: 2, err: `(?s:.*)does not exist\n`},
		{args: "delete nobody", exit: 2, err: `(?s:.*)does not exist\n`},
		{args: "clone nobody new", exit: 2, err: `(?s:.*)does not exist\n`, absent: "vms/new"},
		{args: "clone still a/b", exit: 64, err: `Error: (?s:.*)`},
		{args: "clone still", exit: 64, err: `Error: (?s:.*)`},
		{args: "set still --cpu 1", exit: 1, err: `LessThanMinimalResourcesError(?s:.*)`},
		{args: "set still --memory 1", exit: 1, err: `LessThanMinimalResourcesError(?s:.*)`},
		{args: "set still --cpu many", exit: 64, err: `Error: (?s:.*)`},
		{args: "set still --cpu 5 --memory 5000 --display 1920x1200", out: "-", err: "-"},
		{args: "get still --format json", out: `(?s:.*)"CPU" : 5,(?s:.*)"Memory" : 5000,(?s:.*)"Display" : "1920x1200(?s:.*)`},
		{args: "set still --disk-size 0", out: "-", err: "-"},
		{args: "ip still", exit: 1, out: "-", err: `no IP address found(?s:.*)`},
		{args: "ip live --wait 120", out: `\d+\.\d+\.\d+\.\d+\n`, err: "-"},
		{args: "ip live --resolver carrier-pigeon", exit: 64, err: `Error: (?s:.*)`},
		{args: "run live --no-graphics", exit: 2, err: `VM "live" is already running!\n`},
		{args: "run still --vnc --vnc-experimental", exit: 64, err: `Error: (?s:.*)mutually exclusive(?s:.*)`},
		{args: "run still --graphics --no-graphics", exit: 64, err: `Error: (?s:.*)mutually exclusive(?s:.*)`},
		{args: "run still --net-softnet --net-host", exit: 64, err: `Error: (?s:.*)mutually exclusive(?s:.*)`},
		{args: "run still --dir /tmp --dir /var", exit: 64, err: `Error: (?s:.*)`},
		{args: "exec still true", exit: 2, err: `VM "still" is not running\n`},
		{args: "exec nobody true", exit: 2, err: `(?s:.*)does not exist\n`},
		{args: "exec live", exit: 64, err: `Error: (?s:.*)`},
		{args: "suspend still", exit: 2, err: `(?s:.*)is not running(?s:.*)`},
		{args: "suspend nobody", exit: 2, err: `(?s:.*)does not exist\n`},
		{args: "push live registry.invalid/x/y:1", exit: 1, err: `(?s:.*)running(?s:.*)`},
		{args: "push nobody registry.invalid/x/y:1", exit: 2, err: `(?s:.*)does not exist\n`},
		{args: "prune", exit: 64, err: `Error: (?s:.*)`},
		{args: "prune --entries clouds --older-than 1", exit: 64, err: `Error: (?s:.*)`},
		{args: "delete live", exit: 1, err: `VM "live" is running\n`, present: "vms/live/config.json"},
		{args: "stop still", exit: 2, err: `VM "still" is not running\n`},
		{args: "clone still copy", out: "-", err: "-", present: "vms/copy/disk.img"},
		{args: "rename copy still", exit: 64, err: `Error: (?s:.*)`},
		{args: "rename nobody other", exit: 64, err: `Error: (?s:.*)`},
		{args: "rename copy moved", present: "vms/moved/config.json", absent: "vms/copy"},
		{args: "delete moved nobody", exit: 2, absent: "vms/moved"},
		{args: "pull still", out: `(?s:.*)still(?s:.*)`, err: "-"},
		{args: "fqn $IMAGE", out: `[^ ]+@sha256:[0-9a-f]{64}\n`},
		{args: "stop live", out: "-", err: "-"},
		{args: "ip live", out: `\d+\.\d+\.\d+\.\d+\n`}, // a lease outlives its VM
		{args: "delete live still", out: "-", err: "-", absent: "vms/live"},
		{args: "list --source local --format json", out: `\[\s*\]\n`},
		{args: "delete $IMAGE", err: "-"},
		{args: "list -q", out: "-"},
	}
	for _, tt := range tests { // in order: they share the VMs
		args := strings.Fields(strings.ReplaceAll(tt.args, "$IMAGE", image))
		t.Run(tt.args, func(t *testing.T) {
			got := m.do(args...)
			if got.code != tt.exit {
				t.Errorf("exit %d, want %d", got.code, tt.exit)
			}
			matchStream(t, "stdout", got.out, tt.out)
			matchStream(t, "stderr", got.err, tt.err)
			if tt.present != "" && !exists(m.path("home", tt.present)) {
				t.Errorf("%s is not there", tt.present)
			}
			if tt.absent != "" && exists(m.path("home", tt.absent)) {
				t.Errorf("%s is there", tt.absent)
			}
		})
	}
}

func matchStream(t *testing.T, stream, got, want string) {
	t.Helper()
	switch want {
	case "":
		return
	case "-":
		want = ""
	}
	if !regexp.MustCompile(`^(?:` + want + `)\n?$`).MatchString(got) {
		t.Errorf("%s %q does not match %q", stream, got, want)
	}
}

func TestUnmodelledCommandsSaySo(t *testing.T) {
	t.Parallel()
	m := newMac(t, nil)
	for _, name := range []string{"create"} {
		got := m.do(name, "vm")
		if got.code != 64 || !strings.Contains(got.err, "does not model \""+name+"\"") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
