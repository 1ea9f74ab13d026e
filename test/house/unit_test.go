package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// takesMinutes are what no quick test may be built on: a control plane, simulated Macs
// as processes, and whole stages made of them.
var takesMinutes = []string{"sandbox/cluster", "sandbox/controlplane", "sandbox/mac", "sandbox/world", "test"}

var unitLine = regexp.MustCompile(`(?m)^UNIT := (.+)$`)

// TestQuickTestsStayQuick holds what `make unit` is: tests that start no sandbox. That
// no package takes minutes is its -timeout.
func TestQuickTestsStayQuick(t *testing.T) {
	quick := quickFolders(t)
	for _, p := range list(t, "./...") {
		if !slices.ContainsFunc(quick, func(folder string) bool { return within(p.path(), folder) }) {
			continue
		}
		for _, imported := range slowImports(p) {
			t.Errorf("tests of %s import %s: move them below test/, or make unit is slow", p.path(), imported)
		}
	}
}

// quickFolders are those that the Makefile's UNIT names.
func quickFolders(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	line := unitLine.FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no line UNIT := …")
	}
	var folders []string
	for _, pattern := range strings.Fields(string(line[1])) {
		folders = append(folders, strings.TrimSuffix(strings.TrimPrefix(pattern, "./"), "/..."))
	}
	for _, must := range []string{"api", "cmd", "internal"} {
		if !slices.Contains(folders, must) {
			t.Errorf("UNIT in the Makefile leaves out ./%s/...", must)
		}
	}
	return folders
}

func slowImports(p listed) []string {
	return slices.DeleteFunc(ours(slices.Concat(p.TestImports, p.XTestImports)), func(imported string) bool {
		return !slices.ContainsFunc(takesMinutes, func(folder string) bool { return within(imported, folder) })
	})
}

func TestSlowImportsCatch(t *testing.T) {
	p := listed{ImportPath: module + "/cmd/macfleet", Imports: []string{module + "/sandbox/world"}, TestImports: []string{module + "/sandbox/scaleway"}, XTestImports: []string{module + "/sandbox/world"}}
	if got := slowImports(p); !slices.Equal(got, []string{"sandbox/world"}) {
		t.Errorf("slow imports = %q, want those of the tests alone", got)
	}
}

// TestEverybodyRunsTheSameCommands holds that a pull request is tested by what the README
// tells people to type.
func TestEverybodyRunsTheSameCommands(t *testing.T) {
	for file, says := range map[string]string{".ci/run": "make test", ".github/workflows/ci.yaml": "run: .ci/run", "README.md": "make test"} {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), says) {
			t.Errorf("%s does not say %q", file, says)
		}
	}
}
