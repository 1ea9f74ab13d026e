package converge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"howett.net/plist"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// owed is a debt that outlives a run that was cut off: something the agent reads
// at its start was changed, and the agent has not been proved since.
type owed string

const (
	owedNothing owed = ""
	owedRestart owed = "restart"
	// owedReload: the job's definition changed; a restart would run the old one.
	owedReload owed = "reload"

	owedFile = document.StateDir + "/restart-owed"
)

// owe records the debt before what makes it is done. A reload covers a restart.
func (t *target) owe(ctx context.Context, debt owed) error {
	if now, err := t.debt(); err != nil || now == debt || now == owedReload {
		return err
	}
	attr := macos.Attr{Mode: 0o600, Owner: root, Group: wheel}
	return write(ctx, t.Mac.Files, file{owedFile, []byte(debt), attr})
}

func (t *target) debt() (owed, error) {
	data, err := read(t.Mac.Files, owedFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return owedNothing, nil
	case err != nil:
		return owedNothing, fmt.Errorf("reading what is owed: %w", err)
	case owed(data) == owedRestart:
		return owedRestart, nil
	}
	// Reloading is right whatever else may be written there.
	return owedReload, nil
}

// job is the agent's launchd job. Keys are those of launchd.plist(5). All that
// varies between documents is in the agent's configuration, so that the plist
// changes with the user only: launchd and Background Task Management see one
// registration an install.
type job struct {
	Label                string
	ProgramArguments     []string
	UserName             string
	RunAtLoad            bool
	KeepAlive            bool
	ThrottleInterval     int // seconds
	ExitTimeOut          int // seconds
	ProcessType          string
	AbandonProcessGroup  bool
	StandardErrorPath    string
	EnvironmentVariables map[string]string
}

// exitTimeOut is what the agent gets to stop, in seconds, before launchd kills
// it.
const exitTimeOut = 30

func agentJob(user string) ([]byte, error) {
	home := path.Join("/Users", user)
	data, err := plist.MarshalIndent(job{
		Label:            document.AgentLabel,
		ProgramArguments: []string{document.CurrentAgent, "run"},
		UserName:         user,
		RunAtLoad:        true,
		KeepAlive:        true,
		ThrottleInterval: 10, // launchd's default, named so that it is no surprise
		ExitTimeOut:      exitTimeOut,
		// Anything else is throttled as background work, and the guests with it.
		ProcessType: "Interactive",
		// Guests outlive the agent.
		AbandonProcessGroup: true,
		StandardErrorPath:   path.Join(document.LogDir, "tart-kubelet.err.log"),
		EnvironmentVariables: map[string]string{
			"HOME": home,
			"PATH": "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		},
	}, plist.XMLFormat, "\t")
	if err != nil {
		return nil, fmt.Errorf("encoding the launchd job: %w", err)
	}
	return append(data, '\n'), nil
}

func (t *target) plistFile() (file, error) {
	data, err := agentJob(t.desired.Host.User)
	// launchd refuses a plist that others may write.
	return file{document.AgentPlist, data, macos.Attr{Mode: 0o644, Owner: root, Group: wheel}}, err
}

// launchd makes the wanted agent run, and proves it by asking the agent.
func (t *target) launchd() step {
	// before is the process that ran before the act, which the proof must not
	// mistake for the new one.
	before := 0
	return step{
		name: "launchd",
		check: func(ctx context.Context) ([]string, error) {
			s, err := t.jobState(ctx)
			before = s.job.PID
			return s.differs(), err
		},
		act: t.restartAgent,
		prove: func(ctx context.Context) error {
			if err := t.proveAgent(ctx, before); err != nil {
				return err
			}
			return t.noteRestart(ctx)
		},
	}
}

// jobState is what decides how the agent is restarted.
type jobState struct {
	plistSame bool
	loaded    bool
	owed      owed
	// wished: a restart is wished for that was not made yet.
	wished bool
	job    macos.Job
	// unhealthy says what is wrong with the agent's answer; nil is a proof.
	unhealthy error
}

func (t *target) jobState(ctx context.Context) (jobState, error) {
	var s jobState
	wanted, err := t.plistFile()
	if err != nil {
		return s, err
	}
	differs, err := t.differs(ctx, wanted)
	if err != nil {
		return s, fmt.Errorf("looking at %s: %w", wanted.path, err)
	}
	s.plistSame = differs == ""
	if s.owed, err = t.debt(); err != nil {
		return s, err
	}
	if s.wished, err = t.restartWished(); err != nil {
		return s, err
	}
	if s.job, s.loaded, err = t.printJob(ctx); err != nil || !s.loaded {
		return s, err
	}
	s.unhealthy = t.healthy(ctx, s.job)
	return s, nil
}

func (t *target) printJob(ctx context.Context) (macos.Job, bool, error) {
	j, err := t.Mac.Launchd.Print(ctx, document.AgentLabel)
	var refused *macos.LaunchdError
	if errors.As(err, &refused) && refused.Absent() {
		return macos.Job{}, false, nil
	}
	return j, err == nil, err
}

func (s jobState) differs() []string {
	var all []string
	if !s.plistSame {
		all = append(all, document.AgentPlist+" differs")
	}
	if !s.loaded {
		all = append(all, "the agent is not loaded")
	}
	if s.owed != owedNothing {
		all = append(all, "the agent is owed a "+string(s.owed))
	}
	if s.wished {
		all = append(all, "a restart of the agent is wished for")
	}
	if s.unhealthy != nil {
		all = append(all, s.unhealthy.Error())
	}
	return all
}

// move is a way to get the wanted agent running.
type move string

const (
	// kick restarts the loaded job.
	kick move = "kick"
	// load loads a job launchd does not know.
	load move = "load"
	// reload replaces the definition of a job. It costs a registration with
	// Background Task Management, which stops restarting jobs that register too
	// often: for a changed definition only.
	reload move = "reload"
)

// decide picks the gentlest move that makes launchd run the wanted definition.
func (s jobState) decide() move {
	switch {
	case !s.plistSame, s.owed == owedReload:
		return reload
	case !s.loaded:
		return load
	}
	return kick
}

func (t *target) restartAgent(ctx context.Context) error {
	s, err := t.jobState(ctx)
	if err != nil {
		return err
	}
	switch s.decide() {
	case reload:
		return t.reload(ctx)
	case load:
		return t.load(ctx)
	default:
		return t.kick(ctx)
	}
}

func (t *target) writePlist(ctx context.Context) error {
	f, err := t.plistFile()
	if err != nil {
		return err
	}
	if err := t.owe(ctx, owedReload); err != nil {
		return err
	}
	return t.Mac.Files.Replace(ctx, f.path, macos.Content{
		Data: bytes.NewReader(f.data), Attr: f.attr,
		// The folder is watched: half a plist must not appear in it.
		Stage: document.StateDir,
	})
}
