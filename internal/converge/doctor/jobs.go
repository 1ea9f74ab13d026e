package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	// backgroundItemsDir holds the database of background items, one file a version.
	backgroundItemsDir = "/private/var/db/com.apple.backgroundtaskmanagement"
	// largeItems is where the trouble begins: at 4 MB the daemon was seen killed at its
	// memory limit, over and over.
	largeItems = 1 << 20
	askTimeout = 3 * time.Second
)

func agentJob(ctx context.Context, x *exam) Finding {
	return x.job(ctx, document.AgentLabel, document.HealthSocket, nil)
}

func hostdJob(ctx context.Context, x *exam) Finding {
	request, err := json.Marshal(document.HostdRequest{Verb: document.HostdStatus})
	if err != nil {
		return unseen(err)
	}
	return x.job(ctx, document.HostdLabel, document.HostdSocket, append(request, '\n'))
}

// job looks at a job of ours and asks its process.
func (x *exam) job(ctx context.Context, label, socket string, request []byte) Finding {
	if x.config == nil {
		return none("the agent is not installed, or its configuration cannot be read")
	}
	job, loaded, err := x.printJob(ctx, label)
	bad := Finding{Verdict: Problem, Consequence: "this Mac does not work as a node", Remedy: "look at the logs in " + document.LogDir + ", then run converge again"}
	switch {
	case err != nil:
		return unseen(err)
	case !loaded:
		bad.Evidence = "launchd does not know " + label + x.disabled(ctx, label)
		return bad
	case job.Unknown():
		return unknown("launchd says of %s what nobody understands", label)
	case job.BadSignature():
		bad.Evidence = "the kernel killed it for its code signature; last exit: " + job.LastExit
		return bad
	case !job.Running():
		bad.Evidence = fmt.Sprintf("%s is %q, started %d times, last exit %q%s", label, job.State, job.Runs, job.LastExit, x.disabled(ctx, label))
		return bad
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if _, err := x.Mac.Sockets.Ask(ctx, socket, request); err != nil {
		bad.Evidence = fmt.Sprintf("process %d runs and does not answer: %v", job.PID, err)
		return bad
	}
	return well("process %d runs and answers, started %d times", job.PID, job.Runs)
}

func (x *exam) printJob(ctx context.Context, label string) (macos.Job, bool, error) {
	return launchd.Control{Mac: x.Mac}.Print(ctx, label)
}

func (x *exam) disabled(ctx context.Context, label string) string {
	if off, err := x.Mac.Launchd.Disabled(ctx, label); err == nil && off {
		return "; it is disabled: sudo launchctl enable system/" + label
	}
	return ""
}

func backgroundItems(ctx context.Context, x *exam) Finding {
	names, err := x.Mac.Files.List(backgroundItemsDir)
	if absent(err) {
		return none("there is no such database")
	}
	if err != nil {
		return unseenItems(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".btm") {
			continue
		}
		f, err := x.Mac.Files.Open(path.Join(backgroundItemsDir, name))
		if err != nil {
			return unseenItems(err)
		}
		_, err = readAll(f, largeItems)
		_ = f.Close()
		if err != nil {
			return problem(fmt.Sprintf("%s is larger than %d bytes", name, largeItems),
				"launch daemons may not be started at the next boot, or not again when they end", "with Full Disk Access move the file aside as root, without it run sudo sfltool resetbtm; then reboot; have fewer programs register themselves again and again")
		}
	}
	return well("small (%d files)", len(names))
}

// unseenItems: without Full Disk Access macOS shows the database to nobody, not even to root, and a
// login over SSH has it only where Remote Login was given it.
func unseenItems(err error) Finding {
	f := unseen(err)
	if errors.Is(err, fs.ErrPermission) {
		f.Remedy = "it takes Full Disk Access: try sudo sfltool dumpbtm, or let remote users have it in System Settings under General, Sharing, Remote Login, and run this again"
	}
	return f
}
