package pod

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// slowGuest begins a command after starts, says so, and then takes for the connection.
type slowGuest struct {
	vmruntime.Shims
	starts, takes time.Duration
}

func (g slowGuest) Exec(ctx context.Context, _ string, _ vm.GuestCommand, s vm.Streams) (int, error) {
	for _, step := range []time.Duration{g.starts, g.takes} {
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if _, err := io.WriteString(s.Stdout, "."); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (g slowGuest) Dial(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
	select {
	case <-time.After(g.starts):
		near, _ := net.Pipe()
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g slowGuest) access() guestAccess {
	return guestAccess{shims: g, pod: newObject(podtest.OnMac("a", corev1.RestartPolicyNever), clock.RealClock{})}
}

// A guest has a limit for the start of what connects, and the connection has its own time
// from there.
func TestAConnectionIsTimedFromItsStartInTheGuest(t *testing.T) {
	const within = time.Second
	for name, c := range map[string]struct {
		guest slowGuest
		want  error
		after time.Duration
	}{
		"slow to start":     {slowGuest{starts: 9 * time.Second, takes: 900 * time.Millisecond}, nil, 9900 * time.Millisecond},
		"slow to connect":   {slowGuest{starts: 3 * time.Second, takes: time.Hour}, errLate, 4 * time.Second},
		"it does not start": {slowGuest{starts: time.Hour}, errNotStarted, startLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				err := c.guest.access().Connect(t.Context(), "", 80, within)
				if took := time.Since(begin); !errors.Is(err, c.want) || took != c.after {
					t.Errorf("after %s, want %s: %v", took, c.after, err)
				}
			})
		})
	}
}

// lackingGuest has no command at all.
type lackingGuest struct{ vmruntime.Shims }

func (lackingGuest) Exec(context.Context, string, vm.GuestCommand, vm.Streams) (int, error) {
	return 0, vm.ErrNotExecuted
}

func TestACommandThatTheGuestLacksIsNamed(t *testing.T) {
	g := guestAccess{
		shims: lackingGuest{}, pod: newObject(podtest.OnMac("a", corev1.RestartPolicyNever), clock.RealClock{}),
		inputs: &podInputs{commands: map[string]vm.GuestCommand{"vm": {}}}, container: "vm",
	}
	_, _, err := g.Exec(t.Context(), []string{"curl", "-f"})
	if want := `"curl": ` + vm.ErrNotExecuted.Error(); err == nil || err.Error() != want {
		t.Errorf("err %v, want %s", err, want)
	}
}

func TestADialWaitsForTheStartInTheGuest(t *testing.T) {
	for _, host := range []string{"", "db.example"} {
		for starts, want := range map[time.Duration]error{5 * time.Second: nil, time.Hour: errNotStarted} {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				conn, err := slowGuest{starts: starts, takes: time.Second}.access().Dial(t.Context(), host, 80)
				if took := time.Since(begin); !errors.Is(err, want) || took != min(starts, startLimit) {
					t.Errorf("%q, starting after %s: %v after %s", host, starts, err, took)
				}
				if err != nil {
					return
				}
				defer conn.Close()
				// The byte of the program itself is not the connection's.
				if host == "" {
					return
				}
				if got, _ := io.ReadAll(conn); string(got) != "." {
					t.Errorf("%q came", got)
				}
			})
		}
	}
}

func TestAPortIsAPort(t *testing.T) {
	if _, err := (slowGuest{}).access().Dial(t.Context(), "", 1<<16); err == nil || !strings.Contains(err.Error(), "no port") {
		t.Error(err)
	}
}
