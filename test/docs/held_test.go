package docs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notYet starts the last cell of a row that is not built, with the reason.
const notYet = "not yet: "

// The requirements, and parts of them, that are built in full: each of their rows
// is held by a test.
var built = []string{"000", "001", "002 §1", "002 §2", "002 §3", "003", "004"}

// requirement is the first cell of a row: a number, and perhaps a part.
var requirement = regexp.MustCompile(`^\d{3}( §\d)?$`)

func TestEachRowOfARequirementIsHeldByATest(t *testing.T) {
	known := tests(t)
	count := map[string]int{}
	for _, r := range rows(read(t, book, "requirements.md")) {
		count[r.cells[0]]++
		for _, complaint := range complaints(r, known) {
			t.Errorf("docs/requirements.md:%d: %s", r.line, complaint)
		}
	}
	for _, number := range built {
		if count[number] == 0 {
			t.Errorf("docs/requirements.md has no row of requirement %s", number)
		}
	}
}

// complaints says what is wrong with one row of the requirements.
func complaints(r row, known map[string]string) []string {
	if len(r.cells) != 4 {
		return []string{"a row has four cells: requirement, what it asks, what we do, the tests"}
	}
	names := testsNamed(r.last())
	var found []string
	for _, name := range missing(names, known) {
		found = append(found, "no such test: "+name)
	}
	switch {
	case !requirement.MatchString(r.cells[0]):
		found = append(found, "the first cell names a requirement, such as 000")
	case len(names) > 0:
	case slices.Contains(built, r.cells[0]):
		found = append(found, "no test holds this row")
	case !strings.HasPrefix(r.last(), notYet) || len(r.last()) <= len(notYet):
		found = append(found, "no test holds this row, and it does not say \""+notYet+"\" with the reason")
	}
	return found
}

// What we say that we do better than others, a test does, or a bench has measured.
func TestEachComparisonIsHeld(t *testing.T) {
	known := tests(t)
	held := 0
	for _, r := range rows(read(t, book, "comparison.md")) {
		if len(r.cells) != 6 || !strings.ContainsAny(r.cells[1], "●◐") {
			continue
		}
		held++
		names := testsNamed(r.last())
		if len(names) == 0 && !strings.Contains(r.cells[1], "(figures.md") {
			t.Errorf("docs/comparison.md:%d: nothing holds what we say of ourselves", r.line)
		}
		for _, name := range missing(names, known) {
			t.Errorf("docs/comparison.md:%d: no such test: %s", r.line, name)
		}
	}
	if held < 15 {
		t.Errorf("%d rows compare: the search is broken", held)
	}
}

func TestEachPromiseIsHeldByATest(t *testing.T) {
	known := tests(t)
	promises := 0
	for _, r := range rows(read(t, book, "promises.md")) {
		if number, err := strconv.Atoi(r.cells[0]); err == nil {
			if promises++; number != promises {
				t.Errorf("docs/promises.md:%d: promise %d, want %d: they are numbered through", r.line, number, promises)
			}
		}
		names := testsNamed(r.last())
		if len(names) == 0 {
			t.Errorf("docs/promises.md:%d: no test holds this row", r.line)
		}
		for _, name := range missing(names, known) {
			t.Errorf("docs/promises.md:%d: no such test: %s", r.line, name)
		}
	}
	if promises != 21 {
		t.Errorf("%d promises: there are twenty-one", promises)
	}
}

// noRule starts the last cell of a rule of the contract that concerns nothing here.
const noRule = "does not apply: "

// ofTheContract starts the name of a test that is named after a rule of the contract.
const ofTheContract = "TestContract_"

// TestEachRuleOfTheContractIsHeldByATest that is named after it, and each such test is found in
// the page.
func TestEachRuleOfTheContractIsHeldByATest(t *testing.T) {
	known := tests(t)
	page := rows(read(t, book, "contract.md"))
	named := map[string]bool{}
	for _, r := range page {
		for _, complaint := range ruleComplaints(r, known) {
			t.Errorf("docs/contract.md:%d: %s", r.line, complaint)
		}
		for _, name := range testsNamed(r.last()) {
			named[name] = true
		}
	}
	for name := range known {
		if strings.HasPrefix(name, ofTheContract) && !named[name] {
			t.Errorf("docs/contract.md has no rule that %s holds", name)
		}
	}
	if len(page) < 40 {
		t.Errorf("only %d rules found: the search is broken, or the page has lost some", len(page))
	}
}

