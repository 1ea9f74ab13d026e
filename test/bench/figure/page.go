package figure

import (
	"fmt"
	"regexp"
	"strings"
)

// block is what a page has between the two marks of a part.
var block = regexp.MustCompile(`(?s)(<!-- figures: ([a-z-]+) -->\n)(.*?)(<!-- end of figures -->)`)

// Fill puts the tables of the reports between the marks of their parts. What a page says between
// marks of a part that has no report stays: it was written by hand. A report without a
// place is an error, as nobody would read it.
func Fill(page string, reports map[string]*Report) (string, error) {
	placed := map[string]bool{}
	page = block.ReplaceAllStringFunc(page, func(whole string) string {
		match := block.FindStringSubmatch(whole)
		r, found := reports[match[2]]
		if !found {
			return whole
		}
		placed[match[2]] = true
		return match[1] + "\n" + r.Markdown() + "\n" + match[4]
	})
	for part := range reports {
		if !placed[part] {
			return "", fmt.Errorf("the page has no <!-- figures: %s --> for the figures of that part", part)
		}
	}
	return page, nil
}

// Markdown is the report for a page: on what it was measured, and the table.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "On %s, on %s, of commit %s", r.Machine, r.At.Format("2 January 2006"), r.Commit)
	if r.Settings != "" {
		fmt.Fprintf(&b, ": %s", r.Settings)
	}
	b.WriteString(".\n\n")
	columns := []string{"figure", r.Ours, "goal"}
	if columns[1] == "" {
		columns[1] = "measured"
	}
	beside := r.Peer != ""
	if beside {
		columns = []string{"figure", columns[1], r.Peer, "ratio", "goal"}
	}
	line := func(cells []string) {
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	line(columns)
	b.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
	for _, f := range r.Figures {
		cells := []string{f.Name, f.Measured.told(f.Unit, f.Goals), f.asked()}
		if beside {
			cells = []string{cells[0], cells[1], f.peer(), f.ratio(), cells[2]}
		}
		line(cells)
	}
	return b.String()
}

// Unexplained are the figures that miss a goal, and of which the page does not say why: a row of a
// table below the heading "Why a goal is missed" begins with the figure's name.
func Unexplained(page string, reports map[string]*Report) []string {
	_, reasons, _ := strings.Cut(page, "\n## Why a goal is missed\n")
	reasons, _, _ = strings.Cut(reasons, "\n## ")
	var missing []string
	for _, r := range reports {
		for _, f := range r.Figures {
			if f.Missed() && !strings.Contains(reasons, "\n| "+f.Name+" |") {
				missing = append(missing, r.Part+": "+f.Name)
			}
		}
	}
	return missing
}
