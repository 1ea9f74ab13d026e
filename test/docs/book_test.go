package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	root = filepath.Join("..", "..")
	book = filepath.Join(root, "docs")
)

// row is one line of a table.
type row struct {
	line  int
	cells []string
}

// rows are the lines of a page's tables, without heads and rulers. An escaped bar
// is no border.
func rows(page string) []row {
	var found []row
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		isHead := i+1 < len(lines) && isRuler(lines[i+1])
		if !strings.HasPrefix(line, "|") || isRuler(line) || isHead {
			continue
		}
		inner := strings.Trim(strings.TrimSpace(line), "|")
		cells := strings.Split(strings.ReplaceAll(inner, `\|`, "\x00"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(strings.ReplaceAll(cells[j], "\x00", "|"))
		}
		found = append(found, row{line: i + 1, cells: cells})
	}
	return found
}

func isRuler(line string) bool {
	return strings.HasPrefix(line, "|-") || strings.HasPrefix(line, "| -")
}

// last is the cell that names tests.
func (r row) last() string { return r.cells[len(r.cells)-1] }

var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	testName = regexp.MustCompile(`^Test[A-Z]\w*(/.+)?$`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
)

// testsNamed are the tests that a cell names in backquotes.
func testsNamed(cell string) []string {
	var names []string
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		if testName.MatchString(match[1]) {
			names = append(names, match[1])
		}
	}
	return names
}

// tests are all tests of the repository, each with the text of its files.
func tests(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	walk(t, root, func(path, text string) {
		for _, match := range testFunc.FindAllStringSubmatch(text, -1) {
			found[match[1]] += text
		}
	}, "_test.go")
	if len(found) < 100 {
		t.Fatalf("only %d tests found: the search is broken", len(found))
	}
	return found
}

// missing are the named tests that do not exist. A name after a slash is that of
// a case, which stands in the test's file.
func missing(names []string, known map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		name, one, _ := strings.Cut(name, "/")
		text, found := known[name]
		return found && strings.Contains(text, one)
	})
}

// walk calls visit for each of our files whose name ends so.
func walk(t *testing.T, dir string, visit func(path, text string), suffix string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(entry.Name(), suffix):
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			visit(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages are the book's pages and the files at the root that belong to it.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	walk(t, book, func(path, text string) { found[path] = text }, ".md")
	for _, name := range []string{"README.md", "CONTRIBUTING.md"} {
		found[filepath.Join(root, name)] = read(t, root, name)
	}
	return found
}
