package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// oneOff is a command that does one thing and ends. The chart's hooks run them.
type oneOff struct {
	name, verb string
	// about is what it does, as a sentence.
	about string
	run   func(ctx context.Context, to connection, stdout io.Writer) error
}

func oneOffs() []oneOff {
	return []oneOff{
		{"crds", "apply", "applies this build's CRDs where the cluster has older ones, and does nothing else.", applyCRDs},
		{"uninstall", "check", "waits until nothing is left that a manager must look after.", checkUninstall},
	}
}

// oneOffOf is the command of this name, if there is one.
func oneOffOf(args []string) (oneOff, bool) {
	for _, o := range oneOffs() {
		if len(args) > 0 && args[0] == o.name {
			return o, true
		}
	}
	return oneOff{}, false
}

// execute runs the command with what follows its name, and returns the exit code.
func (o oneOff) execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	to, timeout, err := o.parse(args, stdout)
	if err == nil {
		err = o.within(ctx, timeout, to, stdout)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "manager %s: %s\n", o.name, err)
	return exitCode(err)
}

// within runs the command for no longer than a time; 0: as long as it takes.
func (o oneOff) within(ctx context.Context, timeout time.Duration, to connection, stdout io.Writer) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return o.run(ctx, to, stdout)
}

func (o oneOff) flags(s *settings, timeout *time.Duration) *flag.FlagSet {
	f := flag.NewFlagSet("manager "+o.name+" "+o.verb, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "path of a kubeconfig; default: KUBECONFIG, or the cluster the command runs in")
	f.DurationVar(timeout, "timeout", 0, "the command ends after so long, with what is missing; 0: as long as it takes")
	return f
}

func (o oneOff) parse(args []string, stdout io.Writer) (connection, time.Duration, error) {
	var s settings
	var timeout time.Duration
	f := o.flags(&s, &timeout)
	if len(args) == 0 || args[0] != o.verb {
		return connection{}, 0, wrong("give %q: manager %s %s [--kubeconfig=<file>] [--timeout=<time>]", o.verb, o.name, o.verb)
	}
	if err := f.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stdout)
		f.Usage()
		return connection{}, 0, err
	} else if err != nil {
		return connection{}, 0, wrong("%w", err)
	}
	if f.NArg() > 0 {
		return connection{}, 0, wrong("unexpected argument %q", f.Arg(0))
	}
	to, err := connect(s)
	return to, timeout, err
}
