package shim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// version of the protocol on the socket: one JSON line there, one back, and after that
// frames both ways for what is a stream. What v1 says stays: an agent meets shims that
// older agents started. Fields may be added that a shim may ignore, and requests, which a
// shim that does not know them refuses as invalid; anything else is a new version.
const version = "v1"

const (
	// maxRequest: the environment of a Pod may be a megabyte, more than that when
	// its characters are escaped.
	maxRequest = 4 << 20
	maxReply   = 64 << 10
)

// request to a shim: exactly one of those after V is set. Exec, Attach and Dial are
// answered by a stream.
type request struct {
	V      string         `json:"v"`
	Run    *runRequest    `json:"run,omitempty"`
	Await  *awaitRequest  `json:"await,omitempty"`
	Signal *signalRequest `json:"signal,omitempty"`
	Exec   *execRequest   `json:"exec,omitempty"`
	Attach *attachRequest `json:"attach,omitempty"`
	Dial   *dialRequest   `json:"dial,omitempty"`
}

// runRequest is answered once the command began, or ended without.
type runRequest struct {
	ID        string   `json:"id"`
	Argv      []string `json:"argv"`
	Env       []string `json:"env,omitempty"`
	Dir       string   `json:"dir,omitempty"`
	TTY       bool     `json:"tty,omitempty"`
	Rows      uint16   `json:"rows,omitempty"`
	Cols      uint16   `json:"cols,omitempty"`
	Log       string   `json:"log,omitempty"`
	TimeoutMS int64    `json:"timeoutMS,omitempty"`
	Stdin     bool     `json:"stdin,omitempty"`
	StdinOnce bool     `json:"stdinOnce,omitempty"`
	KillGroup bool     `json:"killGroup,omitempty"`
}

// awaitRequest is answered once the command ended.
type awaitRequest struct {
	ID string `json:"id"`
}

// signalRequest is answered once the signal is sent, or there is nothing to send it to.
type signalRequest struct {
	ID string `json:"id"`
	// Signal by its name, without SIG: numbers differ between systems.
	Signal string `json:"signal"`
}

// execRequest is a further command with streams of its own.
type execRequest struct {
	Argv   []string `json:"argv"`
	Env    []string `json:"env,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	TTY    bool     `json:"tty,omitempty"`
	Rows   uint16   `json:"rows,omitempty"`
	Cols   uint16   `json:"cols,omitempty"`
	Stdin  bool     `json:"stdin,omitempty"`
	Stdout bool     `json:"stdout,omitempty"`
	Stderr bool     `json:"stderr,omitempty"`
	// Tied: the command is killed when its stream is cut.
	Tied bool `json:"tied,omitempty"`
	// Bare: without what tells its end exactly, which takes further processes.
	Bare bool `json:"bare,omitempty"`
}

// attachRequest is for the streams of a command that Run began.
type attachRequest struct {
	ID     string `json:"id"`
	Stdin  bool   `json:"stdin,omitempty"`
	Stdout bool   `json:"stdout,omitempty"`
	Stderr bool   `json:"stderr,omitempty"`
}

// dialRequest is answered once somebody listens, as far as that shows soon.
type dialRequest struct {
	Port uint16 `json:"port"`
	// Reserved: it is for a probe or a hook, which have places of their own.
	Reserved bool `json:"reserved,omitempty"`
}

// reply of a shim. Neither field is set for a command that began.
type reply struct {
	V     string      `json:"v"`
	Error *refusal    `json:"error,omitempty"`
	End   *CommandEnd `json:"end,omitempty"`
}

type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func toWire(r GuestRun) *runRequest {
	c := r.Command
	return &runRequest{
		ID: r.ID, Argv: c.Argv, Env: c.Env, Dir: c.Dir, TTY: c.TTY, Rows: c.Size.Rows, Cols: c.Size.Cols,
		Log: r.Log, TimeoutMS: r.Timeout.Milliseconds(), Stdin: r.Stdin, StdinOnce: r.StdinOnce,
		KillGroup: c.KillGroup,
	}
}

func (r runRequest) fromWire() GuestRun {
	return GuestRun{
		ID: r.ID, Log: r.Log, Timeout: time.Duration(r.TimeoutMS) * time.Millisecond, Stdin: r.Stdin, StdinOnce: r.StdinOnce,
		Command: vm.GuestCommand{
			Argv: r.Argv, Env: r.Env, Dir: r.Dir, TTY: r.TTY, Size: vm.TerminalSize{Rows: r.Rows, Cols: r.Cols},
			KillGroup: r.KillGroup,
		},
	}
}

func (r execRequest) command() vm.GuestCommand {
	return vm.GuestCommand{
		Argv: r.Argv, Env: r.Env, Dir: r.Dir, TTY: r.TTY, Size: vm.TerminalSize{Rows: r.Rows, Cols: r.Cols}, Bare: r.Bare,
		// A probe's are read as one.
		Apart: r.Stdout && r.Stderr && !r.Tied,
	}
}

// line encodes one message. Its errors never have a part of the message in them.
func line(message any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	// Escapes for web pages would make an environment much longer.
	e.SetEscapeHTML(false)
	if err := e.Encode(message); err != nil {
		return nil, errors.New("encoding a message for the socket of a VM")
	}
	return b.Bytes(), nil
}

// errTooLong: a line is longer than we read.
var errTooLong = errors.New("the message is too long")

// readLine receives one message of at most limit bytes.
func readLine(r *bufio.Reader, limit int, into any) error {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > limit {
			return errTooLong
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("reading from the socket of a VM: %w", err)
		}
	}
	if err := json.Unmarshal(line, into); err != nil {
		// What does not parse may be secret.
		return errors.New("the message is not the JSON of this protocol")
	}
	return nil
}
