package macos

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// localLaunchd is launchd of this Mac, through its command.
type localLaunchd struct{}

var _ Launchd = localLaunchd{}

const (
	launchctlCommand = "/bin/launchctl"
	systemDomain     = "system"
)

// Print implements Launchd.
func (localLaunchd) Print(ctx context.Context, label string) (Job, error) {
	out, err := launchctl(ctx, "print", systemDomain+"/"+label)
	if err != nil {
		return Job{}, err
	}
	return parseJob(out), nil
}

// Disabled implements Launchd.
func (localLaunchd) Disabled(ctx context.Context, label string) (bool, error) {
	out, err := launchctl(ctx, "print-disabled", systemDomain)
	if err != nil {
		return false, err
	}
	return parseDisabled(out, label), nil
}

// parseDisabled reads launchctl's list of overrides. It writes "disabled", and
// wrote "true" in older releases.
func parseDisabled(text, label string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		name, value, found := strings.Cut(strings.TrimSpace(line), " => ")
		if found && strings.Trim(name, `"`) == label {
			return value == "disabled" || value == "true"
		}
	}
	return false
}

// Enable implements Launchd.
func (localLaunchd) Enable(ctx context.Context, label string) error {
	_, err := launchctl(ctx, "enable", systemDomain+"/"+label)
	return err
}

// Disable implements Launchd.
func (localLaunchd) Disable(ctx context.Context, label string) error {
	_, err := launchctl(ctx, "disable", systemDomain+"/"+label)
	return err
}

// Bootstrap implements Launchd.
func (localLaunchd) Bootstrap(ctx context.Context, plist string) error {
	_, err := launchctl(ctx, "bootstrap", systemDomain, plist)
	return err
}

// Bootout implements Launchd.
func (localLaunchd) Bootout(ctx context.Context, label string) error {
	_, err := launchctl(ctx, "bootout", systemDomain+"/"+label)
	return err
}

// Kickstart implements Launchd.
func (localLaunchd) Kickstart(ctx context.Context, label string, kill bool) error {
	args := []string{"kickstart"}
	if kill {
		args = append(args, "-k")
	}
	_, err := launchctl(ctx, append(args, systemDomain+"/"+label)...)
	return err
}

func launchctl(ctx context.Context, args ...string) (string, error) {
	out, err := run(ctx, launchctlCommand, args...)
	if failed, ok := errors.AsType[*commandError](err); ok {
		return out, &LaunchdError{Verb: args[0], Code: failed.Code, Text: failed.Text}
	}
	return out, err
}

// parseJob reads what launchctl print says of a service. Only the service's own
// fields count, not those of the blocks inside it, which reuse their names.
func parseJob(text string) Job {
	var job Job
	depth := 0
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(line, "{"):
			depth++
		case line == "}":
			depth--
		case depth == 1:
			job.set(strings.Cut(line, " = "))
		}
	}
	return job
}

func (j *Job) set(key, value string, found bool) {
	if !found {
		return
	}
	switch key {
	case "state":
		j.State = value
	case "pid":
		j.PID, _ = strconv.Atoi(value)
	case "runs":
		j.Runs, _ = strconv.Atoi(value)
	case "last exit code", "last exit reason", "last terminating signal":
		// Never exited is no news. A signature that killed the process says more than
		// the signal it was killed with, whichever line comes first.
		if value != "(never exited)" && !j.BadSignature() {
			j.LastExit = firstLine(value)
		}
	}
}
