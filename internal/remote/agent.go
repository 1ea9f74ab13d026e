package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	// upgradeTimeout covers hashing, copying and signing a build.
	upgradeTimeout = 2 * time.Minute
	// maxLoginNoise is what a login shell may print before the report.
	maxLoginNoise = 64 << 10
)

// Converge makes the Mac what the document asks for, by the build of that
// SHA-256: the installed one when the Mac is known to have it, else the staged
// one. Where sudo runs the installed build only, that one first takes the staged
// build. A run that fails is *Failed with its report; one without a report is
// *NoReport.
func (s *Session) Converge(
	ctx context.Context, sha256 string, d document.Desired, signer *document.Signer,
) (document.Report, error) {
	if !document.IsSHA256(sha256) {
		return document.Report{}, fmt.Errorf("converging: %q is not a build", sha256)
	}
	switch {
	case s.installed == sha256:
		return s.ConvergeInstalled(ctx, d, signer)
	case s.root == rootByAgent:
		return s.convergeNext(ctx, sha256, d, signer)
	}
	// Relative to the home folder, where every execution starts.
	report, err := s.converge(ctx, document.StagingDir+"/"+sha256, d, signer)
	var silent *NoReport
	if errors.As(err, &silent) && silent.Reason == SudoRefused {
		return s.convergeNext(ctx, sha256, d, signer)
	}
	return report, err
}

// convergeNext has the installed build take the staged one, and runs that.
func (s *Session) convergeNext(
	ctx context.Context, sha256 string, d document.Desired, signer *document.Signer,
) (document.Report, error) {
	if report, err := s.upgrade(ctx, sha256, signer); err != nil {
		return report, err
	}
	return s.converge(ctx, document.NextAgent, d, signer)
}

// upgrade has the installed build put the staged one into its install dir. It stays the
// current one until the new one converges.
func (s *Session) upgrade(ctx context.Context, sha256 string, signer *document.Signer) (document.Report, error) {
	return s.instruct(ctx, call{program: document.CurrentAgent, verb: document.VerbUpgrade, timeout: upgradeTimeout},
		signer, func() ([]byte, error) { return signer.Upgrade(sha256) })
}

// ConvergeInstalled does the same by the installed build, without having looked
// which one it is: one execution for a Mac that is converged already.
func (s *Session) ConvergeInstalled(
	ctx context.Context, d document.Desired, signer *document.Signer,
) (document.Report, error) {
	return s.converge(ctx, document.CurrentAgent, d, signer)
}

// ConvergeStep runs one step of converge by the staged build of that SHA-256, on a
// Mac that is not part of a fleet. step is the name of a step.
func (s *Session) ConvergeStep(
	ctx context.Context, sha256, step string, d document.Desired,
) (document.Report, error) {
	if !document.IsSHA256(sha256) || strings.Trim(step, "abcdefghijklmnopqrstuvwxyz") != "" || step == "" {
		return document.Report{}, fmt.Errorf("converging: %q of %q is no step of a build", step, sha256)
	}
	data, err := document.EncodeDesired(d)
	if err != nil {
		return document.Report{}, fmt.Errorf("converging: %w", err)
	}
	return s.agent(ctx, call{
		program: document.StagingDir + "/" + sha256, verb: document.VerbConverge, flags: " --step " + step,
		stdin: data, timeout: convergeTimeout,
	})
}

// Plan has the installed build say what it would change, and changes nothing: one
// execution.
func (s *Session) Plan(ctx context.Context, d document.Desired) (document.Report, error) {
	data, err := document.EncodeDesired(d)
	if err != nil {
		return document.Report{}, fmt.Errorf("planning: %w", err)
	}
	return s.agent(ctx, call{
		program: document.CurrentAgent, verb: document.VerbConverge, flags: " --plan", stdin: data,
		timeout: convergeTimeout,
	})
}

func (s *Session) converge(
	ctx context.Context, program string, d document.Desired, signer *document.Signer,
) (document.Report, error) {
	r, err := s.instruct(ctx, call{program: program, verb: document.VerbConverge, flags: flagSigned, timeout: convergeTimeout},
		signer, func() ([]byte, error) { return signer.Converge(d) })
	if err == nil {
		// What ran may have narrowed what sudo allows.
		s.installed, s.root = d.Agent.SHA256, rootUnknown
	}
	return r, err
}

