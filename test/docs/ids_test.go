package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// question is how an open question about macOS is called.
	question = regexp.MustCompile(`\bR\d+\b`)
	// ofARequirement starts the name of a test, or ends a sentence that speaks of one.
	ofARequirement = regexp.MustCompile(`[Rr]equirement ?(\d{3})`)
)

// What pages call by its number stands on the page of questions, which is held to the doctor's own.
func TestEachQuestionStandsOnItsPage(t *testing.T) {
	const page = "questions.md"
	listed := map[string]bool{}
	for _, r := range rows(read(t, book, "operate", page)) {
		listed[r.cells[0]] = true
	}
	uses := 0
	for path, text := range pages(t) {
		if filepath.Base(path) == page {
			continue
		}
		for _, name := range question.FindAllString(text, -1) {
			if uses++; !listed[name] {
				t.Errorf("%s: docs/operate/%s has no %s", strings.TrimPrefix(path, root+"/"), page, name)
			}
		}
	}
	if uses < 10 {
		t.Errorf("pages name %d questions: the search is broken", uses)
	}
}

// A number that code or a page names has its rows, and a test that is named after one is in them.
func TestEachRequirementStandsOnItsPage(t *testing.T) {
	page := read(t, book, "requirements.md")
	listed, named := map[string]bool{}, map[string]bool{}
	for _, r := range rows(page) {
		number, _, _ := strings.Cut(r.cells[0], " ")
		listed[number] = true
		for _, name := range testsNamed(r.last()) {
			name, _, _ = strings.Cut(name, "/")
			named[name] = true
		}
	}
	check := func(path, text string) {
		for _, match := range ofARequirement.FindAllStringSubmatch(text, -1) {
			if !listed[match[1]] {
				t.Errorf("%s: docs/requirements.md has no row of %s", strings.TrimPrefix(path, root+"/"), match[0])
			}
		}
	}
	walk(t, root, check, ".go")
	for path, text := range pages(t) {
		check(path, text)
	}
	for name := range tests(t) {
		if strings.HasPrefix(name, "TestRequirement") && !named[name] {
			t.Errorf("docs/requirements.md has no row that %s holds", name)
		}
	}
}
