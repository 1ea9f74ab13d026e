// Package doctor looks at the Mac it runs on and says what would keep it from
// being a node, or from being a safe one: one finding a check, each with what was
// seen, what follows from it and what to do. It changes nothing, needs no cluster
// and no installation, and does what it can without root. What it could not see is
// unknown, never well. Mending is the business of package converge.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/session"
)

// Schema is the version of Report.
const Schema = "macfleet.dev/doctor/v1"

// Verdict is what a check comes to.
type Verdict string

// The verdicts.
const (
	// Well: as it should be.
	Well Verdict = "well"
	// Warning: it works, and something about it may bite.
	Warning Verdict = "warning"
	// Problem: the Mac is not fit, or not safe, as it is.
	Problem Verdict = "problem"
	// Unknown: it could not be seen; look yourself.
	Unknown Verdict = "unknown"
	// NotApplicable: there is nothing of the kind on this Mac.
	NotApplicable Verdict = "not applicable"
)

// Finding is the outcome of one check.
type Finding struct {
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Verdict Verdict `json:"verdict"`
	// Evidence is what was seen. It holds no secret.
	Evidence string `json:"evidence"`
	// Consequence says what follows, and Remedy what to do about it; both are empty
	// when all is well.
	Consequence string `json:"consequence,omitempty"`
	Remedy      string `json:"remedy,omitempty"`
	// Question is the open question, if any, that this check bears on.
	Question string `json:"question,omitempty"`
}

// Report is everything that was found.
type Report struct {
	Schema string `json:"schema"`
	// Root says whether what only root can see was looked at.
	Root     bool      `json:"root"`
	Findings []Finding `json:"findings"`
	// Questions are what no look at a Mac answers: they take an experiment.
	Questions []Question `json:"questions"`
}

// Problems counts the findings with that verdict.
func (r Report) Problems() int { return r.count(Problem) }

func (r Report) count(v Verdict) int {
	n := 0
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// Options of Examine. Mac and Commands must be set.
type Options struct {
	Mac      macos.Mac
	Commands macos.Commands
	// Root says whether this process is root.
	Root bool
	// User is the console user to look for. Empty: the one in the agent's
	// configuration, else the owner of the console, else the Invoker.
	User string
	// Invoker is who called sudo; empty: nobody did.
	Invoker string
}

// exam is one look at one Mac.
type exam struct {
	Options
	// config is the agent's configuration, nil where there is none.
	config *document.AgentConfig
}

// check is one thing to look at.
type check struct {
	id, title, question string
	// root: only root can see it.
	root bool
	look func(ctx context.Context, x *exam) Finding
}

// Examine looks at everything.
func Examine(ctx context.Context, o Options) Report {
	x := &exam{Options: o}
	r := Report{Schema: Schema, Root: o.Root, Questions: Questions()}
	r.Findings = append(r.Findings, x.run(ctx, system()))
	if r.Findings[0].Verdict == Problem && x.foreign(ctx) {
		for _, c := range checks() {
			r.Findings = append(r.Findings, c.finding(unknown("not looked at: this is no Mac")))
		}
		return r
	}
	x.readConfig(ctx)
	for _, c := range checks() {
		r.Findings = append(r.Findings, x.run(ctx, c))
	}
	return r
}

func (x *exam) run(ctx context.Context, c check) Finding {
	if c.root && !x.Root {
		return c.finding(Finding{Verdict: Unknown, Evidence: "only root can see it", Remedy: "run it again with sudo"})
	}
	return c.finding(c.look(ctx, x))
}

// finding puts the check's name on what it found, on one line.
func (c check) finding(f Finding) Finding {
	f.ID, f.Title, f.Question = c.id, c.title, c.question
	f.Evidence = oneLine(f.Evidence)
	return f
}

// maxEvidence bounds what hostile output may carry into a report, in bytes.
const maxEvidence = 600

func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
	if len(s) > maxEvidence {
		s = s[:maxEvidence] + "…"
	}
	return s
}

// readConfig takes the agent's configuration, where the agent is installed.
func (x *exam) readConfig(context.Context) {
	data, err := x.read(document.ConfigFile)
	if err != nil {
		return
	}
	config, err := document.DecodeConfig(data)
	if err != nil {
		return
	}
	x.config = &config
	if x.User == "" {
		x.User = config.Host.User
	}
}

// user is the console user. Where nobody is logged in yet, it will be whoever came
// in to look: a fresh Mac has one account.
func (x *exam) user(ctx context.Context) string {
	if x.User == "" {
		if owner, err := x.Mac.Session.Owner(ctx); err == nil && !session.Nobody(owner) {
			x.User = owner
		}
	}
	if x.User == "" && x.Invoker != "root" {
		x.User = x.Invoker
	}
	return x.User
}

func (x *exam) output(ctx context.Context, path string, args ...string) (string, error) {
	return x.Commands.Output(ctx, path, args...)
}

func (x *exam) missing(ctx context.Context, path string) bool {
	_, err := x.Mac.Files.Stat(ctx, path)
	return errors.Is(err, fs.ErrNotExist)
}

func well(format string, args ...any) Finding {
	return Finding{Verdict: Well, Evidence: fmt.Sprintf(format, args...)}
}

func problem(evidence, consequence, remedy string) Finding {
	return Finding{Verdict: Problem, Evidence: evidence, Consequence: consequence, Remedy: remedy}
}

func warning(evidence, consequence, remedy string) Finding {
	return Finding{Verdict: Warning, Evidence: evidence, Consequence: consequence, Remedy: remedy}
}

func unknown(format string, args ...any) Finding {
	return Finding{Verdict: Unknown, Evidence: fmt.Sprintf(format, args...)}
}

func none(why string) Finding { return Finding{Verdict: NotApplicable, Evidence: why} }

// unseen is a look that failed.
func unseen(err error) Finding { return unknown("could not look: %v", err) }
