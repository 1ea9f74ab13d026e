// Package booktest makes pages of the book from what the code says of itself, and holds them
// to it. hack/generate.sh runs the tests that do, with -pages.
package booktest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var pages = flag.Bool("pages", false, "write the pages anew that are made from the code")

// Hold compares a page, named by its path below docs, with what it is made of.
func Hold(t *testing.T, root, name, want string) {
	t.Helper()
	path := filepath.Join(root, "docs", filepath.FromSlash(name))
	if *pages {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("run hack/generate.sh: docs/%s is not what it is made of (-want +got):\n%s", name, diff)
	}
}

// Head is the title of a page, and the word for those who open its file.
func Head(title, madeOf string) string {
	return "# " + title + "\n\n<!-- Generated from " + madeOf + " by hack/generate.sh. Don't edit. -->\n"
}

// Table is a table with this head; no rows are none.
func Table(head []string, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("\n" + row(head) + "|" + strings.Repeat("---|", len(head)) + "\n")
	for _, cells := range rows {
		text.WriteString(row(cells))
	}
	return text.String()
}

// row is a line of a table, in which a bar would be a border.
func row(cells []string) string {
	line := "|"
	for _, cell := range cells {
		if cell = strings.ReplaceAll(cell, "|", `\|`); cell != "" {
			cell = " " + cell
		}
		line += cell + " |"
	}
	return line + "\n"
}

// Code shows a text as it is typed; none is none.
func Code(text string) string {
	switch {
	case text == "":
		return ""
	case strings.Contains(text, "`"):
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// Words is plain text on one line of Markdown: what would be a tag or a star there is neither.
// What stands in backquotes is code already.
func Words(text string) string {
	parts := strings.Split(strings.Join(strings.Fields(text), " "), "`")
	for i := range parts {
		if i%2 == 0 {
			parts[i] = strings.NewReplacer("<", `\<`, "*", `\*`, "[", `\[`).Replace(parts[i])
		}
	}
	return strings.Join(parts, "`")
}

// atTheEnd is how a flag says what holds where it is not given.
var atTheEnd = regexp.MustCompile(`^(.*?)(?: \(default: (.*)\)|; default: (.*))$`)

// inTheMiddle is how a field of the API says it: in a sentence.
var inTheMiddle = regexp.MustCompile(`^(.*?) ?Default(?:, when absent)?: (.*?)\.( .*)?$`)

// Default takes what a text says of its default out of it: "the port; default: 22" are "the
// port" and "22".
func Default(text string) (words, value string) {
	text = strings.Join(strings.Fields(text), " ")
	if m := atTheEnd.FindStringSubmatch(text); m != nil {
		return m[1], m[2] + m[3]
	}
	if m := inTheMiddle.FindStringSubmatch(text); m != nil {
		return strings.TrimSpace(m[1] + m[3]), m[2]
	}
	return text, ""
}
