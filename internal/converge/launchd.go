package converge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// owed is a debt that outlives a run that was cut off: something a job reads at
// its start was changed, and the job has not been proved since.
type owed string

const (
	owedNothing owed = ""
	owedRestart owed = "restart"
	// owedReload: the job's definition changed; a restart would run the old one.
	owedReload owed = "reload"
)

// owe records the debt before what makes it is done. A reload covers a restart.
func (t *target) owe(ctx context.Context, j job, debt owed) error {
	if now, err := t.debt(j); err != nil || now == debt || now == owedReload {
		return err
	}
	return write(ctx, t.Mac.Files, file{j.owed, []byte(debt), rootFile})
}

// oweAll owes a restart to every job.
func (t *target) oweAll(ctx context.Context) error {
	for _, j := range jobs() {
		if err := t.owe(ctx, j, owedRestart); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) debt(j job) (owed, error) {
	data, err := read(t.Mac.Files, j.owed)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return owedNothing, nil
	case err != nil:
		return owedNothing, fmt.Errorf("reading what is owed to %s: %w", j.name, err)
	case owed(data) == owedRestart:
		return owedRestart, nil
	}
	// Reloading is right whatever else may be written there.
	return owedReload, nil
}

// identity is what the processes should say of themselves.
type identity struct{ build, configHash string }

func (t *target) wantedIdentity() (identity, error) {
	config, err := document.EncodeConfig(t.desired)
	return identity{t.desired.Agent.SHA256, document.Hash(config)}, err
}

// launchd makes both jobs run the wanted build with the wanted configuration, and
// proves it by asking them.
func (t *target) launchd() step {
	s := step{
		name: "launchd",
		about: "Loads two launchd jobs, " + document.HostdLabel + " (root) and " + document.AgentLabel +
			" (the console user), and restarts them when what they read at their start changed. A restart counts once a new " +
			"process stays and itself says that it is the wanted build with the wanted configuration; a build that does not " +
			"is replaced by the last one that did.",
		undo: "`launchctl bootout system/LABEL` for both, then remove their files from /Library/LaunchDaemons.",
		check: func(ctx context.Context) ([]string, error) {
			want, err := t.wantedIdentity()
			if err != nil {
				return nil, err
			}
			var all []string
			for _, j := range jobs() {
				s, err := t.jobState(ctx, j, want)
				if err != nil {
					return nil, err
				}
				all = append(all, s.differs(j)...)
			}
			if t.takesOver() {
				_, loaded, err := t.printJob(ctx, formerJob(formerAgentLabel))
				if err != nil {
					return nil, err
				}
				if loaded {
					all = append(all, formerAgentLabel+" is loaded")
				}
			}
			noted, err := t.notProved()
			return append(all, noted...), err
		},
		act: func(ctx context.Context) error {
			if t.takesOver() {
				return t.replaceFormer(ctx)
			}
			return t.restartJobs(ctx)
		},
		takeBack: t.removeJobs,
	}
	looked := s
	s.prove = func(ctx context.Context) error {
		if owed, err := t.proofOwed(ctx); err != nil || owed {
			return err // it is the run after the reboot that proves
		}
		return looked.proof(ctx)
	}
	return s
}

// jobState is what decides how a job is restarted.
type jobState struct {
	plistSame bool
	loaded    bool
	owed      owed
	// wished: a restart is wished for that was not made yet.
	wished bool
	job    macos.Job
	// unhealthy says what is wrong with the process; nil is a proof.
	unhealthy error
}

func (t *target) jobState(ctx context.Context, j job, want identity) (jobState, error) {
	var s jobState
	wanted, err := j.plistFile(t.desired.Host.User)
	if err != nil {
		return s, err
	}
	differs, err := t.differs(ctx, wanted)
	if err != nil {
		return s, fmt.Errorf("looking at %s: %w", wanted.path, err)
	}
	s.plistSame = differs == ""
	if s.owed, err = t.debt(j); err != nil {
		return s, err
	}
	if j.label == document.AgentLabel {
		if s.wished, err = t.restartWished(); err != nil {
			return s, err
		}
	}
	if s.job, s.loaded, err = t.printJob(ctx, j); err != nil || !s.loaded {
		return s, err
	}
	s.job, s.unhealthy = t.answers(ctx, j, s.job, want)
	return s, nil
}

func (t *target) printJob(ctx context.Context, j job) (macos.Job, bool, error) {
	printed, err := t.Mac.Launchd.Print(ctx, j.label)
	if isAbsent(err) {
		return macos.Job{}, false, nil
	}
	return printed, err == nil, err
}

func (s jobState) differs(j job) []string {
	var all []string
	if !s.plistSame {
		all = append(all, j.plist+" differs")
	}
	if !s.loaded {
		all = append(all, j.name+" is not loaded")
	}
	if s.owed != owedNothing {
		all = append(all, j.name+" is owed a "+string(s.owed))
	}
	if s.wished {
		all = append(all, "a restart of "+j.name+" is wished for")
	}
	if s.unhealthy != nil {
		all = append(all, s.unhealthy.Error())
	}
	return all
}

// move is a way to get the wanted process running.
type move string

const (
	// rest: it runs.
	rest move = "rest"
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
	case s.owed == owedRestart, s.wished, s.unhealthy != nil:
		return kick
	}
	return rest
}

func (t *target) writePlist(ctx context.Context, j job) error {
	f, err := j.plistFile(t.desired.Host.User)
	if err != nil {
		return err
	}
	if err := t.owe(ctx, j, owedReload); err != nil {
		return err
	}
	return t.Mac.Files.Replace(ctx, f.path, macos.Content{
		Data: bytes.NewReader(f.data), Attr: f.attr,
		// The folder is watched: half a plist must not appear in it.
		Stage: document.StateDir,
	})
}

// removeJobs stops both jobs, the agent first, and makes launchd forget them.
func (t *target) removeJobs(ctx context.Context) error {
	var errs []error
	for _, j := range []job{agentJob(), jobs()[0]} {
		_, loaded, err := t.printJob(ctx, j)
		if err == nil && loaded {
			err = t.unload(ctx, j)
		}
		errs = append(errs, err, t.Mac.Files.Remove(j.plist), t.Mac.Files.Remove(j.owed))
	}
	return errors.Join(append(errs, t.remove(hostdErrorLog, document.RunDir))...)
}
