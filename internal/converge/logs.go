package converge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	logRotation      = "/etc/newsyslog.d/macfleet.conf"
	logRotationStage = document.StateDir + "/newsyslog.conf"
	// keptLogs of logSize each, in KiB, are at most 120 MB in all.
	keptLogs = 5
	logSize  = 10 << 10
)

// rotation is a file for newsyslog: path, owner, mode, count, size in KiB, when
// (any time), and flags. N: nobody is told, for the processes look themselves
// (FollowErrorLog). The files are not compressed: until a process has looked, it
// writes to the one that was renamed. The console user may read both, as whom
// `macfleet machine logs` does.
func (x logs) rotation() step.File {
	var text strings.Builder
	text.WriteString("# Written by macfleet; changes are overwritten.\n")
	for _, l := range []struct{ path, owner string }{
		{launchd.AgentErrorLog, x.Desired.Host.User + ":" + step.Staff},
		{launchd.HostdErrorLog, step.Root + ":" + step.Staff},
	} {
		fmt.Fprintf(&text, "%s\t%s\t640\t%d\t%d\t*\tN\n", l.path, l.owner, keptLogs, logSize)
	}
	return step.File{Path: logRotation, Data: []byte(text.String()), Attr: step.RootAttr(0o644)}
}

// agentLog is the agent's error log: the user's, in a folder that is not. In a
// folder of the user's own, links could have root rename or give away any file when
// it rotates.
func (x logs) agentLog() step.File {
	return step.File{Path: launchd.AgentErrorLog, Data: nil, Attr: step.StaffAttr(x.Desired.Host.User, 0o640)}
}

// agentLogDiffers says what is wrong with the log but for what is in it.
func (x logs) agentLogDiffers(ctx context.Context) (string, error) {
	differs, err := x.AttrDiffers(ctx, x.agentLog())
	if err != nil {
		return "", fmt.Errorf("looking at %s: %w", launchd.AgentErrorLog, err)
	}
	return differs, nil
}

// logsDiffer says what is wrong with the log and with how it is rotated.
func (x logs) logsDiffer(ctx context.Context) ([]string, error) {
	log, err := x.agentLogDiffers(ctx)
	if err != nil {
		return nil, err
	}
	all, err := x.Differing(ctx, x.rotation())
	if log != "" {
		all = slices.Insert(all, 0, log)
	}
	return all, err
}

// logs bounds what the agent and hostd write.
type logs struct{ *step.Env }

func (x logs) step() step.Step {
	return step.Step{
		Name: "logs",
		About: "Makes the agent's error log, `" + launchd.AgentErrorLog + "`, the console user's in a folder that only root may write to, and writes `" +
			logRotation + "`, so that macOS rotates it and hostd's (`" + launchd.HostdErrorLog + "`) at 10 MB and keeps five of each.",
		Undo:  "Remove `" + logRotation + "`.",
		Check: x.logsDiffer,
		Act: func(ctx context.Context) error {
			if differs, err := x.agentLogDiffers(ctx); err != nil || differs != "" {
				if err = errors.Join(err, step.Write(ctx, x.Mac.Files, x.agentLog())); err != nil {
					return err
				}
			}
			staged := x.rotation()
			staged.Path = logRotationStage
			if err := step.Write(ctx, x.Mac.Files, staged); err != nil {
				return err
			}
			refused := x.Mac.System.LogRotation(ctx, logRotationStage)
			if err := x.Mac.Files.Remove(logRotationStage); err != nil {
				return fmt.Errorf("removing %s: %w", logRotationStage, err)
			}
			if refused != nil {
				return step.Fail(document.Bug, "newsyslog refuses our settings, nothing was changed: %w", refused)
			}
			return step.Write(ctx, x.Mac.Files, x.rotation())
		},
		Prove: func(ctx context.Context) error {
			if differs, err := x.agentLogDiffers(ctx); err != nil || differs != "" {
				return errors.Join(err, fmt.Errorf("it did not take: %s", differs))
			}
			return x.Mac.System.LogRotation(ctx, logRotation)
		},
		TakeBack: func(context.Context) error { return x.Mac.Files.Remove(logRotation) },
	}
}

// followEvery is how soon a process notices that its log was renamed.
const followEvery = time.Minute

// FollowErrorLog keeps this process writing to its error log while newsyslog
// renames it, if its standard error is one of the logs that this package has
// rotated: launchd opens the file once, and without this a renamed one would grow
// for as long as the process lives. It returns with the context.
func FollowErrorLog(ctx context.Context) {
	for _, name := range []string{launchd.AgentErrorLog, launchd.HostdErrorLog} {
		if macos.StderrIs(name) {
			macos.FollowStderr(ctx, macos.WallClock{}, name, followEvery)
			return
		}
	}
}
