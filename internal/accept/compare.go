package accept

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Simulated is what simulated Macs print: by how their switches are set, and by the key of
// a row.
type Simulated map[string]map[string][]string

// AsDelivered names the switches of a simulated Mac as they are when nobody sets one.
const AsDelivered = "as delivered"

// simulatedFile is recorded from simulated Macs: go test ./test/stage0 -run TestAcceptKnows -args -record.
//
//go:embed simulated.json
var simulatedFile []byte

// ReadSimulated reads what simulated Macs print.
func ReadSimulated() (Simulated, error) {
	var s Simulated
	if err := json.Unmarshal(simulatedFile, &s); err != nil {
		return nil, fmt.Errorf("reading what simulated Macs print: %w", err)
	}
	return s, nil
}

// hold says whether a word is among what simulated Macs print.
func (s Simulated) hold(word string) bool {
	for _, rows := range s {
		for _, lines := range rows {
			if slices.ContainsFunc(lines, func(line string) bool { return replaceWord(line, word, "") != line }) {
				return true
			}
		}
	}
	return false
}

// Judge compares a row with what the simulator prints, with each switch that has an answer
// of its own. What macfleet promises, and no simulator shows, the row brings with it.
func (s Simulated) Judge(r Row) Row {
	expected, known := s[AsDelivered][r.Key()]
	if !known && len(r.Expected) > 0 {
		r.compare(r.Expected)
		r.Why = "held to what macfleet promises: the simulator does not show it"
		return r
	}
	if !known {
		r.Verdict = NotSimulated
		return r
	}
	if r.compare(expected) {
		return r
	}
	var sets []string
	for _, set := range slices.Sorted(maps.Keys(s)) {
		if other, has := s[set][r.Key()]; has && set != AsDelivered {
			if tried := r; tried.compare(other) {
				sets = append(sets, set)
			}
		}
	}
	if len(sets) > 0 {
		r.compare(s[sets[0]][r.Key()])
		r.Why = switched + strings.Join(sets, switchedOr)
	}
	return r
}

// How a row names the switches of the simulator with which it prints what was seen.
const (
	switched   = "as with the simulator's switch "
	switchedOr = ", or "
)

// Switches names the simulator's switches that a row is as with: none where it is as
// delivered, or not as simulated. One of them is set on the Mac; other rows may tell which.
func (r Row) Switches() []string {
	names, is := strings.CutPrefix(r.Why, switched)
	if !is {
		return nil
	}
	return strings.Split(names, switchedOr)
}

// compare judges a row by what is expected, and reports whether it is as expected. A Mac may
// print more, unless the row is to be exact.
func (r *Row) compare(expected []string) bool {
	r.Expected, r.Lacking, r.Unexpected = expected, lacking(expected, r.Seen), nil
	if r.Exact {
		r.Unexpected = lacking(r.Seen, expected)
	}
	r.Verdict = Differs
	if len(r.Lacking)+len(r.Unexpected) == 0 {
		r.Verdict = AsSimulated
	}
	return r.Verdict == AsSimulated
}

// lacking are the wanted lines whose like is not among the others, each command's lines
// among those of the same command.
func lacking(wanted, others []string) []string {
	var all []string
	there := map[string]bool{}
	for _, like := range shapes(others) {
		there[like] = true
	}
	for i, like := range shapes(wanted) {
		if !there[like] {
			all = append(all, wanted[i])
		}
	}
	return all
}

// shapes are the shapes of all lines, each with which command printed it.
func shapes(lines []string) []string {
	all, command := make([]string, len(lines)), 0
	for i, line := range lines {
		if strings.HasPrefix(line, prompt) {
			command++
		}
		all[i] = fmt.Sprintf("%d %s", command, shape(line))
	}
	return all
}

// prompt stands before a command, whose output follows.
const prompt = "$ "

var (
	// number is one, or several with dots between them, as of a version.
	number = regexp.MustCompile(`[0-9]+(\.[0-9]+)*`)
	exit   = regexp.MustCompile(`^exit [0-9]+$`)
)

// shape is a line without what differs from Mac to Mac: its numbers, but for exit codes,
// and how far its words are apart.
func shape(line string) string {
	line = strings.Join(strings.Fields(line), " ")
	if exit.MatchString(line) {
		return line
	}
	return number.ReplaceAllString(line, "#")
}
