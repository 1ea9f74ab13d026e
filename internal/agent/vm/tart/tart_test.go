package tart

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestParseImages(t *testing.T) {
	for _, c := range []struct {
		name, json string
		want       []vm.Image
	}{
		{"numbers", `[{"Source":"OCI","Name":"r/a:v1","Size":24,"Running":false}]`, []vm.Image{{Name: "r/a:v1", SizeBytes: 24e9}}},
		{"text", `[{"Source":"OCI","Name":"r/a:v1","Size":"24.125"}]`, []vm.Image{{Name: "r/a:v1", SizeBytes: 24125e6}}},
		{"the older name", `[{"Source":"OCI","Name":"r/a:v1","SizeOnDisk":24}]`, []vm.Image{{Name: "r/a:v1", SizeBytes: 24e9}}},
		{"new keys", `[{"Source":"OCI","Name":"r/a:v1","Size":1,"Shiny":{"x":[1]}}]`, []vm.Image{{Name: "r/a:v1", SizeBytes: 1e9}}},
		{"a unit", `[{"Source":"OCI","Name":"r/a:v1","Size":"1.5 GB"}]`, []vm.Image{{Name: "r/a:v1", SizeBytes: 15e8}}},
		{"another unit", `[{"Source":"OCI","Name":"r/a:v1","Size":"512MiB"}]`, []vm.Image{{Name: "r/a:v1", SizeBytes: 512 << 20}}},
		{"no size", `[{"Source":"OCI","Name":"r/a:v1","Size":"?"}]`, []vm.Image{{Name: "r/a:v1"}}},
		{"used", `[{"Source":"OCI","Name":"r/a:v1","Size":1,"Accessed":"2026-08-04T10:00:00Z"}]`, []vm.Image{{Name: "r/a:v1", SizeBytes: 1e9, Accessed: time.Date(2026, 8, 4, 10, 0, 0, 0, time.UTC)}}},
		{"used, who knows when", `[{"Source":"OCI","Name":"r/a:v1","Size":1,"Accessed":"yesterday"}]`, []vm.Image{{Name: "r/a:v1", SizeBytes: 1e9}}},
		{"machines", `[{"Source":"local","Name":"tk-a-0","Size":1}]`, nil},
		{"nothing", `[]`, nil},
	} {
		got, err := parseImages([]byte(c.json))
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%s: err %v (-want +got):\n%s", c.name, err, d)
		}
	}
}

func FuzzParseImages(f *testing.F) {
	f.Add(`[{"Name":"r/a:v1","Size":"1.5 GB"}]`)
	f.Add(`[{"Name":1}]`)
	f.Fuzz(func(t *testing.T, text string) {
		images, err := parseImages([]byte(text))
		for _, i := range images {
			if err == nil && i.Name == "" {
				t.Error("an image without a name")
			}
		}
	})
}

