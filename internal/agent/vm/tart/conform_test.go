package tart

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/vmtest"
)

// With -real-tart TestContract runs on a Mac against the real tool: see
// docs/operate/tart-contract.md. The suite runs there as test/driversuite.
var (
	realTart    = flag.String("real-tart", "", "tart executable to test instead of the simulated one")
	realHome    = flag.String("tart-home", "", "TART_HOME for it, with room for the image; it must hold no machines (default: a new directory)")
	realImage   = flag.String("image", "ghcr.io/cirruslabs/macos-sequoia-base:latest", "macOS image with tart-guest-agent")
	realMissing = flag.String("missing", "ghcr.io/cirruslabs/no-such-image:none", "image that no registry has; empty: not tried")
	realPrivate = flag.String("private", "", "image that refuses anonymous access; empty: not tried")
	realApart   = flag.Bool("two-outputs", false, "the image's guest agent is newer than v0.11.0 and sends both outputs")
	realAgent   = flag.String("real-agent", "", "guest agent, built for this system, to test instead of tart: its one argument is the socket to serve")
	record      = flag.Bool("record", false, "write what tart says to testdata, by version")
)

// simulated builds the simulated tart, which shares no code with the driver, once.
var simulated = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tart")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tart")
	cmd := exec.Command("go", "build", "-o", path, "github.com/macfleet/macfleet/sandbox/mac/tart/cmd/tart")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *realTart == "" {
		if path, err := simulated(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
	os.Exit(code)
}

func TestConform(t *testing.T) {
	if *realAgent != "" {
		conformRealAgent(t)
		return
	}
	if testing.Short() {
		t.Skip("runs every promise of a driver against each release of tart")
	}
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			vmtest.Conform(t, func(t *testing.T) vmtest.Subject { return newFake(t, map[string]any{"version": version}).subject() })
		})
	}
	t.Run("in layers", func(t *testing.T) {
		vmtest.Conform(t, func(t *testing.T) vmtest.Subject {
			return newFake(t, map[string]any{"version": "2.36.0", "refuseReplace": true, "images": map[string]any{fakeImage: inLayers()}}).subject()
		})
	})
	// "env" is that of all others.
	for _, agent := range []string{"old", "signals"} {
		t.Run("agent "+agent, func(t *testing.T) {
			vmtest.Conform(t, func(t *testing.T) vmtest.Subject {
				s := newFake(t, map[string]any{"agent": agent}).subject()
				s.OneOutput = agent != "signals"
				return s
			})
		})
	}
}

// conformRealAgent runs what is asked of guests against an agent on this host.
func conformRealAgent(t *testing.T) {
	t.Helper()
	dir := shortDir(t)
	socket := filepath.Join(dir, "agent.sock")
	cmd := exec.Command(*realAgent, socket)
	cmd.Dir = dir
	// As the images' agents have it.
	cmd.Env = []string{
		"PATH=/bin:/usr/bin:/usr/sbin:/usr/local/bin:/opt/homebrew/bin", "TERM=xterm-256color", "HOME=" + dir,
	}
	// A group of its own, as launchd gives it: released agents do not give one to commands.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	vmtest.ConformAgent(t, vmtest.Subject{OneOutput: !*realApart}, socket)
}

// realDriver is that of the real tool.
func realDriver(t *testing.T) *Driver {
	t.Helper()
	home := *realHome
	if home == "" {
		home = shortDir(t)
	}
	d := New(Options{Path: *realTart, Home: home})
	if machines, err := d.Machines(t.Context()); err != nil || len(machines) > 0 {
		t.Fatalf("%s holds machines (%v, %v): name another -tart-home", home, machines, err)
	}
	return d
}

// shortDir is a directory whose sockets fit into 104 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// fake is a simulated tart in a home of its own.
type fake struct {
	*Driver
	dir string
}

func newFake(t *testing.T, plan map[string]any) *fake {
	t.Helper()
	if *realTart != "" {
		t.Skip("the real tart has no plan of faults")
	}
	path, err := simulated()
	if err != nil {
		t.Fatalf("building the simulated tart: %v", err)
	}
	dir := shortDir(t)
	for _, d := range []string{"home", "state"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f := &fake{dir: dir, Driver: New(Options{
		Path: path, Home: filepath.Join(dir, "home"), QueryTimeout: time.Minute,
		Environ: []string{
			"HOME=" + dir, "PATH=/usr/bin:/bin",
			"TART_FAKE_FAULTS=" + filepath.Join(dir, "plan.json"),
			"TART_FAKE_STATE=" + filepath.Join(dir, "state"),
			"TART_FAKE_LEASES=" + filepath.Join(dir, "leases"),
			"TART_FAKE_JOURNAL=" + filepath.Join(dir, "journal"),
		},
	})}
	f.unplug = time.Minute // on a busy machine a tart that was asked to stop takes seconds
	f.plan(t, plan)
	return f
}

func (f *fake) plan(t *testing.T, plan map[string]any) {
	t.Helper()
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "plan.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// versions are those that the simulated tart speaks like; the last is not released.
func versions() []string {
	all := []string{"2.30.0", "2.32.1", "2.35.0", "2.36.0"}
	if testing.Short() {
		return all[2:3]
	}
	return all
}

// fakeImage has a port: tart keeps such images in folders of another name.
const fakeImage = "registry.test:5000/macos/base:v1"

// inLayers is an image of a newer tart: 50 GB of disk, 3 MiB of them on the volume.
func inLayers() map[string]any {
	return map[string]any{"diskGB": 50, "layers": []map[string]any{{"name": "macOS", "bytes": 1 << 20}, {"name": "Xcode", "bytes": 2 << 20}}}
}

func faults(kinds ...string) map[string]any {
	var list []map[string]any
	for _, k := range kinds {
		list = append(list, map[string]any{"kind": k})
	}
	return map[string]any{"faults": list}
}

func (f *fake) subject() vmtest.Subject {
	return vmtest.Subject{
		Driver: f.Driver, Image: fakeImage,
		Missing: "registry.test/missing/base:v1", Private: "registry.test/private/base:v1",
		Crash: f.crash, OneOutput: true,
	}
}

// crash kills the process that plays the guest.
func (f *fake) crash(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.home, "vms", name, "guest", "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// calls are the invocations of a subcommand: their arguments and the names of their
// environment.
func (f *fake) calls(t *testing.T, subcommand string) (argvs [][]string, envs [][]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var r struct {
			Event     string
			Argv, Env []string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Event == "start" && slices.Contains(r.Argv, subcommand) {
			argvs, envs = append(argvs, r.Argv), append(envs, r.Env)
		}
	}
	return argvs, envs
}

var _ vm.Driver = (*fake)(nil)
