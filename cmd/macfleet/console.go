package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/remote"
)

// consoleOf is where the person sits who typed the command. A shell gets a terminal where
// there is one; restore gives it back as it was.
func consoleOf(cmd *cobra.Command, shell bool) (at remote.Console, restore func(), err error) {
	at = remote.Console{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
	file, is := at.In.(*os.File)
	// Where the output goes elsewhere, as to head, its end ends this program, and nobody would
	// give the terminal back.
	if !shell || !is || !term.IsTerminal(int(file.Fd())) || !screenOf(cmd).Terminal {
		return at, func() {}, nil
	}
	fd := int(file.Fd())
	if at.Width, at.Height, err = term.GetSize(fd); err != nil {
		return at, nil, fmt.Errorf("asking the terminal for its size: %w", err)
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return at, nil, fmt.Errorf("taking over the terminal: %w", err)
	}
	at.Terminal = os.Getenv("TERM")
	if at.Terminal == "" {
		at.Terminal = "dumb"
	}
	sizes, stop := followSize(fd)
	at.Resized = sizes
	return at, func() { stop(); _ = term.Restore(fd, before) }, nil
}

// cleanedConsole shows what a Mac says, without what a terminal obeys: a guest, or whoever
// took the Mac over, may have written it. Only what a person runs there shows as it is.
func cleanedConsole(cmd *cobra.Command) remote.Console {
	return remote.Console{In: strings.NewReader(""), Out: screen.Cleaned(cmd.OutOrStdout()), Err: screen.Cleaned(cmd.ErrOrStderr())}
}

// followSize tells of each other size of the terminal.
func followSize(fd int) (sizes <-chan [2]int, stop func()) {
	changed, told, done := make(chan os.Signal, 1), make(chan [2]int), make(chan struct{})
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		defer close(told)
		for {
			select {
			case <-done:
				return
			case <-changed:
			}
			width, height, err := term.GetSize(fd)
			if err != nil {
				continue
			}
			select {
			case <-done:
				return
			case told <- [2]int{width, height}:
			}
		}
	}()
	return told, func() { signal.Stop(changed); close(done) }
}

// shellWords are the words of a command as the Mac's shell reads them.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
