package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
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
// writes to the one that was renamed.
func (t *target) rotation() file {
	var text strings.Builder
	text.WriteString("# Written by macfleet; changes are overwritten.\n")
	for _, l := range []struct{ path, owner string }{
		{agentErrorLog, t.desired.Host.User + ":" + staff},
		{hostdErrorLog, root + ":" + wheel},
	} {
		fmt.Fprintf(&text, "%s\t%s\t640\t%d\t%d\t*\tN\n", l.path, l.owner, keptLogs, logSize)
	}
	return file{logRotation, []byte(text.String()), macos.Attr{Mode: 0o644, Owner: root, Group: wheel}}
}

// agentLog is the agent's error log: the user's, in a folder that is not. In a
// folder of the user's own, links could have root rename or give away any file when
// it rotates.
func (t *target) agentLog() file {
	return file{agentErrorLog, nil, macos.Attr{Mode: 0o640, Owner: t.desired.Host.User, Group: staff}}
}

// agentLogDiffers says what is wrong with the log but for what is in it.
func (t *target) agentLogDiffers(ctx context.Context) ([]string, error) {
	want := t.agentLog()
	info, err := t.Mac.Files.Stat(ctx, want.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []string{want.path + " is missing"}, nil
	case err != nil:
		return nil, fmt.Errorf("looking at %s: %w", want.path, err)
	case info.Attr != want.attr || info.Dir || info.Target != "":
		return []string{fmt.Sprintf("%s is %s, not %s", want.path, info.Attr, want.attr)}, nil
	}
	return nil, nil
}

// logsDiffer says what is wrong with the log and with how it is rotated.
func (t *target) logsDiffer(ctx context.Context) ([]string, error) {
	log, err := t.agentLogDiffers(ctx)
	if err != nil {
		return nil, err
	}
	rotation, err := t.differing(ctx, t.rotation())
	return append(log, rotation...), err
}

// logs bounds what the agent and hostd write.
func (t *target) logs() step {
	return step{
		name: "logs",
		about: "Makes the agent's error log, `" + agentErrorLog + "`, the console user's in a folder that only root may write to, and writes `" +
			logRotation + "`, so that macOS rotates it and hostd's (`" + hostdErrorLog + "`) at 10 MB and keeps five of each.",
		undo:  "Remove `" + logRotation + "`.",
		check: t.logsDiffer,
		act: func(ctx context.Context) error {
			if differs, err := t.agentLogDiffers(ctx); err != nil || len(differs) > 0 {
				if err = errors.Join(err, write(ctx, t.Mac.Files, t.agentLog())); err != nil {
					return err
				}
			}
			staged := t.rotation()
			staged.path = logRotationStage
			if err := write(ctx, t.Mac.Files, staged); err != nil {
				return err
			}
			refused := t.Mac.System.LogRotation(ctx, logRotationStage)
			if err := t.Mac.Files.Remove(logRotationStage); err != nil {
				return fmt.Errorf("removing %s: %w", logRotationStage, err)
			}
			if refused != nil {
				return fail(document.Bug, "newsyslog refuses our settings, nothing was changed: %w", refused)
			}
			return write(ctx, t.Mac.Files, t.rotation())
		},
		prove: func(ctx context.Context) error {
			if differs, err := t.agentLogDiffers(ctx); err != nil || len(differs) > 0 {
				return errors.Join(err, fmt.Errorf("it did not take: %s", strings.Join(differs, "; ")))
			}
			return t.Mac.System.LogRotation(ctx, logRotation)
		},
		takeBack: func(context.Context) error { return t.Mac.Files.Remove(logRotation) },
	}
}

// followEvery is how soon a process notices that its log was renamed.
const followEvery = time.Minute

// FollowErrorLog keeps this process writing to its error log while newsyslog
// renames it, if its standard error is one of the logs that this package has
// rotated: launchd opens the file once, and without this a renamed one would grow
// for as long as the process lives. It returns with the context.
func FollowErrorLog(ctx context.Context) {
	for _, name := range []string{agentErrorLog, hostdErrorLog} {
		if macos.StderrIs(name) {
			macos.FollowStderr(ctx, macos.WallClock{}, name, followEvery)
			return
		}
	}
}
