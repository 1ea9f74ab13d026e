package tart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Journal is what tests ask about the past.
type Journal []Record

// ReadJournal reads the journal of a TART_HOME or TART_FAKE_JOURNAL. A file that is not
// there is an empty one; a line that is still being written is left out.
func ReadJournal(path string) (Journal, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal of tart: %w", err)
	}
	var j Journal
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading the journal of tart: %w in %q", err, line)
		}
		j = append(j, r)
	}
	return j, nil
}

// Calls are the invocations of a command, each from its name on.
func (j Journal) Calls(command string) [][]string {
	var calls [][]string
	for _, r := range j {
		if r.Event == EventStart && len(r.Argv) > 1 && r.Argv[1] == command {
			calls = append(calls, r.Argv[1:])
		}
	}
	return calls
}

// Downloads counts how often each image came over the network, by its digest name;
// one that was resumed counts again.
func (j Journal) Downloads() map[string]int {
	n := map[string]int{}
	for _, r := range j {
		if r.Event == EventDownload {
			n[r.Name]++
		}
	}
	return n
}

// Broken lists what no agent may ever do, in words for a test's failure: take the name
// of a running VM, run one that runs, run a clone a second time.
func (j Journal) Broken() []string {
	var found []string
	runs := map[string]int{}
	for _, r := range j {
		switch r.Event {
		case EventReplaced:
			found = append(found, "the name of a running VM was taken: "+r.Name)
		case EventSecondRun:
			found = append(found, "a running VM was run: "+r.Name)
		case EventStart:
			name := operand(r.Argv)
			switch {
			case name == "":
			case r.Argv[1] == "clone":
				runs[name] = 0
			case r.Argv[1] == "run":
				if runs[name]++; runs[name] == 2 {
					found = append(found, "a clone was run twice: "+name)
				}
			}
		}
	}
	return found
}

// operand is the VM that clone makes, or that run runs.
func operand(argv []string) string {
	if len(argv) < 2 {
		return ""
	}
	words := slices.DeleteFunc(slices.Clone(argv[2:]), func(w string) bool { return strings.HasPrefix(w, "-") })
	switch {
	case argv[1] == "clone" && len(words) > 1:
		return words[1]
	case argv[1] == "run" && len(words) > 0:
		return words[0]
	}
	return ""
}
