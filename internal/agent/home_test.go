package agent

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
)

func TestTartHome(t *testing.T) {
	volume := document.AgentConfig{
		Host: document.Host{User: "m1"}, Mac: document.Mac{GuestQuotaBytes: 100e9},
	}
	for name, c := range map[string]struct {
		home   string
		flags  options
		config document.AgentConfig
		want   string
	}{
		"volume":       {"/Users/m1", options{}, volume, "/Volumes/macfleet/tart"},
		"flag":         {"/Users/m1", options{TartHome: "/x"}, volume, "/x"},
		"home":         {"/Users/m2", options{}, document.AgentConfig{}, "/Users/m2/.tart"},
		"user":         {"", options{}, document.AgentConfig{Host: document.Host{User: "m1"}}, "/Users/m1/.tart"},
		"nobody's own": {"/", options{}, document.AgentConfig{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", c.home)
			if got, err := tartHome(c.flags, c.config); got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, want %q (%v)", got, c.want, err)
			}
		})
	}
}

func TestVolumesDir(t *testing.T) {
	quota := document.AgentConfig{Mac: document.Mac{GuestQuotaBytes: 100e9}}
	for name, c := range map[string]struct {
		flags  options
		config document.AgentConfig
		want   string
	}{
		"beside the guests":     {options{StateDir: "/s"}, quota, "/Volumes/macfleet/volumes"},
		"no volume":             {options{StateDir: "/s"}, document.AgentConfig{}, "/s/volumes"},
		"guests somewhere else": {options{StateDir: "/s", TartHome: "/x"}, quota, "/s/volumes"},
	} {
		if got := volumesDir(c.flags, c.config); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// No guest may share what decides what the agent runs, wherever tart is.
func TestOwnDirs(t *testing.T) {
	a := &agent{o: options{StateDir: document.AgentStateDir}, config: document.AgentConfig{Host: document.Host{User: "m1"}}}
	own := a.ownDirs("/Volumes/macfleet/tart")
	for _, dir := range []string{document.AgentStateDir, "/Users/m1", "/Volumes/macfleet/tart", "/usr/local", "/opt/homebrew", "/Applications"} {
		if !slices.Contains(own, dir) {
			t.Errorf("%s is not among %q", dir, own)
		}
	}
}

// A roll-out points the link at the next build while the agent still runs.
func TestShimsAreOfTheAgentsOwnBuild(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build, current := filepath.Join(dir, "a"), filepath.Join(dir, "current")
	if err := os.WriteFile(build, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", current); err != nil {
		t.Fatal(err)
	}
	if got, err := ownFile(func() (string, error) { return current, nil }); err != nil || got != build {
		t.Errorf("%q, %v; want %q", got, err, build)
	}
	if _, err := ownFile(func() (string, error) { return filepath.Join(dir, "gone"), nil }); err == nil {
		t.Error("a file that is not there is found")
	}
}
