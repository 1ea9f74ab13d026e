// Package launchd keeps the agent's two jobs running: the wanted build with the wanted
// configuration, or the last good build when that one does not become healthy.
package launchd

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"howett.net/plist"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// Where launchd puts what the jobs write to their standard error: panics, for
// they keep logs of their own. The root half's is not in the user's folder, where
// the user could point it at any file for root to write to.
const (
	AgentErrorLog = document.LogDir + "/tart-kubelet.err.log"
	HostdErrorLog = "/var/log/macfleet-hostd.err.log"
)

const (
	// throttleInterval is how long launchd waits between two starts, in seconds.
	// It is launchd's default, named so that it is no surprise.
	throttleInterval = 10
	// exitTimeOut is what a job gets to stop, in seconds, before launchd kills it.
	exitTimeOut = 30
)

// job is one of our launchd jobs, and how its process proves itself.
type job struct {
	Job
	// definition of the job for a Mac whose console user is user.
	definition func(user string) definition
	// pendingFile is the file that remembers a restart that the job needs.
	pendingFile string
	// socket is where the process says who it is when it gets the request.
	socket  string
	request []byte
	// health reads what it says.
	health func(answer []byte) (document.Health, error)
}

// jobs are in the order in which they start: the agent may start no guest before
// hostd has armed the firewall.
func jobs() []job {
	return []job{
		{
			Job: Job{Name: "hostd", Label: document.HostdLabel, Plist: document.HostdPlist}, definition: hostdDefinition,
			pendingFile: document.StateDir + "/hostd-restart-owed", socket: document.HostdSocket,
			request: statusRequest, health: hostdHealth,
		},
		agentJob(),
	}
}

// AgentJob is the agent as launchd knows it.
func AgentJob() Job {
	return Job{Name: "the agent", Label: document.AgentLabel, Plist: document.AgentPlist}
}

func agentJob() job {
	return job{
		Job: AgentJob(), definition: agentDefinition,
		pendingFile: document.StateDir + "/restart-owed", socket: document.HealthSocket, health: agentHealth,
	}
}

// definition is a launchd job. Keys are those of launchd.plist(5). All that
// varies between documents is in the configuration file, so that a plist changes
// with the user only: launchd and Background Task Management see one registration
// an install.
type definition struct {
	Label                string
	ProgramArguments     []string
	UserName             string `plist:",omitempty"`
	RunAtLoad            bool
	KeepAlive            bool
	ThrottleInterval     int // seconds
	ExitTimeOut          int // seconds
	ProcessType          string
	AbandonProcessGroup  bool
	StandardErrorPath    string
	EnvironmentVariables map[string]string
}

// daemon is what both jobs have in common.
func daemon(label, verb, errorLog, home string) definition {
	return definition{
		Label:            label,
		ProgramArguments: []string{document.CurrentAgent, verb},
		RunAtLoad:        true,
		KeepAlive:        true,
		ThrottleInterval: throttleInterval,
		ExitTimeOut:      exitTimeOut,
		// Anything else is throttled as background work, and the guests with it.
		ProcessType: "Interactive",
		// Guests outlive the agent.
		AbandonProcessGroup: true,
		StandardErrorPath:   errorLog,
		EnvironmentVariables: map[string]string{
			"HOME": home,
			"PATH": "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		},
	}
}

func agentDefinition(user string) definition {
	d := daemon(document.AgentLabel, "run", AgentErrorLog, path.Join("/Users", user))
	d.UserName = user
	return d
}

func hostdDefinition(string) definition {
	d := daemon(document.HostdLabel, "hostd", HostdErrorLog, "/var/root")
	// Root executes nothing that is found in a folder others may write to.
	d.EnvironmentVariables["PATH"] = "/usr/bin:/bin:/usr/sbin:/sbin"
	return d
}

// plistFile is the job's definition as a file.
func (j job) plistFile(user string) (step.File, error) {
	data, err := plist.MarshalIndent(j.definition(user), plist.XMLFormat, "\t")
	if err != nil {
		return step.File{}, fmt.Errorf("encoding the launchd job of %s: %w", j.Name, err)
	}
	// launchd refuses a plist that others may write.
	return step.File{Path: j.Plist, Data: append(data, '\n'), Attr: step.RootAttr(0o644)}, nil
}

// statusRequest asks hostd how things are: one line, as its protocol wants it.
var statusRequest = []byte(`{"verb":"` + document.HostdStatus + `"}` + "\n")

var errNoHealth = errors.New("its answer is not its health")

func agentHealth(answer []byte) (document.Health, error) {
	var h document.Health
	if err := json.Unmarshal(answer, &h); err != nil {
		return h, errNoHealth
	}
	return h, nil
}

func hostdHealth(answer []byte) (document.Health, error) {
	var a document.HostdAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return document.Health{}, errNoHealth
	}
	return a.Health, nil
}
