// Command manager is the provider: all controllers in one process. It reads its
// flags, proves its credentials, and puts the parts together; what they do is
// theirs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/macfleet/macfleet/internal/startup"
)

// version is set when a release is linked.
var version = "v0.1.0-dev"

// Exit codes.
const (
	exitFailure = 1
	// exitUsage: a flag or a credential is wrong, or the cluster is none to start in;
	// starting again will not help.
	exitUsage = 2
)

func main() {
	os.Exit(run(ctrl.SetupSignalHandler(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run is main with everything that a test replaces.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if command, is := oneOffOf(args); is {
		return command.execute(ctx, args[1:], stdout, stderr)
	}
	settings, err := parse(args, getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(stdout)
		return 0
	case err == nil && settings.showVersion:
		_, _ = fmt.Fprintln(stdout, version)
		return 0
	case err == nil:
		setLogger(settings.logFormat, stderr)
		err = serve(ctx, settings)
	}
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "manager:", err)
	return exitCode(err)
}

// exitCode tells what starting again may mend from what a person has to.
func exitCode(err error) int {
	if _, wrong := errors.AsType[*usageError](err); wrong {
		return exitUsage
	}
	if _, refused := errors.AsType[*startup.Refusal](err); refused {
		return exitUsage
	}
	return exitFailure
}

// usageError is a setting that cannot work.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func wrong(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func setLogger(format string, out io.Writer) {
	options := &slog.HandlerOptions{ReplaceAttr: withoutRepetition}
	var handler slog.Handler = slog.NewJSONHandler(out, options)
	if format == formatText {
		handler = slog.NewTextHandler(out, options)
	}
	logger := logr.FromSlogHandler(handler)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	otel.SetLogger(logger)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.WithName("tracing").Info("Spans were not sent", "error", err.Error())
	}))
}

// withoutRepetition leaves out what controller-runtime says twice in each line:
// the object is named under its kind already.
func withoutRepetition(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case "controllerGroup", "controllerKind", "name", "namespace", "reconcileID":
		return slog.Attr{}
	}
	return a
}
