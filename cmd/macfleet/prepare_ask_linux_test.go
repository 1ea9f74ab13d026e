package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	askedFor = "MACFLEET_TEST_ASK"
	question = "What is it? "
)

// TestAskingProcess is no test but the process that asks, on a terminal of its own.
func TestAskingProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answer string
	var err error
	switch os.Getenv(askedFor) {
	case "line":
		answer, err = terminal{}.line(ctx, question)
	case "hidden":
		answer, err = terminal{}.hidden(ctx, question)
	case "interrupted":
		// What is typed is to be shown again once the question is called off.
		go func() {
			_, _ = os.Stdin.Read(make([]byte, 1))
			cancel()
		}()
		answer, err = terminal{}.hidden(ctx, question)
	default:
		t.Skip("runs as the process of another test")
	}
	fmt.Fprintf(os.Stderr, "<%s|%v>", answer, err)
}

// pty is a new terminal: what a person sees and types, and what a process has.
func pty(t *testing.T) (person, process *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	process, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { _ = process.Close() })
	return person, process
}

// seen is what the terminal shows, as it comes.
type seen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *seen) follow(person *os.File) {
	buf := make([]byte, 256)
	for {
		n, err := person.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *seen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestTerminalShowsNoPassword(t *testing.T) {
	for kind, want := range map[string]struct {
		typed, answer string
		shown         bool
	}{
		"line": {"yes\n", "<yes|<nil>>", true}, "hidden": {" p4ss word \n", "< p4ss word |<nil>>", false},
		"interrupted": {"", "<|context canceled>", false},
	} {
		t.Run(kind, func(t *testing.T) {
			person, process := pty(t)
			screen := &seen{}
			go screen.follow(person)
			cancel, calledOff, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			cmd := exec.Command(os.Args[0], "-test.run=^TestAskingProcess$")
			cmd.Env = append(os.Environ(), askedFor+"="+kind)
			// The third file is its terminal; input and output go elsewhere.
			cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = cancel, &said, []*os.File{process}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			until(t, func() bool { return strings.Contains(screen.String(), question) })
			if kind != "line" {
				until(t, func() bool { return !echoes(t, process) })
			}
			_, _ = person.WriteString(want.typed)
			_ = calledOff.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if !strings.Contains(said.String(), want.answer) {
				t.Errorf("the answer is %q, want %q", said.String(), want.answer)
			}
			shown := func() bool { return strings.Contains(screen.String(), strings.TrimSpace(want.typed)) }
			switch {
			case want.shown:
				until(t, shown) // it is followed beside the process
			case want.typed != "" && shown():
				t.Errorf("the screen shows %q", screen.String())
			}
			if !echoes(t, process) {
				t.Error("the terminal is left silent")
			}
		})
	}
}

func echoes(t *testing.T, terminal *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

func until(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(5 * time.Millisecond); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("it does not come")
		}
	}
}

func TestNobodyIsAskedWithoutATerminal(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestAskingProcess$")
	cmd.Env = append(os.Environ(), askedFor+"=hidden")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil || !strings.Contains(said.String(), errNobody.Error()) {
		t.Errorf("%v: %q", err, said.String())
	}
}
