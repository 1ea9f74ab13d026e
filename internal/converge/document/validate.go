package document

import (
	"fmt"
	"regexp"
	"strings"
)

// FieldError names a field of a desired document that cannot be applied.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("desired document: %s %s", e.Field, e.Reason)
}

const (
	// MinMaxVMs and MaxMaxVMs bound Node.MaxVMs: Apple's licence allows two
	// macOS guests on a Mac.
	MinMaxVMs = 1
	// MaxMaxVMs is the licence's two.
	MaxMaxVMs = 2
	// maxName is the length of a DNS subdomain, RFC 1123.
	maxName = 253
)

var (
	nameShape = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	userShape = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,30}$`)
	hashShape = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// IsSHA256 reports whether s is a SHA-256 in lower-case hex.
func IsSHA256(s string) bool { return hashShape.MatchString(s) }

// Validate reports the first field that cannot be applied, as a *FieldError.
func (d Desired) Validate() error {
	for _, check := range []struct {
		ok     bool
		field  string
		reason string
	}{
		{len(d.Host.Name) <= maxName && nameShape.MatchString(d.Host.Name), "host.name", "is not a DNS subdomain"},
		{d.Host.ProviderID != "", "host.providerID", "is empty"},
		{d.Host.Epoch > 0, "host.epoch", "is not positive"},
		{userShape.MatchString(d.Host.User), "host.user", "is not a user name"},
		{d.Host.User != "root", "host.user", "is root: guests need a console session"},
		{IsSHA256(d.Agent.SHA256), "agent.sha256", "is not a SHA-256 in lower-case hex"},
		{len(d.Restart) <= maxName, "restart", "is too long"},
		{d.Node.MaxVMs >= MinMaxVMs && d.Node.MaxVMs <= MaxMaxVMs, "node.maxVMs", "is not 1 or 2"},
	} {
		if !check.ok {
			return &FieldError{Field: check.field, Reason: check.reason}
		}
	}
	if d.Join == nil {
		return nil
	}
	return d.Join.validate()
}

func (j *Join) validate() error {
	switch {
	case !strings.HasPrefix(j.Server, "https://"):
		return &FieldError{Field: "join.server", Reason: "is not an https URL"}
	case len(j.CA) == 0:
		return &FieldError{Field: "join.ca", Reason: "is empty"}
	case j.Token == "":
		return &FieldError{Field: "join.token", Reason: "is empty"}
	case j.Permit.ID == "":
		return &FieldError{Field: "join.permit.id", Reason: "is empty"}
	case j.Permit.NotAfter.IsZero():
		return &FieldError{Field: "join.permit.notAfter", Reason: "is not set"}
	}
	return nil
}
