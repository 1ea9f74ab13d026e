package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// Guest speaks to the agent inside one guest. Its methods may be called at the same
// time. Package vm/guest has the one that all drivers share.
type Guest interface {
	// Up returns nil once the agent inside answers; ErrGuestUnreachable while it does
	// not. It does not wait.
	Up(ctx context.Context) error
	// Address of the guest on the network of its host.
	Address(ctx context.Context) (netip.Addr, error)
	// Exec runs one command to its end and returns its exit code, 128 + N where the
	// signal N ended it. An error says that there is no exit code:
	// ErrGuestUnreachable when the command surely never began, ErrNotExecuted when the
	// guest could not start it, ErrLost when nobody knows what became of it. No error has
	// anything of Argv, which may be secret as Env is, but for what an agent says of a bare
	// command: see Named. A command whose ctx ends is killed by the guest. What the command
	// started is awaited for a moment only, if it holds the outputs.
	Exec(ctx context.Context, c GuestCommand, s Streams) (int, error)
	// Close gives the connection up, and has commands that run killed.
	Close() error
}

// GuestCommand is a command in a guest.
type GuestCommand struct {
	// Argv is the command and its arguments; the guest looks the command up. It may be
	// secret: what a Pod has it made of may name variables of its environment.
	Argv []string
	// Env is laid over the environment of the guest's agent, as NAME=value. It may be
	// secret: it is never an argument of anything.
	Env []string
	// Dir is the working directory; empty: the guest agent's choice.
	Dir string
	// TTY gives the command a terminal of Size; stderr is then part of stdout.
	TTY  bool
	Size TerminalSize
	// Apart has its outputs told apart by every guest agent, at the cost of a second call
	// with those up to v0.11.0.
	Apart bool
	// Bare has the guest agent run the command as it stands, and tell its exit code as it
	// likes: -1 may stand for a signal, what the command started is awaited, and agents up
	// to v0.11.0 must not get both outputs from it. For helpers of few bytes and exact streams.
	Bare bool
	// KillGroup has what is left of the command's process group killed when the command ends,
	// as the end of a container does with all in it. On a terminal, and where the shell of the
	// guest has no job control, it is left alone.
	KillGroup bool
}

// GuestAddress stands, in the arguments and the environment of a command, for the address
// of its guest, which nobody knows before the guest is up. The shim puts that in its place.
const GuestAddress = "\x1eguest-address\x1e"

// TerminalSize in characters.
type TerminalSize struct{ Rows, Cols uint16 }

// Streams of a command. A nil Stdin is empty, nil outputs are thrown away. Released
// guest agents (up to v0.11.0) stall when a command writes to both outputs: with those
// all of it comes as Stdout, unless the command says Apart.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Began is called once the command runs, with what kill(2) takes to signal it: its
	// process group as a negative number, or its process alone where the guest's shell makes
	// no groups. It must not block. May be nil; never called for a bare command.
	Began func(target int)
	// Held is called when the command has ended while processes that it started hold its
	// outputs: what they print from then on is thrown away. May be nil.
	Held func()
	// Resize carries new sizes of the terminal. Nil: it stays as it is.
	Resize <-chan TerminalSize
}

// The errors of a Guest, to be matched with errors.Is.
var (
	// ErrGuestUnreachable: no agent answers in the guest.
	ErrGuestUnreachable = errors.New("no guest agent answers")
	// ErrNotExecuted: the guest has no such command, or may not execute it.
	ErrNotExecuted = errors.New("the guest could not start the command")
	// ErrLost: the connection broke while the command may have run.
	ErrLost = errors.New("the connection to the guest broke while the command ran")
)

// Named says in an error of a Guest which command the guest could not start. It is for those
// who know that the name is no secret: they have given it themselves, or the Pod shows it.
func Named(err error, argv []string) error {
	if len(argv) == 0 || !errors.Is(err, ErrNotExecuted) {
		return err
	}
	return fmt.Errorf("%q: %w", argv[0], err)
}
