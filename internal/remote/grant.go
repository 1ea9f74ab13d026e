package remote

import (
	"context"
	_ "embed"
	"strings"
)

//go:embed snippets/grant.sh
var grantSnippet string

//go:embed snippets/grant-root.sh
var grantRootSnippet string

const maxWords = 8 << 10

// Secret is a password that does not print itself.
type Secret interface{ Reveal() string }

// Grant lets the user become root without a password from now on. It spends
// exactly one verification of the password, whatever comes of it: record the
// attempt before, and do not repeat it. Skip it where Facts.Sudo holds. A
// refusal is *GrantRefused.
func (s *Session) Grant(ctx context.Context, password Secret) error {
	const during = "granting root"
	line := password.Reveal()
	if line == "" || strings.ContainsAny(line, "\n\r\x00") {
		return &GrantRefused{Outcome: NoPassword}
	}
	r, err := s.exec(ctx, command{
		during: during, line: shell(grantSnippet, "macfleet-grant", grantRootSnippet),
		stdin: strings.NewReader(line + "\n"), limit: maxWords, timeout: snippetTimeout,
	})
	if err != nil {
		return err
	}
	answer, found := word(r.stdout, "grant")
	if !found {
		return &badAnswer{During: during, Reason: "it does not say how it ended"}
	}
	switch outcome := GrantOutcome(answer); outcome {
	case "granted":
		s.root = rootByAnything
		return nil
	case PasswordRejected, AccountLocked, RuleOverridden, NoPassword, GrantFailed:
		return &GrantRefused{Outcome: outcome}
	}
	return &badAnswer{During: during, Reason: "it ended in an unknown way"}
}