// ruleComplaints says what is wrong with one row of the contract.
func ruleComplaints(r row, known map[string]string) []string {
	if len(r.cells) != 4 {
		return []string{"a row has four cells: the rule, whether it is a must, what we do, the tests"}
	}
	names := testsNamed(r.last())
	var found []string
	for _, name := range missing(names, known) {
		found = append(found, "no such test: "+name)
	}
	if len(names) > 0 {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, ofTheContract) }) {
			found = append(found, "no test is named after this rule, as "+ofTheContract+"…")
		}
		return found
	}
	for _, reason := range []string{notYet, noRule} {
		if strings.HasPrefix(r.last(), reason) && len(r.last()) > len(reason) {
			return nil
		}
	}
	return []string{"no test holds this row, and it says neither \"" + notYet + "\" nor \"" + noRule + "\" with the reason"}
}

func TestRuleComplaints(t *testing.T) {
	known := map[string]string{"TestContract_Held": `"a case"`, "TestHeld": ""}
	for text, says := range map[string]string{
		"| a | yes | kept | `TestContract_Held` |":             "",
		"| a | yes | kept | `TestContract_Held/a case` |":      "",
		"| a | yes | kept | `TestHeld`, `TestContract_Held` |": "",
		"| a | yes | kept | `TestHeld` |":                      "named after this rule",
		"| a | yes | kept | `TestContract_Held/another` |":     "no such test",
		"| a | yes | kept | `TestGone`, `TestContract_Held` |": "no such test",
		"| a | yes | kept | by hand |":                         "no test holds",
		"| a | yes | kept | |":                                 "no test holds",
		"| a | yes | kept | not yet: |":                        "no test holds",
		"| a | yes | kept | not yet: hard |":                   "",
		"| a | yes | kept | does not apply: no X |":            "",
		"| a | kept | `TestContract_Held` |":                   "four cells",
	} {
		found := rows("| rule | must | here | held by |\n|---|---|---|---|\n" + text)
		if len(found) != 1 {
			t.Fatalf("%q is read as %d rows", text, len(found))
		}
		got := strings.Join(ruleComplaints(found[0], known), "; ")
		if (says == "") != (got == "") || !strings.Contains(got, says) {
			t.Errorf("%s: complaints = %q, want %q", text, got, says)
		}
	}
}

// TestComplaints keeps the search honest.
func TestComplaints(t *testing.T) {
	known := map[string]string{"TestHeld": `"a case"`}
	for text, says := range map[string]string{
		"| 000 | a | kept | `TestHeld` |":             "",
		"| 000 | a | kept | `TestHeld/a case` |":      "",
		"| 000 | a | kept | `TestHeld/another` |":     "no such test",
		"| 000 | a | kept | `TestGone`, `TestHeld` |": "no such test",
		"| 000 | a | kept | by hand |":                "no test holds",
		"| 000 | a | kept | not yet: hard |":          "no test holds",
		"| 004 | a | kept | not yet: hard |":          "no test holds",
		"| 002 §2 | a | kept | not yet: hard |":       "no test holds",
		"| 005 | a | kept | not yet: hard |":          "",
		"| 005 | a | kept | not yet: |":               "with the reason",
		"| 005 | a | kept | |":                        "with the reason",
		"| 004 | a \\| b | kept | `TestHeld` |":       "",
		"| 000 | a | `TestHeld` |":                    "four cells",
		"| 0 | a | kept | `TestHeld` |":               "names a requirement",
	} {
		found := rows("| req. | a | b | c |\n|---|---|---|---|\n" + text)
		if len(found) != 1 {
			t.Fatalf("%q is read as %d rows", text, len(found))
		}
		got := strings.Join(complaints(found[0], known), "; ")
		if (says == "") != (got == "") || !strings.Contains(got, says) {
			t.Errorf("%s: complaints = %q, want %q", text, got, says)
		}
	}
}

// TestRequirement000_TheOptOutRecipeStandsWordForWord: people have it in their notes.
func TestRequirement000_TheOptOutRecipeStandsWordForWord(t *testing.T) {
	const recipe = `kubectl -n "$NS" annotate scalewayapplesiliconmachine <name> \
  tuist.dev/release-policy=terminate --overwrite
kubectl -n "$NS" delete machine <machine-name>`
	if !strings.Contains(read(t, book, "operate", "hosts.md"), recipe) {
		t.Error("docs/operate/hosts.md does not have the opt-out of a broken host")
	}
}

func TestTheTableOfVersionsIsHeld(t *testing.T) {
	known := tests(t)
	_, section, _ := strings.Cut(read(t, book, "install.md"), "\n## Versions beside each other\n")
	section, _, _ = strings.Cut(section, "\n## ")
	found := rows(section)
	if len(found) < 8 {
		t.Fatalf("%d rows: the search is broken", len(found))
	}
	for _, r := range found {
		names := testsNamed(r.last())
		if len(names) == 0 {
			t.Errorf("%s: no test holds this row", r.cells[0])
		}
		for _, name := range missing(names, known) {
			t.Errorf("%s: no such test: %s", r.cells[0], name)
		}
	}
}
