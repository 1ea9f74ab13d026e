package house

import (
	"path"
	"strings"
	"testing"
)

// TestDoublesSayWhatTheyAre holds that a package which only tests use has a name that
// ends in "test", and that nothing shipped imports one of that name.
func TestDoublesSayWhatTheyAre(t *testing.T) {
	for _, complaint := range wrongDoubles(list(t, "./...")) {
		t.Error(complaint)
	}
}

func wrongDoubles(packages []listed) []string {
	shippedUse := map[string]bool{}
	var complaints []string
	for _, p := range packages {
		for _, imported := range ours(p.Imports) {
			if forTests(p.path()) {
				continue
			}
			shippedUse[imported] = true
			if isDouble(imported) {
				complaints = append(complaints, p.path()+" imports "+imported+": a test double, for tests alone")
			}
		}
	}
	for _, p := range packages {
		if within(p.path(), "internal") && len(p.GoFiles) > 0 && !shippedUse[p.path()] && !isDouble(p.path()) {
			complaints = append(complaints, p.path()+" is used by tests alone: end its name in test, or delete it")
		}
	}
	return complaints
}

// isDouble says whether a folder's name says that it is for tests.
func isDouble(folder string) bool {
	return within(folder, "internal") && strings.HasSuffix(path.Base(folder), "test")
}

// forTests are the packages that may use doubles: those below test/, and doubles.
func forTests(folder string) bool { return within(folder, "test") || isDouble(folder) }

func TestDoublesCatch(t *testing.T) {
	pkg := func(folder string, imports ...string) listed {
		p := listed{ImportPath: module + "/" + folder, GoFiles: []string{"x.go"}}
		for _, imported := range imports {
			p.Imports = append(p.Imports, module+"/"+imported)
		}
		return p
	}
	for _, c := range []struct {
		name       string
		packages   []listed
		complaints int
	}{
		{"a double that nobody ships", []listed{pkg("internal/cloudtest"), pkg("test/e2e", "internal/cloudtest")}, 0},
		{"a double that uses another", []listed{pkg("internal/atest", "internal/btest"), pkg("internal/btest")}, 0},
		{"a double in the manager", []listed{pkg("internal/cloudtest"), pkg("cmd/manager", "internal/cloudtest")}, 1},
		{"used by tests alone", []listed{pkg("internal/fake"), pkg("test/e2e", "internal/fake")}, 1},
		{"used by a double alone", []listed{pkg("internal/fake"), pkg("internal/atest", "internal/fake")}, 1},
	} {
		if got := wrongDoubles(c.packages); len(got) != c.complaints {
			t.Errorf("%s: %q, want %d complaints", c.name, got, c.complaints)
		}
	}
}
