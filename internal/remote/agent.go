package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
)

const (
	// convergeTimeout covers the slowest run: a label that will not go, a
	// throttled start and the proof.
	convergeTimeout = 10 * time.Minute
	// leaveTimeout covers an agent that has to be killed.
	leaveTimeout = 2 * time.Minute
	// maxLoginNoise is what a login shell may print before the report.
	maxLoginNoise = 64 << 10
)

// Converge makes the Mac what the document asks for, by the build of that
// SHA-256: the installed one when the Mac is known to have it, else the staged
// one. A run that fails is *Failed with its report; one without a report is
// *NoReport.
func (s *Session) Converge(ctx context.Context, sha256 string, d document.Desired) (document.Report, error) {
	if !document.IsSHA256(sha256) {
		return document.Report{}, fmt.Errorf("converging: %q is not a build", sha256)
	}
	if s.installed == sha256 {
		return s.ConvergeInstalled(ctx, d)
	}
	// Relative to the home folder, where every execution starts.
	return s.converge(ctx, document.StagingDir+"/"+sha256, d)
}

// ConvergeInstalled does the same by the installed build, without having looked
// which one it is: one execution for a Mac that is converged already.
func (s *Session) ConvergeInstalled(ctx context.Context, d document.Desired) (document.Report, error) {
	return s.converge(ctx, document.CurrentAgent, d)
}

func (s *Session) converge(ctx context.Context, program string, d document.Desired) (document.Report, error) {
	data, err := document.EncodeDesired(d)
	if err != nil {
		return document.Report{}, fmt.Errorf("converging: %w", err)
	}
	r, err := s.agent(ctx, program, document.VerbConverge, bytes.NewReader(data), convergeTimeout)
	if err == nil {
		s.installed = d.Agent.SHA256
	}
	return r, err
}

// Leave stops the agent and takes its credentials away.
func (s *Session) Leave(ctx context.Context) (document.Report, error) {
	return s.agent(ctx, document.CurrentAgent, document.VerbLeave, nil, leaveTimeout)
}

// agent runs a verb of the agent as root and reads its report.
func (s *Session) agent(
	ctx context.Context, program, verb string, stdin io.Reader, timeout time.Duration,
) (document.Report, error) {
	r, err := s.exec(ctx, command{
		during: verb, line: "sudo -n " + program + " " + verb, stdin: stdin,
		limit: document.MaxSize + maxLoginNoise, timeout: timeout,
	})
	if err != nil {
		return document.Report{}, err
	}
	return readReport(verb, r)
}

// readReport takes the last line for the report, and the exit code for its
// class; the two must agree.
func readReport(verb string, r result) (document.Report, error) {
	text := strings.TrimSpace(string(r.stdout))
	line := text[strings.LastIndexByte(text, '\n')+1:]
	report, err := document.DecodeReport([]byte(line))
	switch {
	case err != nil && r.exit == 0:
		return document.Report{}, &BadAnswer{During: verb, Reason: "it does not end in a report"}
	case err != nil:
		return document.Report{}, &NoReport{Verb: verb, Reason: why(r), Exit: r.exit}
	case report.Verb != verb, report.Exit != r.exit:
		return document.Report{}, &BadAnswer{During: verb, Reason: "report and exit code do not agree"}
	}
	switch class, failed := document.ClassOfExit(r.exit); {
	case failed:
		return report, &Failed{Report: report, Class: class}
	case r.exit != document.ExitUnchanged && r.exit != document.ExitChanged:
		return report, &BadAnswer{During: verb, Reason: fmt.Sprintf("unknown exit code %d", r.exit)}
	}
	return report, nil
}

// why sorts the ends without a report. sudo exits 1 for all its own reasons, so
// that only its words, in the C locale or not, tell them apart.
func why(r result) NoReportReason {
	switch {
	case r.exit == document.ExitUsage:
		return UsageRefused
	case strings.Contains(r.stderr, "password is required"):
		return SudoRefused
	case strings.Contains(r.stderr, "command not found"), strings.Contains(r.stderr, "unable to execute"):
		return NotInstalled
	}
	return Died
}