// Leave stops the agent and takes its credentials away.
func (s *Session) Leave(ctx context.Context, signer *document.Signer) (document.Report, error) {
	return s.instruct(ctx, call{program: document.CurrentAgent, verb: document.VerbLeave, flags: flagSigned, timeout: leaveTimeout},
		signer, signer.Leave)
}

// Uninstall takes back what converge did to the Mac.
func (s *Session) Uninstall(ctx context.Context, signer *document.Signer) (document.Report, error) {
	return s.instruct(ctx, call{program: document.CurrentAgent, verb: document.VerbUninstall, flags: flagSigned, timeout: convergeTimeout},
		signer, signer.Uninstall)
}

// flagSigned has a verb read a signed instruction.
const flagSigned = " --signed"

// instruct runs a verb on a signed instruction. Where the Mac took one with a higher
// counter before, since a clock went back, it is signed above that one, once.
func (s *Session) instruct(
	ctx context.Context, c call, signer *document.Signer, sign func() ([]byte, error),
) (report document.Report, err error) {
	for range 2 {
		if c.stdin, err = sign(); err != nil {
			return document.Report{}, fmt.Errorf("signing the %s: %w", c.verb, err)
		}
		report, err = s.agent(ctx, c)
		if _, failed := errors.AsType[*Failed](err); !failed || report.Counter == 0 || !signer.Follow(report.Counter) {
			break
		}
	}
	return report, err
}

// call is a run of a verb of the agent as root.
type call struct {
	program, verb string
	// flags are constants, each with a space before it.
	flags   string
	stdin   []byte
	timeout time.Duration
}

// agent runs a verb and reads its report.
func (s *Session) agent(ctx context.Context, c call) (document.Report, error) {
	r, err := s.exec(ctx, command{
		during: c.verb, line: "sudo -n " + c.program + " " + c.verb + c.flags, stdin: bytes.NewReader(c.stdin),
		limit: document.MaxSize + maxLoginNoise, timeout: c.timeout,
	})
	if exit, reboots := cutByReboot(c.verb, r, err); reboots {
		r.exit, err = exit, nil
	}
	if err != nil {
		return document.Report{}, err
	}
	return readReport(c.verb, r)
}

// cutByReboot recognises a run that its own reboot has cut off: its report came whole
// and says so, and then the connection went, or a signal ended the run. macOS ends
// both while the command that reboots has not returned yet. exit is what the run was
// to end with.
func cutByReboot(verb string, r result, err error) (exit int, is bool) {
	_, lost := errors.AsType[*Lost](err)
	killed := err == nil && (r.exit == signalled || r.exit > maxExit)
	if !lost && !killed {
		return 0, false
	}
	report, err := lastReport(r.stdout)
	return report.Exit, err == nil && report.Verb == verb && report.Rebooting
}

// lastReport takes the last line for the report: a login shell may have printed others.
func lastReport(stdout []byte) (document.Report, error) {
	text := bytes.TrimSpace(stdout)
	return document.DecodeReport(text[bytes.LastIndexByte(text, '\n')+1:])
}

// readReport takes the report, and the exit code for its class; the two must agree.
func readReport(verb string, r result) (document.Report, error) {
	report, err := lastReport(r.stdout)
	switch {
	case err != nil && r.exit == 0:
		return document.Report{}, &badAnswer{During: verb, Reason: "it does not end in a report"}
	case err != nil:
		return document.Report{}, &NoReport{Verb: verb, Reason: noReportReason(r), Exit: r.exit}
	case report.Verb != verb, report.Exit != r.exit:
		return document.Report{}, &badAnswer{During: verb, Reason: "report and exit code do not agree"}
	}
	switch class, failed := document.ClassOfExit(r.exit); {
	case failed:
		return report, &Failed{Report: report, Class: class}
	case r.exit != document.ExitUnchanged && r.exit != document.ExitChanged:
		return report, &badAnswer{During: verb, Reason: fmt.Sprintf("unknown exit code %d", r.exit)}
	}
	return report, nil
}

// noReportReason sorts the ends without a report. sudo exits 1 for all its own reasons, so
// that only its words, in the C locale or not, tell them apart.
func noReportReason(r result) NoReportReason {
	switch {
	case r.exit == document.ExitUsage:
		return UsageRefused
	case strings.Contains(r.stderr, "password is required"), strings.Contains(r.stderr, "not allowed to execute"):
		return SudoRefused
	case strings.Contains(r.stderr, "command not found"), strings.Contains(r.stderr, "unable to execute"):
		return NotInstalled
	}
	return Died
}
