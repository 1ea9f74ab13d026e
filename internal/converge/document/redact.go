package document

import "log/slog"

const redacted = "[redacted]"

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
