package remote

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
)

// Console is where a person sits.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal is its kind, as TERM names it. Empty: there is none, and the Mac makes
	// none either.
	Terminal      string
	Width, Height int
	// Resized tells of another size. Nil: it stays.
	Resized <-chan [2]int
}

// Interact runs a command for a person, or, where it is empty, their login shell, until
// it ends, and returns its exit code: -1 where a signal ended it.
func (s *Session) Interact(ctx context.Context, command string, at Console) (int, error) {
	channel, err := s.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = channel.Close() }()
	defer context.AfterFunc(ctx, func() { _ = channel.Close() })()
	channel.Stdout, channel.Stderr = at.Out, at.Err
	if err := at.attach(channel); err != nil {
		return 0, &Lost{During: "opening a console", Err: err}
	}
	exit, err := exitCode(run(channel, command))
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, &Lost{During: "the command", Err: err}
	}
	return exit, nil
}

// attach brings what is typed to the Mac. The copy ends with the channel and is not waited
// for: a person may type nothing more.
func (c Console) attach(channel *ssh.Session) error {
	in, err := channel.StdinPipe()
	if err != nil {
		return err
	}
	if c.Terminal != "" {
		if err := channel.RequestPty(c.Terminal, c.Height, c.Width, ssh.TerminalModes{}); err != nil {
			return fmt.Errorf("asking for a terminal: %w", err)
		}
		go c.follow(channel)
	}
	go func() {
		_, _ = io.Copy(in, c.In)
		_ = in.Close()
	}()
	return nil
}

// follow tells the Mac of the terminal's size, until there is no more to tell.
func (c Console) follow(channel *ssh.Session) {
	for size := range c.Resized {
		if channel.WindowChange(size[1], size[0]) != nil {
			return // the channel has ended
		}
	}
}

func run(channel *ssh.Session, command string) error {
	if command != "" {
		return channel.Run(command)
	}
	if err := channel.Shell(); err != nil {
		return err
	}
	return channel.Wait()
}
