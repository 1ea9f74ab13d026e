package converge

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
)

func TestBadInputIsUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"no document":  {},
		"unknown flag": {"--nonsense"},
		"argument":     {"extra"},
	} {
		cmd := convergeCommand()
		var out strings.Builder
		cmd.SetArgs(args)
		cmd.SetIn(strings.NewReader(""))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		err := cmd.Execute()
		var exit *ExitError
		if name == "argument" {
			// cobra itself refuses it, before anything of ours runs.
			if err == nil {
				t.Errorf("%s: accepted", name)
			}
			continue
		}
		if !errors.As(err, &exit) || exit.ExitCode() != document.ExitUsage {
			t.Errorf("%s: %v", name, err)
		}
		if out.Len() != 0 {
			t.Errorf("%s: wrote %q where the report goes", name, out.String())
		}
	}
}

func TestReportIsWrittenWithItsExitCode(t *testing.T) {
	for _, c := range []struct {
		report document.Report
		code   int
	}{
		{document.Report{}, 0},
		{document.Report{Exit: document.ExitChanged}, document.ExitChanged},
		{document.Report{
			Exit:  document.ExitReinstall,
			Steps: []document.StepReport{{Name: "journal", Outcome: document.Failed, Class: document.Reinstall}},
		}, document.ExitReinstall},
	} {
		var out strings.Builder
		err := writeReport(&out, c.report)
		var exit *ExitError
		if errors.As(err, &exit); (err == nil) != (c.code == 0) || err != nil && exit.Code != c.code {
			t.Errorf("exit %d: %v", c.code, err)
		}
		if strings.Count(out.String(), "\n") != 1 {
			t.Errorf("not one line: %q", out.String())
		}
	}
}

func TestProgramPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build := strings.Repeat("ab", 32)
	slot := filepath.Join(dir, build, "tart-kubelet")
	if err := os.Mkdir(filepath.Dir(slot), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(slot, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(build, filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", filepath.Dir(slot))
	for _, argv0 := range []string{slot, "current/tart-kubelet", filepath.Join(dir, "current/tart-kubelet"), "tart-kubelet"} {
		got, err := programPath(argv0)
		if err != nil || got != slot || buildOf(got) != build {
			t.Errorf("%s: %s, build %q (%v)", argv0, got, buildOf(got), err)
		}
	}
	if got := buildOf("/home/m1/.macfleet/staging/" + build); got != build {
		t.Errorf("staged: %q", got)
	}
	if got := buildOf("/usr/local/bin/tart-kubelet"); got != "" {
		t.Errorf("elsewhere: %q", got)
	}
}

func TestTheLastReportIsPrinted(t *testing.T) {
	mac := macostest.New()
	var out strings.Builder
	if err := printReport(&out, mac.Interfaces().Files); err == nil || err.Error() != "no converge has run on this Mac" || out.Len() > 0 {
		t.Errorf("on a fresh Mac: %v, %q", err, &out)
	}
	const line = `{"verb":"converge"}` + "\n"
	mac.Put(document.ReportFile, []byte(line), step.RootAttr(0o600))
	if err := printReport(&out, mac.Interfaces().Files); err != nil || out.String() != line {
		t.Errorf("printed %q: %v", &out, err)
	}
}
