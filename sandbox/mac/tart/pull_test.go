package tart

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

func TestPullCachesByDigestAndLinksTheTag(t *testing.T) {
	t.Parallel()
	m := newMac(t, nil)
	out := m.must("pull", testImage)
	for _, line := range []string{"pulling manifest...\n", "\n0%\n", "\n50%\n", "\n100%\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("progress without %q:\n%s", line, out)
		}
	}
	repository := m.path("home", "cache", "OCIs", "registry.test", "macos", "base")
	target, err := os.Readlink(filepath.Join(repository, "v1"))
	digest := filepath.Base(target)
	if err != nil || !filepath.IsAbs(target) || !strings.HasPrefix(digest, "sha256:") {
		t.Fatalf("the tag links to %q: %v", target, err)
	}
	if !vmDir(target).complete() {
		t.Error("the digest is not a complete VM")
	}
	names := m.must("list", "-q")
	if names != "registry.test/macos/base:v1\nregistry.test/macos/base@"+digest+"\n" {
		t.Errorf("listed %q", names)
	}
	if again := m.must("pull", testImage); strings.Contains(again, "%") {
		t.Errorf("pulled twice: %s", again)
	}
	// The digest stays when it was pulled by its own name.
	m.must("pull", "registry.test/macos/base@"+digest)
	m.must("delete", testImage)
	if names := m.must("list", "-q"); names != "registry.test/macos/base@"+digest+"\n" {
		t.Errorf("after the tag was deleted: %q", names)
	}
}

// The colon of a registry's port is encoded in folders, and not in names.
func TestRegistryWithAPort(t *testing.T) {
	t.Parallel()
	m := newMac(t, nil)
	m.must("pull", "registry.test:5000/macos/base:v1")
	if !exists(m.path("home", "cache", "OCIs", "registry.test%3A5000", "macos", "base", "v1")) {
		t.Error("the image is not where tart keeps it")
	}
	names := m.must("list", "-q")
	if !strings.Contains(names, "registry.test:5000/macos/base:v1\n") || strings.Contains(names, "%3A") {
		t.Errorf("listed %q", names)
	}
	m.must("clone", "registry.test:5000/macos/base:v1", "vm")
	m.must("delete", "registry.test:5000/macos/base:v1")
	if names := m.must("list", "-q", "--source", "oci"); names != "" {
		t.Errorf("after the tag was deleted: %q", names)
	}
}

// The variable CI alone decides how progress is told, not whether anybody sees a terminal.
func TestProgress(t *testing.T) {
	t.Parallel()
	m := newMac(t, nil)
	for setting, want := range map[string]string{"CI=": "0%\n\x1b[1A\r\x1b[J10%\n", "CI=true": "0%\n10%\n"} {
		for _, terminal := range []bool{false, true} {
			image := fmt.Sprintf("registry.test/%s/base:v%v", strings.ToLower(strings.ReplaceAll(setting, "=", "")), terminal)
			cmd := m.command(t.Context(), "pull", image)
			cmd.Env = append(slices.Clone(m.env), setting)
			if out := outputOf(t, cmd, terminal); !strings.Contains(out, want) {
				t.Errorf("%s, on a terminal: %v: %q", setting, terminal, out)
			}
		}
	}
}

// outputOf is what a command prints, with a terminal's line ends taken back.
func outputOf(t *testing.T, cmd *exec.Cmd, terminal bool) string {
	t.Helper()
	if !terminal {
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(tty) // ends with an error of its own
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}

func TestRefusedPulls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, image string
		env         []string
		fault       FaultKind
		says        string // empty for a success
	}{
		{name: "not found", image: "registry.test/missing/base:v1", says: "404"},
		{name: "no credentials", image: "registry.test/private/base:v1", says: "401"},
		{name: "credentials for another host", image: "registry.test/private/base:v1", says: "401", env: []string{"TART_REGISTRY_USERNAME=u", "TART_REGISTRY_PASSWORD=p", "TART_REGISTRY_HOSTNAME=other.test"}},
		{name: "credentials", image: "registry.test/private/base:v1", env: []string{"TART_REGISTRY_USERNAME=u", "TART_REGISTRY_PASSWORD=p", "TART_REGISTRY_HOSTNAME=registry.test"}},
		{name: "armed 401", image: testImage, fault: PullUnauthorized, says: "401"},
		{name: "armed 404", image: testImage, fault: PullNotFound, says: "404"},
		{name: "no space", image: testImage, fault: PullNoSpace, says: "No space left"},
		{name: "lost connection", image: testImage, fault: PullInterrupted, says: "connection was lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMac(t, &Plan{Faults: []Fault{{Kind: tt.fault}}})
			m.env = append(m.env, tt.env...)
			got := m.do("clone", tt.image, "vm") // pulls on its way
			if (got.code == 0) != (tt.says == "") || !strings.Contains(got.err, tt.says) {
				t.Errorf("%+v, want %q", got, tt.says)
			}
			if exists(string(m.vm("vm"))) != (tt.says == "") {
				t.Errorf("VM there: %v", exists(string(m.vm("vm"))))
			}
		})
	}
}

