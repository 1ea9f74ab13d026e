package stage0

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

const (
	// tryAgain is the pause between two attempts; a real manager's is longer.
	tryAgain = 50 * time.Millisecond
	// enough is for a bootstrap with all that a sweep does to it, beside others.
	enough = 10 * time.Minute
)

// manager brings a Mac to a build as the manager of a fleet does: again and again,
// from the beginning each time. What outlives an attempt is what the fleet's
// records hold.
type manager struct {
	b    *bench
	line *line

	// The records.
	pin   remote.Pin
	spent bool

	build *remote.Build
	want  document.Desired

	// reported is the last report before the moment of the disturbance.
	reported os.FileInfo

	mu sync.Mutex
	// cancel ends the attempt that is being made, as the death of the manager does.
	cancel context.CancelFunc
	// troubles are what attempts ended with.
	troubles []string
}

// needsMore is a failure that no further attempt mends.
type needsMore struct{ err error }

func (e *needsMore) Error() string { return "no further attempt mends this: " + e.err.Error() }

// untilConverged makes attempts until the Mac is as wanted, and nothing is left to
// do. It returns what keeps it from that.
func (m *manager) untilConverged(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	for done := false; ; {
		exit, err := m.attempt(ctx)
		var hopeless *needsMore
		switch {
		case errors.As(err, &hopeless):
			return err
		case err != nil:
			m.troubles = append(m.troubles, err.Error())
		case done && exit == document.ExitUnchanged:
			return nil
		default:
			// It was delivered: later documents carry none.
			done, m.want.Join = true, nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it never converged: %w", context.Cause(ctx))
		case <-time.After(tryAgain):
		}
	}
}

var errRebooting = errors.New("the Mac reboots")

func (m *manager) attempt(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.mu.Lock()
	m.cancel = cancel
	m.mu.Unlock()
	s, err := remote.Dial(ctx, remote.Target{
		Address: "127.0.0.1", Port: m.line.port(), User: "m1", Key: m.b.key, Pin: m.pin,
		FirstUse: func(_ context.Context, shown remote.Pin) error { m.pin = shown; return nil },
	})
	var impostor *remote.HostKeyMismatch
	if errors.As(err, &impostor) {
		return 0, &needsMore{err}
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close() }()
	f, err := s.Probe(ctx)
	if err != nil {
		return 0, err
	}
	if err := m.grant(ctx, s, f); err != nil {
		return 0, err
	}
	if f.CurrentAgent != m.build.SHA256 {
		if _, err := s.Receive(ctx, m.build); err != nil {
			return 0, err
		}
	}
	r, err := s.Converge(ctx, m.build.SHA256, m.want, signer(m.want))
	var failed *remote.Failed
	switch {
	case errors.As(err, &failed) && failed.Class != document.Retry && failed.Class != document.Wait:
		return 0, &needsMore{err}
	case err != nil:
		return 0, err
	case r.Rebooting:
		return 0, errRebooting
	}
	return r.Exit, nil
}

// grant spends the password once, and records that before.
func (m *manager) grant(ctx context.Context, s *remote.Session, f remote.Facts) error {
	if f.Sudo || f.SudoAgent {
		return nil
	}
	if m.spent {
		return &needsMore{errors.New("the password had its one attempt")}
	}
	m.spent = true
	return s.Grant(ctx, secret(password))
}

// die ends the attempt that is being made; the next one is a new manager's.
func (m *manager) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cancel != nil {
		m.cancel()
	}
}
