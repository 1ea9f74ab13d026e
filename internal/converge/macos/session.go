package macos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// loginwindow is the session on the console of this Mac.
type loginwindow struct{}

var _ Session = loginwindow{}

const (
	consoleDevice    = "/dev/console"
	idCommand        = "/usr/bin/id"
	killallCommand   = "/usr/bin/killall"
	loginwindowLabel = "com.apple.loginwindow"
	loginwindowName  = "loginwindow"
)

// Owner implements Session.
func (loginwindow) Owner(ctx context.Context) (string, error) {
	out, err := run(ctx, statCommand, "-f", "%Su", consoleDevice)
	if err != nil {
		return "", fmt.Errorf("reading who owns the console: %w", err)
	}
	return firstLine(out), nil
}

// Aqua implements Session.
func (loginwindow) Aqua(ctx context.Context, user string) (bool, error) {
	out, err := run(ctx, idCommand, "-u", user)
	if err != nil {
		return false, fmt.Errorf("looking for user %s: %w", user, err)
	}
	uid, err := strconv.ParseUint(strings.TrimSpace(out), 10, 32)
	if err != nil {
		return false, fmt.Errorf("looking for user %s: id says %q", user, firstLine(out))
	}
	out, err = launchctl(ctx, "print", fmt.Sprintf("gui/%d", uid))
	if _, ok := errors.AsType[*LaunchdError](err); ok {
		// launchd has several codes for a domain that is not there (112, 113, 125).
		return false, nil
	}
	return err == nil && isAqua(out), err
}

// isAqua looks for the kind of the session among the domain's own fields.
func isAqua(text string) bool {
	depth := 0
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(line, "{"):
			depth++
		case line == "}":
			depth--
		case depth == 1 && line == "session = Aqua":
			return true
		}
	}
	return false
}

// RestartLoginwindow implements Session.
func (loginwindow) RestartLoginwindow(ctx context.Context) error {
	return restartLoginwindow(
		func(kill bool) error { return localLaunchd{}.Kickstart(ctx, loginwindowLabel, kill) },
		func() error {
			_, err := run(ctx, killallCommand, loginwindowName)
			return err
		},
	)
}

// restartLoginwindow kills loginwindow where launchd refuses to restart it: since macOS
// 14.4 kickstart -k is not permitted for critical processes of the system, and Apple
// recommends kill. launchd starts what was killed by itself, but not what never ran, as
// on a Mac without a display.
func restartLoginwindow(kickstart func(kill bool) error, killall func() error) error {
	refused := kickstart(true)
	if _, ok := errors.AsType[*LaunchdError](refused); !ok {
		return refused
	}
	killed := killall()
	if killed == nil {
		return nil
	}
	if !noneRuns(killed) {
		return fmt.Errorf("%w; %w", refused, killed)
	}
	if err := kickstart(false); err != nil {
		return fmt.Errorf("%w; %w; %w", refused, killed, err)
	}
	return nil
}

// noneRuns tells that killall found no process from one that it may not end: it exits
// with 1 for both.
func noneRuns(err error) bool {
	failed, ok := errors.AsType[*commandError](err)
	return ok && failed.Code == 1 && strings.Contains(failed.Complaint, "No matching processes")
}

// tartProcesses are the guests of this Mac: the processes of tart, whoever started
// them.
type tartProcesses struct{}

var _ Guests = tartProcesses{}

const pgrepCommand = "/usr/bin/pgrep"

// Running implements Guests.
func (tartProcesses) Running(ctx context.Context) (int, error) {
	out, err := run(ctx, pgrepCommand, "-f", "tart run ")
	var failed *commandError
	if errors.As(err, &failed) && failed.Code == 1 {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("counting guests: %w", err)
	}
	return len(strings.Fields(out)), nil
}
