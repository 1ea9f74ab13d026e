package server

import (
	"context"
	"log/slog"
	"runtime"
	"strings"

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

// LibraryLog is a handler for what libraries say to nobody's log in particular. What those of
// streams say is for debugging, too, but for what would have been a crash: a client has a part
// in the text, and could fill a disk with it. Nothing is said at length.
func LibraryLog(to slog.Handler) slog.Handler { return libraryLog{to} }

type libraryLog struct{ slog.Handler }

// mostSaid are the bytes of a message, or of one of its values.
const mostSaid = 1 << 10

// Handle lowers a record, and shortens it.
func (l libraryLog) Handle(ctx context.Context, r slog.Record) error {
	level := r.Level
	if ofStreams(r.PC) {
		level = min(level, slog.LevelDebug)
		if !l.Enabled(ctx, level) {
			return nil
		}
	}
	short := slog.NewRecord(r.Time, level, shorten(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if text := a.Value.String(); len(text) > mostSaid {
			a.Value = slog.StringValue(shorten(text))
		}
		short.AddAttrs(a)
		return true
	})
	return l.Handler.Handle(ctx, short)
}

// WithAttrs is the same.
func (l libraryLog) WithAttrs(list []slog.Attr) slog.Handler {
	return libraryLog{l.Handler.WithAttrs(list)}
}

// WithGroup is as well.
func (l libraryLog) WithGroup(name string) slog.Handler { return libraryLog{l.Handler.WithGroup(name)} }

func shorten(text string) string {
	if len(text) <= mostSaid {
		return text
	}
	return strings.ToValidUTF8(text[:mostSaid], "") + "…"
}

// ofStreams reports whether it is a library of streams that speaks.
func ofStreams(pc uintptr) bool {
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	for _, library := range []string{"k8s.io/streaming/", "k8s.io/cri-streaming/"} {
		if strings.HasPrefix(frame.Function, library) {
			return !strings.Contains(frame.Function, "HandleCrash")
		}
	}
	return false
}
