package accept

import (
	"slices"
	"time"

	"github.com/macfleet/macfleet/internal/converge/doctor"
)

// Schema is the version of Report.
const Schema = "macfleet.dev/accept/v1"

// Verdict is what a row comes to.
type Verdict string

// The verdicts.
const (
	// AsSimulated: the Mac printed all that the simulator prints.
	AsSimulated Verdict = "as-simulated"
	// Differs: it did not. Either the simulator is wrong about Macs, or this one is in a
	// state of its own.
	Differs Verdict = "differs"
	// NotSimulated: it was seen, and the simulator has no answer to compare it with.
	NotSimulated Verdict = "not-simulated"
	// NotTried: see Why.
	NotTried Verdict = "not-tried"
)

// Row is one thing that was asked of the Mac.
type Row struct {
	Section string `json:"section"`
	ID      string `json:"id"`
	Asked   string `json:"asked"`
	// Question is the open question that it bears on, if any.
	Question string `json:"question,omitempty"`
	// Seen is what the Mac printed, and Expected what a simulated Mac does. Neither holds
	// what would tell which Mac or whose it is.
	Seen     []string `json:"seen,omitempty"`
	Expected []string `json:"expected,omitempty"`
	// Lacking are the lines of Expected that were not seen.
	Lacking []string `json:"lacking,omitempty"`
	// Exact: the Mac should print nothing else, and Unexpected are the lines that it did.
	Exact      bool     `json:"exact,omitempty"`
	Unexpected []string `json:"unexpected,omitempty"`
	Verdict    Verdict  `json:"verdict"`
	// Why is the reason of what was not tried, and the simulator's switch with which it
	// prints what was seen.
	Why string `json:"why,omitempty"`
	// Detail is what was said beside it, which is compared with nothing.
	Detail  string  `json:"detail,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// Key names the row in all reports.
func (r Row) Key() string { return r.Section + "/" + r.ID }

// Answer is what this run found of an open question.
type Answer struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	// Rows bear on it. None: it was not tried, and Why says why.
	Rows []string `json:"rows,omitempty"`
	Why  string   `json:"why,omitempty"`
}

// Mac is what kind of Mac it was, and not which one.
type Mac struct {
	Model   string `json:"model"`
	OS      string `json:"os"`
	Build   string `json:"build"`
	CPUs    int    `json:"cpus"`
	GiBytes int64  `json:"memoryGiB"`
}

// Report is all that was asked and seen.
type Report struct {
	Schema   string    `json:"schema"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Mac      Mac       `json:"mac"`
	Rows     []Row     `json:"rows"`
	// Questions are the open questions about macOS, each with its rows or the reason why
	// there is none.
	Questions []Answer `json:"questions"`
	// Left is what the run left on the Mac.
	Left string `json:"left"`
}

// Count counts the rows with that verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, row := range r.Rows {
		if row.Verdict == v {
			n++
		}
	}
	return n
}

// answers finds for each open question the rows that bear on it.
func answers(rows []Row) []Answer {
	var all []Answer
	for _, q := range doctor.Questions() {
		a := Answer{ID: q.ID, Question: q.Question}
		for _, r := range rows {
			if r.Question == q.ID && r.Verdict != NotTried && !slices.Contains(a.Rows, r.Key()) {
				a.Rows = append(a.Rows, r.Key())
			}
		}
		if len(a.Rows) == 0 {
			a.Why = "not tried by this run. By hand: " + q.Answer
		}
		all = append(all, a)
	}
	return all
}
