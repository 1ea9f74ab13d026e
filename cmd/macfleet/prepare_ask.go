package main

import (
	"bufio"
	"context"
	"debug/macho"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// asker asks the person at the keyboard.
type asker interface {
	// line asks for something that may be seen.
	line(ctx context.Context, question string) (string, error)
	// hidden asks for something that may not, and shows none of it.
	hidden(ctx context.Context, question string) (string, error)
}

// errNobody means that there is nobody to ask.
var errNobody = errors.New("there is no terminal to ask on")

// terminal asks on the terminal of this process, wherever its input and output go.
type terminal struct{}

func (terminal) line(ctx context.Context, question string) (string, error) {
	return onTerminal(ctx, question, func(tty *os.File) (string, error) {
		text, err := bufio.NewReader(tty).ReadString('\n')
		return strings.TrimSpace(text), err
	})
}

func (terminal) hidden(ctx context.Context, question string) (string, error) {
	return onTerminal(ctx, question, func(tty *os.File) (string, error) {
		text, err := term.ReadPassword(int(tty.Fd()))
		_, werr := fmt.Fprintln(tty)
		return string(text), errors.Join(err, werr)
	})
}

// onTerminal asks until there is an answer or ctx ends, and leaves the terminal as
// it was in both cases.
func onTerminal(ctx context.Context, question string, read func(*os.File) (string, error)) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", errNobody
	}
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		return "", errors.Join(errNobody, tty.Close())
	}
	if _, err := fmt.Fprint(tty, question); err != nil {
		return "", errors.Join(errNobody, tty.Close())
	}
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	// A read of a terminal cannot be called off: it outlives ctx, and its file too.
	go func() {
		text, err := read(tty)
		answers <- answer{text, errors.Join(err, tty.Close())}
	}()
	select {
	case a := <-answers:
		return a.text, a.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(int(tty.Fd()), before))
	}
}

// typed is a password that prints as nothing.
type typed string

func (p typed) Reveal() string { return string(p) }

func (p typed) String() string { return "[redacted]" }

func (p typed) GoString() string { return "[redacted]" }

// usable refuses what cannot be the password, before it costs an attempt.
func (p typed) usable() error {
	switch {
	case p == "":
		return errors.New("no password was typed: nothing was sent")
	case strings.Contains(string(p), document.Sealed):
		return fmt.Errorf("that is %s, what the vendor shows instead of a password that is no longer told: nothing was sent: "+
			"reinstall the server to get a new one", document.Sealed)
	case strings.ContainsAny(string(p), "\x00\r\n"):
		return errors.New("what was typed cannot be a password: nothing was sent")
	}
	return nil
}

// isAgent looks whether a file is a program for Macs.
func isAgent(path string) error {
	f, err := macho.Open(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("reading the program: %w", err)
		}
		return fmt.Errorf("%s is not a program for Macs", path)
	}
	defer func() { _ = f.Close() }()
	if f.Cpu != macho.CpuArm64 || f.Type != macho.TypeExec {
		return fmt.Errorf("%s is not a program for Macs with Apple silicon", path)
	}
	return nil
}