func TestClassify(t *testing.T) {
	const (
		stopped       = "guest has stopped the virtual machine"
		died          = stopped + " due to error: panic"
		cut           = "virtual machine's network attachment <VZ> has been disconnected with error: gone"
		limit         = "The number of VMs exceeds the system limit (other running VMs: a, b)"
		limitVZ       = `Error Domain=VZErrorDomain Code=6 "The maximum supported number of active virtual machines has been reached."`
		softnet       = "Softnet process terminated prematurely"
		inUse         = `VZErrorDomain Code=2 "failed to lock auxiliary storage"`
		session       = " (macOS guests need a login session with an unlocked login keychain on the host)"
		internalError = `Error Domain=VZErrorDomain Code=1 "The virtual machine failed to start." UserInfo={NSLocalizedFailure=Internal Virtualization error., NSLocalizedFailureReason=The virtual machine failed to start.}`
	)
	notStarted := func(message string) vm.Outcome { return vm.Outcome{Kind: vm.NotStarted, Message: message} }
	noSession := func(message string) vm.Outcome {
		return vm.Outcome{Kind: vm.NotStarted, Message: message + session, NoSession: true}
	}
	pulled := vm.Outcome{Kind: vm.Stopped, Message: "the VM was stopped from the host"}
	for _, c := range []struct {
		end  vm.RunEnd
		want vm.Outcome
	}{
		{vm.RunEnd{Tail: stopped + "\n"}, vm.Outcome{Kind: vm.ShutDown, Message: stopped}},
		{vm.RunEnd{Tail: died + "\n"}, vm.Outcome{Kind: vm.Crashed, Message: died}},
		{vm.RunEnd{Tail: cut + "\n"}, vm.Outcome{Kind: vm.Crashed, Message: cut}},
		{vm.RunEnd{Tail: "Stopping VM...\n"}, pulled},
		{vm.RunEnd{Tail: "Stopping VM...\n" + stopped + "\n"}, vm.Outcome{Kind: vm.ShutDown, Message: stopped}},
		{vm.RunEnd{Tail: "pausing VM to take a snapshot...\ncreating a snapshot...\nsnapshot created successfully! shutting down the VM...\n"}, pulled},
		{vm.RunEnd{Tail: "resuming VM...\n"}, vm.Outcome{Kind: vm.Crashed, Message: "resuming VM..."}},
		{vm.RunEnd{}, vm.Outcome{Kind: vm.Crashed, Message: "tart ended without a word about the guest"}},
		{vm.RunEnd{Code: 1, Tail: limit + "\n"}, vm.Outcome{Kind: vm.Limited, Message: limit}},
		{vm.RunEnd{Code: 1, Tail: limitVZ}, vm.Outcome{Kind: vm.Limited, Message: limitVZ}},
		{vm.RunEnd{Code: 1, Tail: softnet + "\n"}, vm.Outcome{Kind: vm.Crashed, Message: softnet}},
		{vm.RunEnd{Code: 1, Tail: stopped + "\nsomething failed\n"}, vm.Outcome{Kind: vm.Crashed, Message: stopped}},
		{vm.RunEnd{Code: 1, Tail: cut + "\n"}, vm.Outcome{Kind: vm.Crashed, Message: cut}},
		{vm.RunEnd{Code: 1, Tail: inUse}, notStarted("tart exited with 1 and says: " + inUse + " (another process uses the machine's files)")},
		{vm.RunEnd{Code: 1, Tail: "VZErrorDomain Code=-9 (HostKey)\n"}, noSession("tart exited with 1 and says: VZErrorDomain Code=-9 (HostKey)")},
		{vm.RunEnd{Code: 1, Tail: "NSOSStatusErrorDomain Code=-25308\n"}, noSession("tart exited with 1 and says: NSOSStatusErrorDomain Code=-25308")},
		{vm.RunEnd{Code: 1, Tail: internalError + "\n"}, notStarted("tart exited with 1 and says: " + internalError + " (macOS 15 says so also where the login keychain on the host is locked: log in at the Mac once, or reboot it; when other images start there, this one is at fault)")},
		{vm.RunEnd{Code: 1, Tail: `VZErrorDomain Code=1 "The virtual machine failed to start."`}, notStarted(`tart exited with 1 and says: VZErrorDomain Code=1 "The virtual machine failed to start."`)},
		{vm.RunEnd{Code: 1}, notStarted("tart exited with 1 and says: nothing")},
		{vm.RunEnd{Code: 2, Tail: `VM "x" is already running!`}, notStarted(`tart exited with 2 and says: VM "x" is already running!`)},
		{vm.RunEnd{Code: 64, Tail: "Error: Unknown option"}, notStarted("tart exited with 64 and says: Error: Unknown option")},
		{vm.RunEnd{Code: 127, Tail: "no such file"}, notStarted("tart exited with 127 and says: no such file")},
		{vm.RunEnd{Code: -1, Signal: 15, Tail: stopped}, vm.Outcome{Kind: vm.Killed, Message: "tart was ended by signal 15"}},
		{vm.RunEnd{Code: -1}, vm.Outcome{Kind: vm.Killed, Message: "tart was ended by a signal"}},
	} {
		if d := cmp.Diff(c.want, (&Driver{}).Classify(c.end)); d != "" {
			t.Errorf("%+v (-want +got):\n%s", c.end, d)
		}
	}
}

