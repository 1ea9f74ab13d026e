package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	assignment = regexp.MustCompile(`(?m)^(?:[a-z-]+: )?(?:export )?(\w+) ?(:=|\?=|=) ?(.*)$`)
	reference  = regexp.MustCompile(`\$\((\w+)\)`)
)

// TestMakefileNamesWhatIsSet holds that no variable is read above the line that sets it.
func TestMakefileNamesWhatIsSet(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, early := range readEarly(string(makefile)) {
		t.Error(early)
	}
}

// readEarly are the variables of a := that are set further below alone: make reads them at once,
// as empty, and says nothing.
func readEarly(makefile string) []string {
	var early []string
	lines := assignment.FindAllStringSubmatch(makefile, -1)
	setIn := func(lines [][]string, name string) bool {
		return slices.ContainsFunc(lines, func(line []string) bool { return line[1] == name })
	}
	for i, line := range lines {
		if line[2] != ":=" {
			continue
		}
		for _, named := range reference.FindAllStringSubmatch(line[3], -1) {
			if name := named[1]; !setIn(lines[:i+1], name) && setIn(lines[i+1:], name) {
				early = append(early, fmt.Sprintf("%s reads $(%s), which the Makefile sets further below: it is empty there", line[1], name))
			}
		}
	}
	return early
}

func TestReadEarlyCatches(t *testing.T) {
	const makefile = "export SELF := a $(SELF)\nONE := $(TWO) $(OUTSIDE)\nLATE = $(TWO)\nTWO ?= 2\ntest: export THREE := $(ONE) $(FOUR)\nFOUR := 4\n"
	want := []string{
		"ONE reads $(TWO), which the Makefile sets further below: it is empty there",
		"THREE reads $(FOUR), which the Makefile sets further below: it is empty there",
	}
	if got := readEarly(makefile); !slices.Equal(got, want) {
		t.Errorf("read early: %q, want %q", got, want)
	}
}
