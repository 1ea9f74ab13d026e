// Command release makes what people install from, into a folder and without a
// network: `release image` the manager's image, `release sandbox` the sandbox with all
// that it runs, `release dist` everything. `release push` brings the image of that
// folder, and `release push-chart` its chart, to a registry.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/hack/release/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one release under way.
type release struct {
	// root is the checkout, out where everything goes, work where programs are built.
	root, out, work string
	version         string
	revision        string
	made            time.Time
	// helm renders the chart.
	helm string
	say  func(format string, args ...any)
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	r := &release{say: func(format string, args ...any) { _, _ = fmt.Fprintf(stdout, format+"\n", args...) }}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.root, "root", ".", "the checkout")
	flags.StringVar(&r.out, "out", "dist", "where everything goes")
	flags.StringVar(&r.version, "version", "", "the release's version, such as v0.1.0")
	flags.StringVar(&r.helm, "helm", "bin/helm", "the helm that renders the chart")
	if len(args) == 0 {
		return fmt.Errorf("say what to do: image, sandbox, dist, push REPOSITORY or push-chart REPOSITORY")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if strings.HasPrefix(args[0], "push") {
		return r.push(ctx, args[0], flags.Args())
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(r.work) //nolint:errcheck // a folder of the system's temporary ones
	switch args[0] {
	case "image":
		_, err := r.image(ctx)
		return err
	case "sandbox":
		return r.sandboxAlone(ctx)
	case "dist":
		return r.dist(ctx)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func (r *release) push(ctx context.Context, command string, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes one repository, such as ghcr.io/macfleet/manager", command)
	}
	push := func() (string, error) { return image.Push(ctx, filepath.Join(r.out, imageDir), args[0]) }
	if command == "push-chart" {
		push = func() (string, error) { return r.pushChart(ctx, args[0]) }
	}
	reference, err := push()
	if err == nil {
		r.say("pushed %s", reference)
	}
	return err
}

// prepare finds out what is released.
func (r *release) prepare(ctx context.Context) (err error) {
	for _, path := range []*string{&r.root, &r.out, &r.helm} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if err := r.checkVersion(); err != nil {
		return err
	}
	if r.revision, err = r.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	if r.made, err = r.commitTime(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return fmt.Errorf("creating %s: %w", r.out, err)
	}
	r.work, err = os.MkdirTemp("", "macfleet-release-")
	return err
}

// commitTime is the time of everything in the release: the commit's, unless
// SOURCE_DATE_EPOCH says otherwise.
func (r *release) commitTime(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = r.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the commit's time: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("asking git for the commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
