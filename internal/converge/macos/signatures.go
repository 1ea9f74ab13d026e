package macos

import (
	"context"
	"errors"
	"fmt"
)

// codesign is the code signatures of this Mac, through the command of that name.
type codesign struct{}

var _ Signatures = codesign{}

const codesignCommand = "/usr/bin/codesign"

// SignatureError says that a signature is missing, is not that of the bytes, or is
// not the Team's.
type SignatureError struct {
	File string
	// Team is the one that has not signed it; empty: the signature is not valid at all.
	Team string
	Text string
}

func (e *SignatureError) Error() string {
	return fmt.Sprintf("the code signature of %s: %s", e.File, e.Text)
}

// Verify implements Signatures. A verdict of codesign is a *SignatureError; any
// other error means that there is no verdict.
func (codesign) Verify(ctx context.Context, file string) error {
	return codesignVerdict(ctx, file, "--verify", "--strict", file)
}

// VerifyBundle implements Signatures, with the errors of Verify.
func (codesign) VerifyBundle(ctx context.Context, dir, team string) error {
	if err := codesignVerdict(ctx, dir, "--verify", "--deep", "--strict", dir); err != nil || team == "" {
		return err
	}
	err := codesignVerdict(ctx, dir, "--verify", "--deep", "--strict", "-R", signedByTeam(team), dir)
	if refused, ok := errors.AsType[*SignatureError](err); ok {
		return &SignatureError{File: dir, Team: team, Text: refused.Text}
	}
	return err
}

// signedByTeam is a code requirement. A signature can name any team it likes; that it
// was made with a certificate which Apple gave to that one is what counts.
func signedByTeam(team string) string {
	return `=anchor apple generic and certificate leaf[subject.OU] = "` + team + `"`
}

// Sign implements Signatures.
func (codesign) Sign(ctx context.Context, file, identifier string) error {
	_, err := run(ctx, codesignCommand, "--force", "--sign", "-", "--identifier", identifier, file)
	return err
}

// codesignUsage is the exit code for a command line that codesign does not take.
const codesignUsage = 2

func codesignVerdict(ctx context.Context, file string, args ...string) error {
	_, err := run(ctx, codesignCommand, args...)
	var failed *commandError
	if errors.As(err, &failed) && failed.Code != codesignUsage {
		return &SignatureError{File: file, Text: failed.Text}
	}
	return err
}
