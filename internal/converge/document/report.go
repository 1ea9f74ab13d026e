package document

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxSteps and maxDetail bound what a report from a hostile Mac may carry
	// into conditions and logs.
	maxSteps  = 64
	maxDetail = 1024
)

// Exit is the exit code of a run that failed with this class. An unknown class
// is a bug.
func (c Class) Exit() int {
	switch c {
	case Retry:
		return ExitRetry
	case Wait:
		return ExitWait
	case Reboot:
		return ExitReboot
	case Reinstall:
		return ExitReinstall
	case Human:
		return ExitHuman
	}
	return ExitBug
}

// ClassOfExit is the class that an exit code carries, or false for codes that
// carry none: success, and codes that are not ours.
func ClassOfExit(code int) (Class, bool) {
	switch code {
	case ExitRetry:
		return Retry, true
	case ExitWait:
		return Wait, true
	case ExitReboot:
		return Reboot, true
	case ExitReinstall:
		return Reinstall, true
	case ExitHuman:
		return Human, true
	case ExitBug, ExitUsage: // the manager writes the command line and the document
		return Bug, true
	}
	return "", false
}

// FailedStep is the first step that failed, or false.
func (r Report) FailedStep() (StepReport, bool) {
	for _, s := range r.Steps {
		if s.Outcome == Failed {
			return s, true
		}
	}
	return StepReport{}, false
}

// Changed reports whether any step changed something or, in a plan, would.
func (r Report) Changed() bool {
	return slices.ContainsFunc(r.Steps, func(s StepReport) bool { return s.Outcome == Changed || s.Outcome == Planned })
}

// EncodeReport returns the report as one line of JSON.
func EncodeReport(r Report) ([]byte, error) {
	r.Schema = ReportSchema
	return encode(r)
}

// DecodeReport reads one report. It comes from a Mac that may be hostile: texts
// are cut to a sane length and stripped of what is not printable, and unknown
// fields are passed over, so that a newer agent can still be understood.
func DecodeReport(data []byte) (Report, error) {
	if len(data) > MaxSize {
		return Report{}, errTooLarge
	}
	if err := checkSchema(data, ReportSchema); err != nil {
		return Report{}, fmt.Errorf("decoding a report: %w", err)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, fmt.Errorf("decoding a report: %w", quiet(err))
	}
	if len(r.Steps) > maxSteps {
		return Report{}, fmt.Errorf("decoding a report: %d steps", len(r.Steps))
	}
	return r.cleaned(), nil
}

func (r Report) cleaned() Report {
	r.Verb, r.Build = clean(r.Verb, maxName), clean(r.Build, maxName)
	r.BootSession, r.Revision = clean(r.BootSession, maxName), clean(r.Revision, maxName)
	r.RolledBack = clean(r.RolledBack, maxName)
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Name, s.Detail = clean(s.Name, maxName), clean(s.Detail, maxDetail)
		s.Outcome, s.Class = Outcome(clean(string(s.Outcome), maxName)), Class(clean(string(s.Class), maxName))
	}
	return r
}

// clean bounds s in bytes and replaces what does not print.
func clean(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
