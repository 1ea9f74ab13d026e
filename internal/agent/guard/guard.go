// Package guard asks hostd, the root half of the agent, to prove the firewall
// around the guests. It fails closed: whatever is not a fresh proof is an error.
// What follows from one is package pod's business.
package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
	"unicode"

	"github.com/macfleet/macfleet/internal/converge/document"
)

const (
	// timeout is above what hostd gives itself for one proof.
	timeout = 35 * time.Second
	// freshFor is how old a proof may be: it was made for this question.
	freshFor  = time.Minute
	maxAnswer = 64 << 10
	maxReason = 512
)

// Gate is hostd on its socket.
type Gate struct {
	// Socket is its path.
	Socket string
	// Session: guests need the console user's session, too.
	Session bool
	// Now is the time of day; nil: the clock's.
	Now func() time.Time
}

// refusedError says that hostd answered and the firewall is not proved.
type refusedError struct{ Reason string }

func (e *refusedError) Error() string {
	return "the firewall around the guests is not proved: " + e.Reason
}

// awayError says that hostd did not answer: it does not run, is being restarted, or
// hung up.
type awayError struct{ Err error }

func (e *awayError) Error() string {
	return fmt.Sprintf("hostd does not answer whether the firewall holds (is %s loaded?): %v", document.HostdLabel, e.Err)
}

// Unwrap returns how the conversation failed.
func (e *awayError) Unwrap() error { return e.Err }

// Away sets it apart from a no.
func (*awayError) Away() bool { return true }

// noSessionError says that the console user has no session: macOS guests cannot
// start without one. After a boot it comes within a minute.
type noSessionError struct{}

func (*noSessionError) Error() string {
	return "the console user has no session, and macOS guests cannot start without one: " +
		"after a boot it comes within a minute, else the doctor's session and auto-login say why"
}

// PodReason is the reason of a Pod that waits for it.
func (*noSessionError) PodReason() string { return "NoConsoleSession" }

// Proved says that the firewall holds: a guest that runs may go on.
func (*noSessionError) Proved() bool { return true }

// Arm has the firewall proved now, and mended first where that is needed. Errors
// are *refusedError, *awayError and *noSessionError, or say that what came is no
// answer of hostd's.
func (g Gate) Arm(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("nothing came within %s", timeout))
	defer cancel()
	a, err := g.ask(ctx, document.HostdArm)
	if err != nil {
		return err
	}
	if a.Error != "" {
		return &refusedError{Reason: printable(a.Error)}
	}
	proved, err := time.Parse(time.RFC3339, a.FirewallProvedAt)
	if err != nil {
		return &refusedError{Reason: "hostd says that it never was in this boot"}
	}
	if age := g.now().Sub(proved); age.Abs() > freshFor {
		return &refusedError{Reason: fmt.Sprintf("hostd's last proof is %s old", age.Round(time.Second))}
	}
	if g.Session && !a.Session {
		return &noSessionError{}
	}
	return nil
}

func (g Gate) now() time.Time {
	if g.Now != nil {
		return g.Now()
	}
	return time.Now()
}

// ask is one question and its answer.
func (g Gate) ask(ctx context.Context, verb string) (document.HostdAnswer, error) {
	var a document.HostdAnswer
	data, err := g.converse(ctx, verb)
	if err == nil && len(data) == 0 {
		err = errors.New("it hung up")
	}
	if err != nil {
		return a, &awayError{err}
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("hostd does not say whether the firewall holds: its answer of %d bytes is not one of hostd's", len(data))
	}
	return a, nil
}

func (g Gate) converse(ctx context.Context, verb string) ([]byte, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", g.Socket)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer func() { _ = c.Close() }()
	// The worker that asks may end before hostd answers.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := json.NewEncoder(c).Encode(document.HostdRequest{Verb: verb}); err != nil {
		return nil, because(ctx, err)
	}
	data, err := io.ReadAll(io.LimitReader(c, maxAnswer))
	if err != nil {
		return nil, because(ctx, err)
	}
	return data, nil
}

// because is why a conversation failed, which its error does not say where it was
// ended from here.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// printable makes a text fit for an event.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s[:min(len(s), maxReason)])
}
