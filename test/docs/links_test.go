package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	// dropped from a heading where its anchor is made.
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	for path, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(withoutCode(page), -1) {
			if target := match[1]; !strings.Contains(target, "://") && !leads(path, target) {
				t.Errorf("%s: %s leads nowhere", strings.TrimPrefix(path, root+"/"), target)
			}
		}
	}
}

// withoutCode leaves out what stands in backquotes, such as a regular expression, in which
// brackets are no link.
func withoutCode(page string) string { return quoted.ReplaceAllString(page, "") }

// leads reports whether a relative link of a page leads to a file, and to a
// heading of it where it names one.
func leads(page, target string) bool {
	file, anchor, _ := strings.Cut(target, "#")
	if file != "" {
		page = filepath.Join(filepath.Dir(page), file)
	}
	if anchor == "" {
		_, err := os.Stat(page)
		return err == nil
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return false
	}
	for _, match := range heading.FindAllStringSubmatch(string(text), -1) {
		if anchorOf(match[1]) == anchor {
			return true
		}
	}
	return false
}

// anchorOf is what GitHub makes of a heading.
func anchorOf(title string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

func TestCodeIsNoLink(t *testing.T) {
	const page = "see [`host`](hosts.md), which matches `^[a-z]([a-z]*)$`\n"
	var targets []string
	for _, match := range link.FindAllStringSubmatch(withoutCode(page), -1) {
		targets = append(targets, match[1])
	}
	if len(targets) != 1 || targets[0] != "hosts.md" {
		t.Errorf("links to %q", targets)
	}
}
