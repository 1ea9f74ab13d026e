package conformance

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// outcome of one spec.
type outcome string

const (
	passed outcome = "passed"
	failed outcome = "failed"
	left   outcome = "skipped"
)

// result is one spec of a run.
type result struct {
	Name    string
	Outcome outcome
	// Why it failed or was skipped, in one line.
	Why string
}

// junit is the part of the suite's report that is read.
type junit struct {
	Suites []struct {
		Cases []junitCase `xml:"testcase"`
	} `xml:"testsuite"`
}

type junitCase struct {
	Name    string   `xml:"name,attr"`
	Status  string   `xml:"status,attr"`
	Skipped *message `xml:"skipped"`
	Failure *message `xml:"failure"`
	Error   *message `xml:"error"`
}

type message struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// labels of a spec, at the end of its name.
var labels = regexp.MustCompile(`\s+(\[[^\]]*\]|\{[^}]*\})$`)

// readResults reads a report of a run over the specs that match focus. Specs that the focus
// left out are in a report too: they are dropped, but for those that the list skips.
func readResults(path string, list specs, focus string) ([]result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the suite's report: %w", err)
	}
	var report junit
	if err := xml.Unmarshal(data, &report); err != nil {
		return nil, fmt.Errorf("parsing the suite's report: %w", err)
	}
	wanted := regexp.MustCompile(focus)
	var results []result
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			if c.Skipped != nil && !wanted.MatchString(c.name()) {
				continue // as thousands are: why, need not be looked up
			}
			r, ran := c.result(list)
			if ran && (wanted.MatchString(r.Name) || r.Outcome == failed) {
				results = append(results, r)
			}
		}
	}
	return results, nil
}

// sorted is by name, and each once: what the list skips may be in several reports.
func sorted(results []result) []result {
	slices.SortStableFunc(results, func(a, b result) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(results, func(a, b result) bool { return a.Name == b.Name && a.Outcome == b.Outcome })
}

func (c junitCase) name() string { return strings.TrimPrefix(c.Name, "[It] ") }

// result is what became of a case; false for one that was never meant to run.
func (c junitCase) result(list specs) (result, bool) {
	r := result{Name: c.name(), Outcome: passed}
	switch {
	case c.Failure != nil:
		r.Outcome, r.Why = failed, c.Failure.firstLine()
	case c.Error != nil:
		r.Outcome, r.Why = failed, c.Error.firstLine()
	case c.Skipped != nil:
		r.Outcome, r.Why = left, list.reasonOf(r.Name)
		if said := firstLine(strings.TrimPrefix(c.Skipped.Message, "skipped - ")); r.Why == "" && said != "skipped" {
			r.Why = said
		}
		return r, r.Why != "" // by the focus alone, otherwise
	case !strings.HasPrefix(c.Name, "[It] "):
		return r, false
	}
	return r, true
}

// firstLine of what failed, which stands in the text where the message is empty.
func (m message) firstLine() string {
	return firstLine(strings.TrimPrefix(cmp.Or(m.Message, m.Text), "[FAILED] "))
}

// port of this machine, which is another one in each run.
var port = regexp.MustCompile(`(127\.0\.0\.1):\d+`)

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return port.ReplaceAllString(line, "$1")
}

// shortName leaves the labels at the end of a name out.
func shortName(name string) string {
	for {
		short := labels.ReplaceAllString(name, "")
		if short == name {
			return name
		}
		name = short
	}
}

// table is the results as people read them.
func table(results []result) string {
	var b strings.Builder
	b.WriteString("| Spec | Result |\n| --- | --- |\n")
	for _, r := range results {
		word := string(r.Outcome)
		if r.Why != "" {
			word += ": " + r.Why
		}
		fmt.Fprintf(&b, "| %s | %s |\n", cell(shortName(r.Name)), cell(word))
	}
	return b.String()
}

// row is a line of a table; the name is a shortName.
var row = regexp.MustCompile(`(?m)^\| (\[.*?) \| (passed|failed|skipped)(?:: (.*))? \|$`)

// merged are the results of a table, in the place of each of which comes what is known of
// the spec now. What the list skips by now is shown as that, also where it was run all the
// same; what is not in the list is left out.
func merged(written string, list specs, now []result) []result {
	now = slices.DeleteFunc(slices.Clone(now), func(r result) bool { return !list.lists(r.Name) })
	known := map[string]bool{}
	for _, r := range now {
		known[cell(shortName(r.Name))] = true
	}
	for _, fields := range row.FindAllStringSubmatch(written, -1) {
		if known[fields[1]] {
			continue
		}
		now = append(now, result{Name: uncell(fields[1]), Outcome: outcome(fields[2]), Why: uncell(fields[3])})
	}
	for i, r := range now {
		if why := list.reasonOf(r.Name); why != "" {
			now[i].Outcome, now[i].Why = left, why
		}
	}
	return sorted(now)
}

// uncell undoes what cell does to keep a text in its cell.
func uncell(text string) string { return strings.NewReplacer(`\|`, "|", "&lt;", "<").Replace(text) }

// cell keeps a text within its cell.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}

func count(results []result, o outcome) int {
	n := 0
	for _, r := range results {
		if r.Outcome == o {
			n++
		}
	}
	return n
}
