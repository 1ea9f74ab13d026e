package pod

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// messageTimeout is how long the guest may take to tell a container's message.
	messageTimeout = 5 * time.Second
	// logTail in bytes is read of a log: more than a message can be, with its heads.
	logTail = 32 << 10
)

// messages are what the containers of one Pod leave behind: at their
// terminationMessagePath in the guest, or at the end of their logs.
type messages struct {
	pod      *object
	progress *progress
	runtime  *vmruntime.Runtime
	clock    clock.Clock
}

// fetch has the guest tell the message of a command that ended, while there is a guest.
// It is kept beside the command's log. One that cannot be told is none.
func (m *messages) fetch(ctx context.Context, id string) {
	c, _ := state.ContainerOf(m.pod.current(), id)
	if c.TerminationMessagePath == "" {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = wait.For(ctx, m.clock, messageTimeout) // either way it is over
		cancel()
	}()
	defer func() {
		cancel()
		<-over
	}()
	asks, dir := state.MessageID(id), m.progress.dir()
	run := shim.GuestRun{ID: asks, Log: asks + ".log", Command: vm.GuestCommand{Argv: state.MessageArgv(c.TerminationMessagePath)}}
	if m.runtime.Shims.Run(ctx, dir, run) == nil {
		_, _ = m.runtime.Shims.Await(ctx, dir, asks) // it may have said something all the same
	}
}

// add lays the container's own words over those of its end.
func (m *messages) add(e *state.Exit) {
	if !e.OfCommand() {
		return
	}
	id, dir := e.CommandOf(), m.progress.dir()
	c, _ := state.ContainerOf(m.pod.current(), id)
	own := state.LogText(tail(filepath.Join(dir, state.MessageID(id)+".log")))
	if own == "" && state.MessageFromLog(c, *e) {
		own = state.LogMessage(state.LogText(tail(filepath.Join(dir, id+".log"))))
	}
	if own != "" {
		e.Message = own[max(0, len(own)-state.MaxMessageBytes):]
	}
}

// tail is the end of a file; empty where there is none.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > logTail {
		_, _ = f.Seek(-logTail, io.SeekEnd) // from the beginning is as good
	}
	text, _ := io.ReadAll(io.LimitReader(f, logTail))
	return string(text)
}
