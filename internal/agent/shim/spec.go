package shim

import "time"

// The files of one attempt, in a directory of its own. Next to them are the
// records of commands (see begunFile) and the logs.
const (
	specFile    = "spec.json"
	lockFile    = "shim.lock"
	socketFile  = "shim.sock"
	startedFile = "started.json"
	exitFile    = "exit.json"
	outputFile  = "output.log"
)

// Spec is what one shim holds.
type Spec struct {
	// Run is the command that is the machine: it lives as long as the machine does.
	Run Command `json:"run"`
	// GuestSocket is where the agent in the guest of that machine answers. Empty: no
	// command can be run in the guest.
	GuestSocket string `json:"guestSocket,omitempty"`
	// Log is the file below the directory that gets the output of Run in the format
	// of the CRI, e.g. main.log. Empty: only the plain output is kept.
	Log  string `json:"log,omitempty"`
	Logs Logs   `json:"logs"`
}

// Logs bounds each log. Its zero value is a kubelet's default.
type Logs struct {
	// MaxBytes of one file. Zero: 10 MiB.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// MaxFiles of one log, the current one included; older ones are <log>.1 and so on,
	// the newest first. Zero: 5.
	MaxFiles int `json:"maxFiles,omitempty"`
}

// Defaults of a kubelet: containerLogMaxSize and containerLogMaxFiles.
const (
	defaultMaxBytes = 10 << 20
	defaultMaxFiles = 5
)

func (l Logs) withDefaults() Logs {
	if l.MaxBytes <= 0 {
		l.MaxBytes = defaultMaxBytes
	}
	if l.MaxFiles <= 0 {
		l.MaxFiles = defaultMaxFiles
	}
	return l
}

// Command to run. Env is the whole environment; it stays in the directory, which
// only its owner may read.
type Command struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
}

// Started says that the command is about to run, or runs.
type Started struct {
	ShimPID int       `json:"shimPID"`
	Time    time.Time `json:"time"`
	// SocketError says why the shim takes no commands for the guest, if it does not.
	SocketError string `json:"socketError,omitempty"`
}

// Exit says how the command ended.
type Exit struct {
	// Code is the exit code, -1 when a signal ended the command.
	Code int `json:"code"`
	// Signal is its number, or 0.
	Signal  int       `json:"signal,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Tail is the last part of the output.
	Tail string `json:"tail,omitempty"`
}
