package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// command is what runs on the streams of a request: it returns nil for success, an
// exitError for another exit code, or why there is none.
type command func(ctx context.Context, s vm.Streams) error

// exitError is an exit code that is not 0, as package remotecommand knows it.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func (e exitError) String() string { return e.Error() }

// Exited: it is no failure to run the command.
func (e exitError) Exited() bool { return true }

// ExitStatus is the exit code.
func (e exitError) ExitStatus() int { return int(e) }

// upgradable reports whether a request asks for streams, and answers one that does not.
func upgradable(w http.ResponseWriter, r *http.Request) bool {
	if httpstream.IsUpgradeRequest(r) {
		return true
	}
	refuse(w, http.StatusBadRequest, "Upgrade request required")
	return false
}

// takeOver returns what to upgrade the connection with: the context of the request
// ends with its client. Who has taken it over ends it, whatever a library still waits for.
func (s *Server) takeOver(w http.ResponseWriter, r *http.Request, seen frames) (over http.ResponseWriter, with *http.Request, end func()) {
	ctx, cancel := context.WithCancel(clientsFaults(r.Context(), s.o.Log))
	u := &upgraded{ResponseWriter: w, taken: s.taken, gone: cancel, frames: seen, cutOff: s.cutOff(r)}
	return u, r.WithContext(ctx), func() {
		cancel()
		u.end()
	}
}

// cutOff says in the log why a client is cut off: it is told nothing.
func (s *Server) cutOff(r *http.Request) func(error) {
	return func(why error) {
		s.o.Log.Info("a client of the kubelet's API is cut off", "client", r.RemoteAddr, "path", r.URL.Path, "err", why)
	}
}

// exec runs a command in a container.
func (s *Server) exec(w http.ResponseWriter, r *http.Request, asked route) {
	o, c, found := s.streamsOf(w, r, asked)
	if !found {
		return
	}
	argv := r.URL.Query()["command"]
	if len(argv) == 0 {
		refuse(w, http.StatusBadRequest, "you must specify at least 1 command")
		return
	}
	run := func(ctx context.Context, streams vm.Streams) error {
		code, err := s.o.Backend.Exec(ctx, c, vm.GuestCommand{Argv: argv, TTY: o.TTY}, streams)
		if err == nil && code != 0 {
			return exitError(code)
		}
		return vm.Named(err, argv)
	}
	s.serveCommand(w, r, o, "error executing command in container", run)
}

// serveCommand runs a command on the streams of a client, as it speaks.
func (s *Server) serveCommand(w http.ResponseWriter, r *http.Request, o *remotecommand.Options, failing string, run command) {
	serve, seen := s.serveSPDY, frames(newSPDYFrames(mostOfCommand))
	if wsstream.IsWebSocketRequest(r) {
		serve, seen = s.serveWebSocket, &webSocketFrames{large: s.large}
	}
	w, r, end := s.takeOver(w, r, seen)
	defer end()
	serve(w, r, o, failing, run)
}

// mostOfCommand is how many streams a client may open for one command: it has five kinds.
const mostOfCommand = 10

// attach copies the streams of a container's own command.
func (s *Server) attach(w http.ResponseWriter, r *http.Request, asked route) {
	o, c, found := s.streamsOf(w, r, asked)
	if !found {
		return
	}
	if c.WholeVM {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("container %q in pod %q has no command to attach to: it is the VM itself", c.Name, c.Pod.Name))
		return
	}
	// Whether it has a terminal was said when it was started.
	o.TTY = c.TTY
	o.Stderr = o.Stderr && !c.TTY
	run := func(ctx context.Context, streams vm.Streams) error {
		if !c.Stdin && streams.Stdin != nil {
			// Nobody reads it, and it must not hold up what comes behind it.
			go func(unread io.Reader) { _, _ = io.Copy(io.Discard, unread) }(streams.Stdin)
			streams.Stdin = nil
		}
		return s.o.Backend.Attach(ctx, c, streams)
	}
	s.serveCommand(w, r, o, "error attaching to container", run)
}

// streamsOf finds out which streams of which container are asked for, and answers
// where there are none.
func (s *Server) streamsOf(w http.ResponseWriter, r *http.Request, asked route) (*remotecommand.Options, Container, bool) {
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return nil, Container{}, false
	}
	c, found := s.findRunning(w, r, asked)
	return o, c, found && upgradable(w, r)
}

// findRunning answers where there is no such container, or it does not run.
func (s *Server) findRunning(w http.ResponseWriter, r *http.Request, asked route) (Container, bool) {
	none := fmt.Sprintf("container not found (%q)", asked.container)
	c, found := s.find(r.Context(), w, asked, "pod does not exist", none)
	if found && !c.Running {
		refuse(w, http.StatusBadRequest, none+": it is not running")
		return c, false
	}
	return c, found
}

// maxRunOutput is what /run returns at most.
const maxRunOutput = 1 << 20

// run runs a command without streams, and returns what it prints.
func (s *Server) run(w http.ResponseWriter, r *http.Request, asked route) {
	c, found := s.findRunning(w, r, asked)
	if !found {
		return
	}
	printed := vm.NewBeginning(maxRunOutput)
	argv := splitCommand(r.URL.Query().Get("cmd"))
	code, err := s.o.Backend.Exec(r.Context(), c, vm.GuestCommand{Argv: argv}, vm.Streams{Stdout: printed, Stderr: printed})
	switch {
	case errors.Is(err, ErrTooMany):
		tooMany(w)
	case err != nil:
		refuse(w, http.StatusInternalServerError, vm.Named(err, argv).Error())
	case code != 0:
		refuse(w, http.StatusInternalServerError, fmt.Sprintf("command '%s' exited with %d: %s", r.URL.Query().Get("cmd"), code, printed.Bytes()))
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(printed.Bytes())
	}
}
