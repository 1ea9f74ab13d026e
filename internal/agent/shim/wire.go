package shim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// version of the protocol on the socket: one JSON line there, one back. What v1
// says stays: an agent meets shims that older agents started. Fields may be added
// that a shim may ignore; anything else is a new version.
const version = "v1"

const (
	// maxRequest: the environment of a Pod may be a megabyte, more than that when
	// its characters are escaped.
	maxRequest = 4 << 20
	maxReply   = 64 << 10
)

// request to a shim: exactly one of Run and Await is set.
type request struct {
	V     string        `json:"v"`
	Run   *runRequest   `json:"run,omitempty"`
	Await *awaitRequest `json:"await,omitempty"`
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
}

// awaitRequest is answered once the command ended.
type awaitRequest struct {
	ID string `json:"id"`
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
		Log: r.Log, TimeoutMS: r.Timeout.Milliseconds(),
	}
}

func (r runRequest) fromWire() GuestRun {
	return GuestRun{
		ID: r.ID, Log: r.Log, Timeout: time.Duration(r.TimeoutMS) * time.Millisecond,
		Command: vm.GuestCommand{
			Argv: r.Argv, Env: r.Env, Dir: r.Dir, TTY: r.TTY, Size: vm.TerminalSize{Rows: r.Rows, Cols: r.Cols},
		},
	}
}

// line encodes one message. Its errors never have a part of the message in them.
func line(message any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	// Escapes for web pages would make an environment much longer.
	e.SetEscapeHTML(false)
	if err := e.Encode(message); err != nil {
		return nil, errors.New("encoding a message for a shim's socket")
	}
	return b.Bytes(), nil
}

// errTooLong: a line is longer than we read.
var errTooLong = errors.New("the message is too long")

// readLine receives one message of at most limit bytes.
func readLine(r io.Reader, limit int, into any) error {
	line, err := bufio.NewReader(io.LimitReader(r, int64(limit))).ReadBytes('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) >= limit:
		return errTooLong
	case err != nil:
		return fmt.Errorf("reading from a shim's socket: %w", err)
	}
	if err := json.Unmarshal(line, into); err != nil {
		// What does not parse may be secret.
		return errors.New("the message is not the JSON of this protocol")
	}
	return nil
}
