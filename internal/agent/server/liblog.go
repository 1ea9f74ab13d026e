package server

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// clientsFaults has what libraries say of the streams of a client logged for debugging only:
// to them an upload that is cut off in the middle is an error of the server.
func clientsFaults(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(forDebugging{log.Handler()}))
}

// forDebugging is a handler of which all records are for debugging.
type forDebugging struct{ slog.Handler }

// Enabled is so where debugging is.
func (d forDebugging) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle lowers a record.
func (d forDebugging) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

// WithAttrs is of the same level.
func (d forDebugging) WithAttrs(list []slog.Attr) slog.Handler {
	return forDebugging{d.Handler.WithAttrs(list)}
}

// WithGroup is as well.
func (d forDebugging) WithGroup(name string) slog.Handler {
	return forDebugging{d.Handler.WithGroup(name)}
}
