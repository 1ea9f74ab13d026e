package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// What is typed reaches the command, what it says comes back apart, and its code is its own.
func TestInteract(t *testing.T) {
	key := newSigner(t)
	for name, c := range map[string]struct {
		command string
		code    int
	}{"a command": {"'tail' '-n' '20'", 3}, "a shell": {"", 0}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, key)
			s.handle = func(_ string, channel ssh.Channel) int {
				typed, _ := io.ReadAll(channel)
				_, _ = channel.Write(bytes.ToUpper(typed))
				_, _ = io.WriteString(channel.Stderr(), "said")
				return c.code
			}
			var out, errs bytes.Buffer
			code, err := s.dial(key).Interact(t.Context(), c.command, Console{In: strings.NewReader("typed"), Out: &out, Err: &errs})
			if err != nil || code != c.code || out.String() != "TYPED" || errs.String() != "said" {
				t.Errorf("code %d, %v, out %q, errs %q", code, err, &out, &errs)
			}
			if got := s.seen(); len(got) != 1 || got[0] != c.command || len(s.terminals) != 0 {
				t.Errorf("ran %q, %d requests for terminals", got, len(s.terminals))
			}
		})
	}
}

// A person who types nothing more holds up no end.
func TestInteractEndsWithItsCommand(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	s.handle = func(string, ssh.Channel) int { return 0 }
	typing, typed := io.Pipe()
	defer typed.Close()
	if code, err := s.dial(key).Interact(t.Context(), "true", Console{In: typing, Out: io.Discard, Err: io.Discard}); code != 0 || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
}

func TestInteractAtATerminal(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	resized := make(chan [2]int, 1)
	resized <- [2]int{100, 40}
	s.handle = func(_ string, channel ssh.Channel) int {
		_, _ = io.Copy(io.Discard, channel)
		return 0
	}
	typing, typed := io.Pipe()
	sizes := make(chan [2]uint32, 2)
	go func() {
		sizes <- sizeOf(<-s.terminals)
		sizes <- sizeOf(<-s.terminals)
		_ = typed.Close()
	}()
	_, err := s.dial(key).Interact(t.Context(), "", Console{In: typing, Out: io.Discard, Err: io.Discard, Terminal: "xterm", Width: 80, Height: 24, Resized: resized})
	if err != nil {
		t.Fatal(err)
	}
	if first, then := <-sizes, <-sizes; first != [2]uint32{80, 24} || then != [2]uint32{100, 40} {
		t.Errorf("sizes %v, then %v", first, then)
	}
}

// sizeOf are the columns and rows that a request names.
func sizeOf(r *ssh.Request) [2]uint32 {
	payload := r.Payload
	if r.Type == "pty-req" { // the terminal's kind comes first
		payload = payload[4+binary.BigEndian.Uint32(payload):]
	}
	return [2]uint32{binary.BigEndian.Uint32(payload), binary.BigEndian.Uint32(payload[4:])}
}

func TestInteractIsInterrupted(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	ctx, cancel := context.WithCancel(t.Context())
	s.handle = func(_ string, channel ssh.Channel) int {
		cancel()
		_, _ = io.Copy(io.Discard, channel)
		return -1
	}
	typing, typed := io.Pipe()
	defer typed.Close()
	if _, err := s.dial(key).Interact(ctx, "sleep", Console{In: typing, Out: io.Discard, Err: io.Discard}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestInteractTellsOfALostConnection(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	s.handle = func(string, ssh.Channel) int { return -1 }
	_, err := s.dial(key).Interact(t.Context(), "true", Console{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	if lost, is := errors.AsType[*Lost](err); !is {
		t.Errorf("%v, %v", err, lost)
	}
}
