package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What people are told to type works for the directory they gave.
func TestHintsCarryTheDirectory(t *testing.T) {
	for dir, want := range map[string]string{
		"":          "macfleet sandbox down",
		"/tmp/one":  "macfleet sandbox --dir /tmp/one down",
		"/tmp/my 1": "macfleet sandbox --dir '/tmp/my 1' down",
		"it's":      `macfleet sandbox --dir 'it'\''s' down`,
	} {
		if got := (&sandboxFlags{dir: dir}).command("down"); got != want {
			t.Errorf("%q: %s, want %s", dir, got, want)
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	_, held := runningSandbox(t)
	if err := os.WriteFile(statePath(held), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"none":    {[]string{"--dir", none, "status"}, "macfleet sandbox --dir " + none + " up"},
		"garbled": {[]string{"--dir", held, "status"}, "macfleet sandbox --dir " + held + " down"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"sandbox"}, c.args...), &out, &errs); code != exitFailed || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: exit code %d, %s; it should say %q", name, code, &errs, c.says)
		}
	}
}

func TestKubectlsDirIsOurs(t *testing.T) {
	for name, c := range map[string]struct{ args, left, dir string }{
		"none":                 {"get nodes", "get nodes", ""},
		"first":                {"--dir a get nodes", "get nodes", "a"},
		"last":                 {"get nodes --dir a", "get nodes", "a"},
		"in one word":          {"get --dir=a nodes", "get nodes", "a"},
		"one in a Pod":         {"exec p -- ls --dir a", "exec p -- ls --dir a", ""},
		"another flag like it": {"--cache-dir a get", "--cache-dir a get", ""},
	} {
		flags := &sandboxFlags{}
		left, err := flags.takeDir(strings.Fields(c.args))
		if diff := cmp.Diff(strings.Fields(c.left), left); err != nil || diff != "" || flags.dir != c.dir {
			t.Errorf("%s: %v, dir %q\n%s", name, err, flags.dir, diff)
		}
	}
	if _, err := (&sandboxFlags{}).takeDir([]string{"get", "--dir"}); err == nil {
		t.Error("--dir without a directory is taken")
	}
}

func TestKubectlsHelpWithoutASandbox(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for args, want := range map[string]int{
		"--help":             0,
		"-h":                 0,
		"help":               0,
		"get --help":         0,
		"get nodes":          exitFailed,
		"get help":           exitFailed,
		"exec p -- ls -h":    exitFailed,
		"exec p -- x --help": exitFailed,
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"sandbox", "--dir", none, "kubectl"}, strings.Fields(args)...), &out, &errs)
		if code != want || strings.Contains(out.String(), "which has its own help once a sandbox runs") != (want == 0) {
			t.Errorf("%s: exit code %d, %s %s", args, code, &out, &errs)
		}
	}
}

func TestStatusSaysWhetherTheManagerRuns(t *testing.T) {
	manager := httptest.NewServer(http.NotFoundHandler())
	if got := managerNow(t.Context(), manager.URL); got != "runs" {
		t.Errorf("a manager that answers: %s", got)
	}
	manager.Close()
	if got := managerNow(t.Context(), manager.URL); !strings.Contains(got, "does not run") || !strings.Contains(got, "manager-1.log") {
		t.Errorf("a manager that is away: %s", got)
	}
}

func TestMacCommand(t *testing.T) {
	_, dir := runningSandbox(t)
	for args, c := range map[string]struct {
		code int
		says string
	}{
		"mac":            {exitUsage, "say off or on"},
		"mac dark mac-1": {exitUsage, "say off or on"},
		"mac off mac-1":  {exitFailed, "no Mac of this vendor has a switch"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"sandbox", "--dir", dir}, strings.Fields(args)...), &out, &errs)
		if code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: exit code %d, %s", args, code, &errs)
		}
	}
}

// Who has a sandbox is told how every verb and kubectl speak to it.
func TestWhatToTypeNextNamesTheKubeconfig(t *testing.T) {
	got := (&sandboxFlags{}).tryNext("/a dir/kubeconfig")
	if !strings.Contains(got, "export KUBECONFIG="+quotedWord("/a dir/kubeconfig")+"\n") {
		t.Errorf("says %s", got)
	}
}
