package reasons

import (
	"regexp"
	"strings"
	"unicode"
)

// row is a line of a table, with what stands above it.
type row struct {
	section string
	head    []string
	cells   []string
}

// rowsOf are the rows of all tables of a page.
func rowsOf(page string) []row {
	var rows []row
	var section string
	var head []string
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		if title, is := strings.CutPrefix(line, "## "); is {
			section, head = title, nil
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			head = nil
		case i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|-"):
			head = cellsOf(line)
		case !strings.HasPrefix(line, "|-") && head != nil:
			rows = append(rows, row{section, head, cellsOf(line)})
		}
	}
	return rows
}

// cellsOf are the cells of a line. An escaped bar is no border.
func cellsOf(line string) []string {
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00")
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|"))
	}
	return cells
}

// recipesOf are the commands of macfleet below each heading of a page, by its anchor: the
// first lines of the code there.
func recipesOf(page string) map[string][]string {
	recipes := map[string][]string{}
	section, code := "", false
	for _, line := range strings.Split(page, "\n") {
		switch title, is := strings.CutPrefix(line, "## "); {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			code = !code
		case is && !code:
			section = anchor(title)
		case code && strings.HasPrefix(line, "macfleet "):
			command, _, _ := strings.Cut(line, " # ")
			recipes[section] = append(recipes[section], strings.TrimSpace(command))
		}
	}
	return recipes
}

// anchor is what a heading is linked by.
func anchor(title string) string {
	var text strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			text.WriteRune('-')
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			text.WriteRune(r)
		}
	}
	return text.String()
}

// quoted are the words in backquotes.
func quoted(cell string) []string {
	var words []string
	for i, text := range strings.Split(cell, "`") {
		if i%2 == 1 {
			words = append(words, text)
		}
	}
	if words == nil {
		return []string{cell} // as "any"
	}
	return words
}

// commandsIn are the commands that a cell quotes.
func commandsIn(cell string) []string {
	var commands []string
	for _, text := range quoted(cell) {
		if strings.HasPrefix(text, "macfleet ") || strings.HasPrefix(text, "kubectl ") {
			commands = append(commands, text)
		}
	}
	return commands
}

// Named puts names in the places that the book leaves for them, as $HOST.
func Named(text string, names map[string]string) string {
	for place, name := range names {
		text = strings.ReplaceAll(strings.ReplaceAll(text, `"$`+place+`"`, name), "$"+place, name)
	}
	return text
}

var link = regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`)

// linksIn are the pages that a cell links to, as they are called below operate.
func linksIn(cell string) []string {
	var links []string
	for _, match := range link.FindAllStringSubmatch(cell, -1) {
		target := match[2]
		if strings.HasPrefix(target, "#") {
			target = "reasons.md" + target
		}
		links = append(links, target)
	}
	return links
}

// quotedCommand is one with what leads to it: it is shown beside the prose, not in it.
var quotedCommand = regexp.MustCompile("\\s*[:,(]?\\s*`(?:macfleet|kubectl) [^`]*`\\)?")

// prose is a cell without its commands.
func prose(cell string) string { return plain(quotedCommand.ReplaceAllString(cell, "")) }

// linkedTail is a link at the end of a sentence that says all without it: where to read on is
// shown beside the prose, too.
var linkedTail = regexp.MustCompile(`: \[[^]]*\]\([^)]*\)([.;]|$)`)

// plain is a cell as people read it.
func plain(cell string) string {
	cell = linkedTail.ReplaceAllString(cell, "$1")
	return strings.ReplaceAll(link.ReplaceAllString(cell, "$1"), "`", "")
}
