package tart

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/vmtest"
)

// simulator builds the simulated tart, which shares no code with the driver.
func simulator(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tart")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/macfleet/macfleet/sandbox/mac/tart/cmd/tart")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the simulated tart: %v\n%s", err, out)
	}
	return path
}

func TestConformance(t *testing.T) {
	path := simulator(t)
	for _, version := range []string{"2.30.0", "2.32.1", "2.35.0"} {
		t.Run(version, func(t *testing.T) {
			vmtest.Conform(t, func(t *testing.T) vmtest.Subject { return subject(t, path, `{"version":"`+version+`"}`) })
		})
	}
}

// shortDir is a directory whose sockets fit into 104 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func subject(t *testing.T, path, plan string) vmtest.Subject {
	t.Helper()
	dir := shortDir(t)
	if err := os.WriteFile(filepath.Join(dir, "plan.json"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"home", "state"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d := New(Options{Path: path, Home: filepath.Join(dir, "home"), Environ: []string{
		"HOME=" + dir, "PATH=/usr/bin:/bin",
		"TART_FAKE_FAULTS=" + filepath.Join(dir, "plan.json"),
		"TART_FAKE_STATE=" + filepath.Join(dir, "state"),
		"TART_FAKE_LEASES=" + filepath.Join(dir, "leases"),
	}})
	guest := func(name string) string { return filepath.Join(dir, "home", "vms", name, "guest") }
	return vmtest.Subject{
		Driver: d, Image: "registry.test/macos/base:v1",
		Missing: "registry.test/missing/base:v1", Private: "registry.test/private/base:v1",
		ShutDown: func(t *testing.T, name string) { signalGuest(t, guest(name), syscall.SIGTERM) },
		Crash:    func(t *testing.T, name string) { signalGuest(t, guest(name), syscall.SIGKILL) },
	}
}

// signalGuest waits for the guest to be up and signals its process.
func signalGuest(t *testing.T, root string, s syscall.Signal) {
	t.Helper()
	late := time.After(20 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		state, _ := os.ReadFile(filepath.Join(root, "state"))
		pid, _ := os.ReadFile(filepath.Join(root, "pid"))
		if n, err := strconv.Atoi(strings.TrimSpace(string(pid))); err == nil && strings.TrimSpace(string(state)) == "running" {
			if err := syscall.Kill(n, s); err != nil {
				t.Fatal(err)
			}
			return
		}
		select {
		case <-ticker.C:
		case <-late:
			t.Fatal("the guest never came up")
		}
	}
}

func TestFaults(t *testing.T) {
	path := simulator(t)
	fault := func(kind string) string { return `{"faults":[{"kind":"` + kind + `"}]}` }

	t.Run("stop is ignored", func(t *testing.T) {
		s := subject(t, path, fault("run-ignores-stop"))
		begin(t, s)
		if err := s.Driver.Stop(t.Context(), "tk-a-0", time.Second); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Driver.Machine(t.Context(), "tk-a-0"); err != nil || m.Running {
			t.Errorf("after stop: %+v, %v", m, err)
		}
	})
	for _, c := range []struct {
		kind string
		want error
	}{
		{"pull-unauthorized", vm.ErrAuth},
		{"pull-not-found", vm.ErrImageNotFound},
		{"pull-no-space", vm.ErrNoSpace},
	} {
		t.Run(c.kind, func(t *testing.T) {
			s := subject(t, path, fault(c.kind))
			if _, err := s.Driver.Pull(t.Context(), s.Image, vm.PullOptions{}); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	t.Run("clone without space", func(t *testing.T) {
		s := subject(t, path, fault("clone-no-space"))
		if _, err := s.Driver.Pull(t.Context(), s.Image, vm.PullOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Driver.Create(t.Context(), "tk-a-0", s.Image, vm.Shape{}); !errors.Is(err, vm.ErrNoSpace) {
			t.Errorf("%v, want %v", err, vm.ErrNoSpace)
		}
		if _, err := s.Driver.Machine(t.Context(), "tk-a-0"); !errors.Is(err, vm.ErrNotFound) {
			t.Errorf("something was left behind: %v", err)
		}
	})
	t.Run("list is truncated", func(t *testing.T) {
		s := subject(t, path, fault("list-truncated"))
		if _, err := s.Driver.Pull(t.Context(), s.Image, vm.PullOptions{}); err != nil {
			t.Fatal(err)
		}
		if images, err := s.Driver.Images(t.Context()); err == nil {
			t.Errorf("half a list was taken for whole: %+v", images)
		}
	})
}

func begin(t *testing.T, s vmtest.Subject) {
	t.Helper()
	if _, err := s.Driver.Pull(t.Context(), s.Image, vm.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Driver.Create(t.Context(), "tk-a-0", s.Image, vm.Shape{}); err != nil {
		t.Fatal(err)
	}
	c := s.Driver.RunCommand("tk-a-0", vm.RunOptions{})
	cmd := exec.CommandContext(t.Context(), c.Path, c.Args...)
	cmd.Env = c.Env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	late := time.After(20 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if m, err := s.Driver.Machine(t.Context(), "tk-a-0"); err == nil && m.Running {
			return
		}
		select {
		case <-ticker.C:
		case <-late:
			t.Fatal("the VM never ran")
		}
	}
}

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
	for _, c := range []struct {
		end  vm.RunEnd
		want vm.OutcomeKind
	}{
		{vm.RunEnd{Tail: "guest has stopped the virtual machine\n"}, vm.ShutDown},
		{vm.RunEnd{Tail: "guest has stopped the virtual machine due to error: panic\n"}, vm.Crashed},
		{vm.RunEnd{Tail: "virtual machine's network attachment <VZ> has been disconnected with error: gone\n"}, vm.Crashed},
		{vm.RunEnd{Tail: "Stopping VM...\n"}, vm.Stopped},
		{vm.RunEnd{Tail: "Stopping VM...\nguest has stopped the virtual machine\n"}, vm.ShutDown},
		{vm.RunEnd{Tail: "pausing VM to take a snapshot...\ncreating a snapshot...\nsnapshot created successfully! shutting down the VM...\n"}, vm.Stopped},
		{vm.RunEnd{Tail: "resuming VM...\n"}, vm.Crashed},
		{vm.RunEnd{}, vm.Crashed},
		{vm.RunEnd{Code: 1, Tail: "The number of VMs exceeds the system limit (other running VMs: a, b)\n"}, vm.Limited},
		{vm.RunEnd{Code: 1, Tail: `Error Domain=VZErrorDomain Code=6 "The maximum supported number of active virtual machines has been reached."`}, vm.Limited},
		{vm.RunEnd{Code: 1, Tail: "Softnet process terminated prematurely\n"}, vm.Crashed},
		{vm.RunEnd{Code: 1, Tail: `VZErrorDomain Code=2 "failed to lock auxiliary storage"`}, vm.NotStarted},
		{vm.RunEnd{Code: 1, Tail: "VZErrorDomain Code=-9 (HostKey)\n"}, vm.NotStarted},
		{vm.RunEnd{Code: 1}, vm.NotStarted},
		{vm.RunEnd{Code: 2, Tail: `VM "x" is already running!`}, vm.NotStarted},
		{vm.RunEnd{Code: 64, Tail: "Error: Unknown option"}, vm.NotStarted},
		{vm.RunEnd{Code: 127, Tail: "no such file"}, vm.NotStarted},
		{vm.RunEnd{Code: -1, Signal: 15, Tail: "guest has stopped the virtual machine"}, vm.Killed},
		{vm.RunEnd{Code: -1}, vm.Killed},
	} {
		if got := (&Driver{}).Classify(c.end); got.Kind != c.want || got.Message == "" || strings.Contains(got.Message, "\n") {
			t.Errorf("%+v: %+v, want %s", c.end, got, c.want)
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
		"2.30.0": true, "2.32.1": true, "2.35.0-4-gabc": true, "2.36.0": false, "2.9.0": false, "3.32.0": false, "SNAPSHOT": false, "": false,
	} {
		if known(version) != want {
			t.Errorf("%q: known %v", version, !want)
		}
	}
}

func TestSetArgs(t *testing.T) {
	yes := true
	mac := config{OS: "darwin", CPUCountMin: 2, MemorySizeMin: 2 << 30, diskBytes: 50e9}
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
		{"bigger disk", vm.Shape{DiskBytes: 60e9 + 1}, mac, []string{"--random-mac", "--random-serial", "--disk-size", "61"}},
		{"no smaller disk", vm.Shape{DiskBytes: 50e9}, mac, []string{"--random-mac", "--random-serial"}},
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
		"localhost:5000/a/b/c:t":          "/h/cache/OCIs/localhost:5000/a/b/c/t",
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
