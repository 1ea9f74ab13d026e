package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// abilities are what the generations of the guest's agent differ in.
type abilities struct {
	// env: environment and working directory of a command are taken. Agents before
	// May 2026 ignore both without a word.
	env bool
	// started: the agent tells when a command runs, says 125 without that for one it
	// cannot start, and 128 + N for one that the signal N ended. Others give -1 there.
	started bool
}

const (
	probeName = "MACFLEET_PROBE"
	// probeDir is a directory that no agent has for its own.
	probeDir = "/usr"
	// probeTries: old agents may fail a short command that ran well, and a connection may
	// break.
	probeTries = 3
	// probeAnswer is longer than what the probe prints, in bytes.
	probeAnswer = 4 << 10
)

// ready asks what the guest's agent can do, on a line that was just seen to work: tart
// keeps one whose guest's end is gone until something is written to it.
func (c *Client) ready(ctx context.Context) (abilities, error) {
	var last error
	for range 2 {
		ability, err := c.abilities(ctx)
		if err != nil {
			return abilities{}, err
		}
		if _, last = c.Address(ctx); !errors.Is(last, vm.ErrGuestUnreachable) {
			return ability, nil // also when it has no address
		}
	}
	return abilities{}, last
}

// abilities asks the guest once a connection.
func (c *Client) abilities(ctx context.Context) (abilities, error) {
	var last error
	for range probeTries {
		if err := c.connected(ctx); err != nil {
			return abilities{}, err
		}
		c.mu.Lock()
		known, ability, dials := c.learnt == c.dials, c.ability, c.dials
		c.mu.Unlock()
		if known {
			return ability, nil
		}
		ability, err := c.probe(ctx)
		if err == nil {
			c.mu.Lock()
			c.learnt, c.ability = dials, ability
			c.mu.Unlock()
			return ability, nil
		}
		last = err
	}
	// What was asked does no harm: whatever the caller wanted never began.
	return abilities{}, fmt.Errorf("asking the guest agent what it can do: %w: %w", vm.ErrGuestUnreachable, unlost{last})
}

// probe runs a command that shows whether its environment and directory were taken.
func (c *Client) probe(ctx context.Context) (abilities, error) {
	out := vm.NewBounded(probeAnswer)
	end, err := c.call(ctx, ctx, &command{
		name: "/bin/sh", args: []string{"-c", `printf '%s ' "$` + probeName + `"; pwd`},
		env: map[string]string{probeName: "yes"}, dir: probeDir,
	}, vm.Streams{Stdout: out})
	if err != nil {
		return abilities{}, err
	}
	if end.code != 0 || len(out.Bytes()) == 0 {
		return abilities{}, fmt.Errorf("its shell exited with %d: %w", end.code, vm.ErrNotExecuted)
	}
	return abilities{env: bytes.HasPrefix(out.Bytes(), []byte("yes "+probeDir)), started: end.started}, nil
}

// unlost keeps the text of an error whose kind would mislead.
type unlost struct{ err error }

func (u unlost) Error() string { return u.err.Error() }
