package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/remote"
)

// logs are what is shown of a Mac's.
type logs struct {
	macVerb
	lines  int
	follow bool
}

func newMachineLogs() *cobra.Command {
	var l logs
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "What a Machine's Mac recorded: its last converge, and the agent's and hostd's logs",
		Long: "Reads by SSH, as `machine ssh` does, what the last converge on the Mac did, and the ends of the error logs\n" +
			"of the agent and of hostd. `kubectl logs` shows those of Pods.",
		Example: "  macfleet machine logs macfleet-builders-x7k2p-9qxlm\n  macfleet machine logs macfleet-builders-x7k2p-9qxlm --tail 200 --follow",
		Args:    oneName("say which Machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if l.lines < 0 {
				return usageError{fmt.Errorf("--tail %d is no number of lines", l.lines)}
			}
			return l.show(cmd, args[0])
		},
	}
	l.add(cmd)
	cmd.Flags().IntVar(&l.lines, "tail", 20, "how many lines of each log")
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "go on with what is logged from now, until Ctrl-C")
	return cmd
}

func (l *logs) show(cmd *cobra.Command, name string) error {
	ctx := cmd.Context()
	session, err := l.dial(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	report, err := readReport(ctx, session)
	switch {
	case err != nil:
		if gone := l.agentIsThere(ctx, session); gone != nil {
			return gone
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "macfleet: not shown: the last converge: %s\n", oneLine(err))
	default:
		if err := writeReport(cmd.OutOrStdout(), screenOf(cmd), report); err != nil {
			return err
		}
	}
	err = ended(session.Interact(ctx, l.tail(), cleanedConsole(cmd)))
	if l.follow && ctx.Err() != nil {
		return nil // ended by hand
	}
	return err
}

// tail shows the ends of both logs, each under its name.
func (l *logs) tail() string {
	command := fmt.Sprintf("tail -n %d", l.lines)
	if l.follow {
		command += " -F"
	}
	return command + " " + launchd.AgentErrorLog + " " + launchd.HostdErrorLog
}

// readReport reads what the Mac recorded of its last converge.
func readReport(ctx context.Context, session *remote.Session) (document.Report, error) {
	var text, errs bytes.Buffer
	code, err := session.Interact(ctx, "sudo -n "+document.CurrentAgent+" report", remote.Console{In: strings.NewReader(""), Out: &text, Err: &errs})
	if err != nil {
		return document.Report{}, err
	}
	if code != 0 {
		return document.Report{}, errors.New(strings.TrimSpace(errs.String()))
	}
	return document.DecodeReport(text.Bytes())
}
