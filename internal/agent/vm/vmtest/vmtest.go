// Package vmtest says what a vm.Driver must do, and what of a guest's agent is relied
// on, as tests that run against any driver: simulated ones, and the real tool on a
// Mac. What else may go wrong is left to each driver's own tests.
package vmtest

import (
	"context"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/guest"
)

// Subject is a driver on a host where nobody else has machines.
type Subject struct {
	Driver vm.Driver
	// Image can be pulled; it is macOS with an agent. Missing is not in the registry;
	// Private refuses access. Empty ones are not tried.
	Image, Missing, Private string
	// Held says that the image was here before the test.
	Held bool
	// Crash has the guest of a running machine crash. Nil: that cannot be done here.
	Crash func(t *testing.T, name string)
	// OneOutput says that the guest agent is one of those with which all output comes
	// as Stdout.
	OneOutput bool
	// Patience is how long anything may take that is waited for. Default a minute.
	Patience time.Duration
}

func (s Subject) patience() time.Duration {
	if s.Patience > 0 {
		return s.Patience
	}
	return time.Minute
}

// Conform runs the suite; each test has a subject of its own.
func Conform(t *testing.T, fresh func(t *testing.T) Subject) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Subject)
	}{
		{"Probe", probe},
		{"Pull", pull},
		{"PullErrors", pullErrors},
		{"Cancel", cancel},
		{"CreateNeverReplaces", createNeverReplaces},
		{"CreateOnlyFromWhatIsHeld", createOnlyFromWhatIsHeld},
		{"Names", names},
		{"Life", life},
		{"Wait", wait},
		{"StopIsIdempotent", stopIsIdempotent},
		{"StopAsksTheGuest", stopAsksTheGuest},
		{"StopWithoutGrace", stopWithoutGrace},
		{"DeleteRunning", deleteRunning},
		{"GuestShutsDown", guestShutsDown},
		{"GuestCrashes", guestCrashes},
		{"RunTwice", runTwice},
		{"Limit", limit},
		{"Shares", shares},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, fresh(t)) })
	}
	t.Run("Guest", func(t *testing.T) { conformGuest(t, fresh(t)) })
}

// tail collects the output of a command.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (o *tail) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	return len(p), nil
}

func (o *tail) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// have pulls the image, or finds it there.
func have(t *testing.T, s Subject) string {
	t.Helper()
	digest, err := s.Driver.Pull(t.Context(), s.Image, vm.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// Create makes a machine that is gone after the test.
func Create(t *testing.T, s Subject, name string) {
	t.Helper()
	have(t, s)
	// Less than any image asks for: it is raised to the minimum.
	if err := s.Driver.Create(t.Context(), name, s.Image, vm.Shape{CPUs: 1, MemoryBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.patience())
		defer cancel()
		_ = s.Driver.Stop(ctx, name, 0)
		_ = s.Driver.Delete(ctx, name)
	})
}

// Run starts a machine, returns once it runs, and tells how it ended.
func Run(t *testing.T, s Subject, name string) <-chan vm.RunEnd {
	t.Helper()
	ended := Execute(t, s, name)
	Running(t, s, name)
	return ended
}

// Running waits until a machine runs.
func Running(t *testing.T, s Subject, name string) {
	t.Helper()
	await(t, s, name+" runs", func() bool {
		m, err := s.Driver.Machine(t.Context(), name)
		return err == nil && m.Running
	})
}

// Execute runs a machine's run command and tells how that ended.
func Execute(t *testing.T, s Subject, name string, shares ...vm.Share) <-chan vm.RunEnd {
	t.Helper()
	c, err := s.Driver.RunCommand(name, vm.RunOptions{Shares: shares})
	if err != nil {
		t.Fatal(err)
	}
	// It ends by the driver, as it does in an agent.
	cmd := exec.CommandContext(context.Background(), c.Path, c.Args...)
	cmd.Env = c.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan vm.RunEnd, 1)
	go func() {
		_ = cmd.Wait()
		end := vm.RunEnd{Code: cmd.ProcessState.ExitCode(), Tail: out.String()}
		if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			end.Signal = int(w.Signal())
		}
		ended <- end
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.patience())
		defer cancel()
		_ = s.Driver.Stop(ctx, name, 0)
	})
	return ended
}

// Expect waits for an end that is one of those wanted.
func Expect(t *testing.T, s Subject, ended <-chan vm.RunEnd, want ...vm.OutcomeKind) {
	t.Helper()
	select {
	case e := <-ended:
		if got := s.Driver.Classify(e); !slices.Contains(want, got.Kind) || got.Message == "" {
			t.Errorf("%+v is %+v, want %v", e, got, want)
		}
	case <-time.After(s.patience()):
		t.Fatalf("never ended, want %v", want)
	}
}

// Up waits for the agent in the guest of a running machine.
func Up(t *testing.T, s Subject, name string) *guest.Client {
	t.Helper()
	client := guest.Dial(s.Driver.GuestSocket(name), guest.Options{AnswerTimeout: s.patience() / 4})
	t.Cleanup(func() { _ = client.Close() })
	await(t, s, "the agent in the guest of "+name+" answers", func() bool { return client.Up(t.Context()) == nil })
	return client
}

func await(t *testing.T, s Subject, what string, done func() bool) {
	t.Helper()
	late := time.After(s.patience())
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-late:
			t.Fatalf("never happened: %s", what)
		}
	}
}
