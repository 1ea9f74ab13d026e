package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestExamplesAreFiles: whoever reads an example finds the same in a file to apply.
// The end-to-end tests run what the page shows.
func TestExamplesAreFiles(t *testing.T) {
	shown := map[string]bool{}
	for _, page := range []string{"pods.md", filepath.Join("operate", "health-checks.md")} {
		for _, m := range regexp.MustCompile("(?s)<!-- example: ([a-z-]+) -->\n```yaml\n(.*?)```").FindAllStringSubmatch(read(t, book, page), -1) {
			file := m[1] + ".yaml"
			shown[file] = true
			if got := read(t, book, "examples", file); got != m[2] {
				t.Errorf("docs/examples/%s is not what docs/%s shows", file, page)
			}
		}
	}
	files, err := os.ReadDir(filepath.Join(book, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !shown[f.Name()] {
			t.Errorf("no page shows docs/examples/%s", f.Name())
		}
	}
	if len(shown) < 4 {
		t.Errorf("only %d examples found: the search is broken", len(shown))
	}
}