func TestPullResumesAndWaitsForAnother(t *testing.T) {
	t.Parallel()
	m := newMac(t, &Plan{Faults: []Fault{{Kind: PullStalls}}})
	stalled := m.start("pull", testImage)
	await(t, "the pull is half way", func() bool { return strings.Contains(stalled.out.String(), "50%") })
	m.arm(Plan{})
	waiting := m.start("pull", testImage)
	await(t, "the second pull waits", func() bool { return strings.Contains(waiting.out.String(), "waiting for lock...") })
	m.must("list") // must not collect what is being pulled
	stalled.signal(syscall.SIGKILL)
	if code := waiting.wait(); code != 0 {
		t.Fatalf("exit %d: %s", code, waiting.out.String())
	}
	if out := waiting.out.String(); strings.Contains(out, "\n0%") || !strings.Contains(out, "\n50%\n") {
		t.Errorf("not resumed at 50%%: %s", out)
	}
}

// What an ended pull has got goes at once when SIGINT ended it, and with the next command
// but pull and clone when anything else did.
func TestWhoRemovesWhatAnEndedPullLeft(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			m := newMac(t, &Plan{Faults: []Fault{{Kind: PullStalls, Name: "base"}}})
			stalled := m.start("pull", testImage)
			await(t, "the pull is half way", func() bool { return strings.Contains(stalled.out.String(), "50%") })
			stalled.signal(signal)
			stalled.wait()
			m.must("pull", "registry.test/macos/other:v1")
			m.must("clone", "registry.test/macos/other:v1", "vm")
			if left := m.temporary(); (len(left) == 0) != (signal == syscall.SIGINT) {
				t.Errorf("after %s: %v", signal, left)
			}
			m.must("list")
			if left := m.temporary(); len(left) != 0 {
				t.Errorf("after list: %v", left)
			}
		})
	}
}

// temporary is what lies below TART_HOME/tmp.
func (m *fakeMac) temporary() []string {
	m.t.Helper()
	paths, err := filepath.Glob(m.path("home", "tmp", "*"))
	if err != nil {
		m.t.Fatal(err)
	}
	return paths
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	m := newMac(t, nil)
	m.env = append(m.env, "TART_FAKE_REGISTRY="+m.path("registry"))
	publish := func(tag string, image Image) {
		t.Helper()
		dir := m.path("registry", "registry.test", "macos", "base")
		data, err := json.Marshal(image)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, tag+".json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	publish("v1", Image{OS: "linux", CPUMin: 6, DiskGB: 50})
	publish("broken", Image{Status: 503})
	m.must("clone", testImage, "vm")
	cfg, err := m.vm("vm").readConfig()
	if err != nil || cfg.OS != "linux" || cfg.CPUCount != 6 {
		t.Errorf("cloned %+v, %v", cfg, err)
	}
	if got := m.do("pull", "registry.test/macos/base:broken"); got.code != 1 || !strings.Contains(got.err, "503") {
		t.Errorf("%+v", got)
	}
	if got := m.do("pull", "registry.test/macos/other:v1"); got.code != 1 || !strings.Contains(got.err, "404") {
		t.Errorf("%+v", got)
	}
	// A tag that moved takes its old image out of the cache.
	before := m.must("fqn", testImage)
	publish("v1", Image{OS: "linux", CPUMin: 8})
	m.must("pull", testImage)
	after := m.must("fqn", testImage)
	if before == after || m.must("list", "-q", "--source", "oci") != testImage+"\n"+after {
		t.Errorf("before %s after %s cached %s", before, after, m.must("list", "-q"))
	}
	if got := m.do("pull", strings.TrimSpace(before)); got.code != 1 {
		t.Errorf("an unpublished digest was pulled: %+v", got)
	}
}

func TestPullTakesTheTimeItIsGiven(t *testing.T) {
	t.Parallel()
	m := newMac(t, &Plan{PullDelay: Duration(200 * time.Millisecond)})
	began := time.Now()
	m.must("pull", testImage)
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("took %s", took)
	}
}