func TestPercents(t *testing.T) {
	var got []int
	p := &percents{tell: func(n int) { got = append(got, n) }}
	for _, piece := range []string{"pulling manifest...\npulling di", "sk (2.5 GB compressed)...\n0%\n1", "3%\r\n99.5 %\n250%\n100%\n7%"} {
		if _, err := p.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]int{0, 13, 99, 100}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestKnown(t *testing.T) {
	for version, want := range map[string]bool{
		"2.30.0": true, "2.32.1": true, "2.35.0-4-gabc": true, "2.36.0": true, "2.37.0": false, "2.9.0": false, "3.32.0": false, "SNAPSHOT": false, "": false,
	} {
		if known(version) != want {
			t.Errorf("%q: known %v", version, !want)
		}
	}
}

func TestSetArgs(t *testing.T) {
	yes := true
	mac := config{OS: "darwin", CPUCountMin: 2, MemorySizeMin: 2 << 30}
	for _, c := range []struct {
		name   string
		shape  vm.Shape
		config config
		want   []string
	}{
		{"image's own", vm.Shape{}, mac, []string{"--random-mac", "--random-serial"}},
		{"Linux has no serial", vm.Shape{}, config{OS: "linux"}, []string{"--random-mac"}},
		{"wanted", vm.Shape{CPUs: 4, MemoryBytes: 8 << 30}, mac, []string{"--random-mac", "--random-serial", "--cpu", "4", "--memory", "8192"}},
		{"minimum", vm.Shape{CPUs: 1, MemoryBytes: 1}, mac, []string{"--random-mac", "--random-serial", "--cpu", "2", "--memory", "2048"}},
		{"a disk is another step", vm.Shape{DiskBytes: 60e9}, mac, []string{"--random-mac", "--random-serial"}},
		{"display", vm.Shape{}, config{OS: "linux", DisplayRefit: &yes}, []string{"--random-mac", "--display-refit"}},
	} {
		if d := cmp.Diff(append([]string{"set", "x"}, c.want...), setArgs("x", c.shape, c.config)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestReferences(t *testing.T) {
	d := &Driver{home: "/h"}
	digest := "sha256:" + strings.Repeat("a", 64)
	for ref, want := range map[string]string{
		"ghcr.io/cirruslabs/macos:v1":     "/h/cache/OCIs/ghcr.io/cirruslabs/macos/v1",
		"ghcr.io/cirruslabs/macos":        "/h/cache/OCIs/ghcr.io/cirruslabs/macos/latest",
		"localhost:5000/a/b/c:t":          "/h/cache/OCIs/localhost%3A5000/a/b/c/t",
		"ghcr.io/x/y@" + digest:           "/h/cache/OCIs/ghcr.io/x/y/" + digest,
		"base":                            "",
		"--help/x":                        "",
		"ghcr.io/x/../../../etc/passwd:v": "",
		"ghcr.io/x/y@sha256:short":        "",
	} {
		got, err := d.imageLink(ref)
		if got != want || errors.Is(err, vm.ErrInvalidReference) != (want == "") {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
}

// A path that ends like an option of a share would be another directory.
func TestRunCommandNamesNoOtherDirectory(t *testing.T) {
	d := &Driver{path: "tart"}
	for path, fine := range map[string]bool{
		"/Users/Shared/a b": true, "/a:ro": false, "/a:tag=x": false, "/a,b": false, "/a\nb": false, "a": false, "": false,
	} {
		c, err := d.RunCommand("m", vm.RunOptions{Shares: []vm.Share{{Name: "fine", Path: "/fine"}, {Name: "s", Path: path, ReadOnly: true}}})
		var refused *vm.ShareError
		switch {
		case fine && (err != nil || c.Args[len(c.Args)-1] != "s:"+path+":ro"):
			t.Errorf("%q: %v, %v", path, c.Args, err)
		case !fine && (!errors.As(err, &refused) || refused.Share.Path != path || len(c.Args) > 0):
			t.Errorf("%q: %v, %v", path, c.Args, err)
		}
	}
}
