package document

import "log/slog"

const redacted = "[redacted]"

// Redacted returns a copy that may be shown: no token, no password.
func (d Desired) Redacted() Desired {
	if d.Secrets != nil {
		d.Secrets = &Secrets{ConsolePassword: redacted}
	}
	if d.Join == nil {
		return d
	}
	join := *d.Join
	join.Token = redacted
	d.Join = &join
	return d
}

// String hides the token.
func (j Join) String() string {
	return "join " + j.Server + " with permit " + j.Permit.ID + ", token " + redacted
}

// GoString hides the token.
func (j Join) GoString() string { return j.String() }

// LogValue hides the token.
func (j Join) LogValue() slog.Value { return slog.StringValue(j.String()) }

// LogValue hides the token.
func (d Desired) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("name", d.Host.Name),
		slog.Int64("epoch", d.Host.Epoch),
		slog.String("revision", Revision(d)),
		slog.Bool("join", d.Join != nil),
	)
}
