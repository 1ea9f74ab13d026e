package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// modulesLine names the modules that vet and lint look at beside the main one.
var modulesLine = regexp.MustCompile(`(?m)^MODULES := (.+)$`)

// unseen are modules that vet and most of the linters leave out: all of Kubernetes is below what
// is ours.
var unseen = []string{"sandbox/controlplane", "test/oracle/hollowkubelet"}

// TestEveryModuleIsLinted holds that a new module is not forgotten.
func TestEveryModuleIsLinted(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	line := modulesLine.FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no line MODULES := …")
	}
	linted := strings.Fields(string(line[1]))
	for _, module := range modules(t, root) {
		if !slices.Contains(linted, module) && !slices.Contains(unseen, module) {
			t.Errorf("%s is a module that MODULES in the Makefile leaves out: vet and lint do not see it", module)
		}
	}
}

// modules are the folders with a go.mod that have Go files directly in them.
func modules(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod", "*/*/*/go.mod"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			dir := filepath.Dir(file)
			if programs, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(programs) == 0 {
				continue
			}
			name, err := filepath.Rel(root, dir)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, name)
		}
	}
	if len(found) < 5 {
		t.Fatalf("only the modules %q are found: the search is broken", found)
	}
	return found
}
