package launchd

import (
	"encoding/json"
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/macfleet/macfleet/internal/converge/builds"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
	"howett.net/plist"
)

// stateDir is the Mac with the folders that converge makes.
func stateDir(t *testing.T, m *macostest.Mac) macos.Mac {
	t.Helper()
	mac := m.Interfaces()
	for _, dir := range []string{document.StateDir, path.Dir(document.AgentPlist)} {
		if err := mac.Files.MakeDir(t.Context(), dir, step.RootAttr(0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return mac
}

func TestStartAction(t *testing.T) {
	for _, c := range []struct {
		name  string
		state jobState
		want  startAction
	}{
		{"same, loaded", jobState{plistSame: true, loaded: true}, leaveRunning},
		{"same, loaded, wished", jobState{plistSame: true, loaded: true, restartRequested: true}, restartJob},
		{"same, loaded, wrong answer", jobState{plistSame: true, loaded: true, unhealthy: errors.New("x")}, restartJob},
		{"same, loaded, restart owed", jobState{plistSame: true, loaded: true, pending: restartPending}, restartJob},
		{"same, loaded, reload owed", jobState{plistSame: true, loaded: true, pending: reloadPending}, reloadJob},
		{"same, absent", jobState{plistSame: true}, loadJob},
		{"same, absent, restart owed", jobState{plistSame: true, pending: restartPending}, loadJob},
		{"differs, loaded", jobState{loaded: true}, reloadJob},
		{"differs, absent", jobState{}, reloadJob},
	} {
		if got := c.state.action(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A restart that is required later takes nothing from a reload that is pending already.
func TestAReloadCoversARestart(t *testing.T) {
	files := stateDir(t, macostest.New()).Files
	for _, j := range jobs() {
		for _, need := range []pendingRestart{reloadPending, restartPending} {
			if err := requireRestart(t.Context(), files, j, need); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := pendingOf(files, j); err != nil || got != reloadPending {
			t.Errorf("%s needs %q, %v", j.Name, got, err)
		}
	}
}

func TestPlistIsWhatLaunchdReads(t *testing.T) {
	f, err := agentJob().plistFile("m1")
	if err != nil {
		t.Fatal(err)
	}
	data := f.Data
	if !strings.HasPrefix(string(data), "<?xml") {
		t.Errorf("not XML: %.40s", data)
	}
	var got map[string]any
	if _, err := plist.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"Label":               "dev.macfleet.tart-kubelet",
		"ProgramArguments":    []any{document.CurrentAgent, "run"},
		"UserName":            "m1",
		"RunAtLoad":           true,
		"KeepAlive":           true,
		"ThrottleInterval":    uint64(10),
		"ExitTimeOut":         uint64(30),
		"ProcessType":         "Interactive",
		"AbandonProcessGroup": true,
		"StandardErrorPath":   "/var/log/macfleet/tart-kubelet.err.log",
		"EnvironmentVariables": map[string]any{
			"HOME": "/Users/m1", "PATH": "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// One look says both what is wrong with a job and what is to be done.
func TestAnotherBuildIsUnhealthyAndIsRestarted(t *testing.T) {
	m := macostest.New()
	mac := stateDir(t, m)
	m.Program = func(_ *macostest.Mac, _ string, pid int) macostest.Process {
		answer, err := json.Marshal(document.Health{Build: "other", ConfigHash: "y", PID: pid})
		if err != nil {
			t.Error(err)
		}
		return macostest.Process{Socket: document.HealthSocket, Answer: answer}
	}
	env := &step.Env{Mac: mac, Desired: document.Desired{Host: document.Host{User: "m1"}}}
	j := agentJob()
	f, err := j.plistFile("m1")
	if err != nil {
		t.Fatal(err)
	}
	if err := step.Write(t.Context(), mac.Files, f); err != nil {
		t.Fatal(err)
	}
	m.Put(document.CurrentAgent, macostest.Build("a program"), step.RootAttr(0o755))
	if err := (Control{mac}).Load(t.Context(), j.Job); err != nil {
		t.Fatal(err)
	}
	for build, want := range map[string]startAction{"x": restartJob, "other": leaveRunning} {
		s, err := New(env, nil).jobState(t.Context(), j, builds.Identity{Build: build, ConfigSHA256: "y"})
		if err != nil || (s.unhealthy != nil) != (want == restartJob) || s.action() != want {
			t.Errorf("%s: %+v, %v", build, s, err)
		}
	}
}
