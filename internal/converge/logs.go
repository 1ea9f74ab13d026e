package converge

import (
	"context"
	"fmt"
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

// logs bounds what the agent and hostd write.
func (t *target) logs() step {
	return step{
		name:  "logs",
		about: "Writes `" + logRotation + "`, so that macOS rotates the logs in `" + document.LogDir + "` at 10 MB and keeps five of each.",
		undo:  "Remove `" + logRotation + "`.",
		check: func(ctx context.Context) ([]string, error) { return t.differing(ctx, t.rotation()) },
		act: func(ctx context.Context) error {
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
