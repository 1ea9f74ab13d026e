// Package vmtest says what a vm.Driver must do, as tests that run against any of
// them. The same list is what to try first on a real Mac.
package vmtest

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// deadline of anything that is waited for.
const deadline = 30 * time.Second

// Subject is a driver on a host without machines and images.
type Subject struct {
	Driver vm.Driver
	// Image can be pulled; Missing is not in the registry; Private refuses access.
	Image, Missing, Private string
	// ShutDown has the guest of a running machine shut itself down, Crash has it
	// crash.
	ShutDown, Crash func(t *testing.T, name string)
}

// Conform runs the suite; each test has a subject of its own.
func Conform(t *testing.T, fresh func(t *testing.T) Subject) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Subject){
		"Probe":              probe,
		"Pull":               pull,
		"PullErrors":         pullErrors,
		"CreateNeverReplace": createNeverReplaces,
		"Life":               life,
		"StopIsIdempotent":   stopIsIdempotent,
		"DeleteRunning":      deleteRunning,
		"GuestShutsDown":     guestShutsDown,
		"GuestCrashes":       guestCrashes,
		"Limit":              limit,
		"Cancel":             cancel,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

func probe(t *testing.T, s Subject) {
	info, err := s.Driver.Probe(t.Context())
	if err != nil || info.Name == "" || info.Version == "" {
		t.Errorf("info %+v, err %v", info, err)
	}
}

func pull(t *testing.T, s Subject) {
	if _, err := s.Driver.Digest(t.Context(), s.Image); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("digest before the pull: %v", err)
	}
	first := must(t, s)
	held, err := s.Driver.Digest(t.Context(), s.Image)
	if err != nil || held != first {
		t.Errorf("digest %q, err %v, want %q", held, err, first)
	}
	if again := must(t, s); again != first {
		t.Errorf("a second pull brought %q after %q", again, first)
	}
	images, err := s.Driver.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(images, func(i vm.Image) bool { return i.Name == s.Image }) {
		t.Errorf("%s is not in %+v", s.Image, images)
	}
}

func must(t *testing.T, s Subject) string {
	t.Helper()
	digest, err := s.Driver.Pull(t.Context(), s.Image, vm.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func pullErrors(t *testing.T, s Subject) {
	for _, c := range []struct {
		ref  string
		want error
	}{
		{s.Missing, vm.ErrImageNotFound},
		{s.Private, vm.ErrAuth},
		{"a local name", vm.ErrInvalidReference},
		{"host/../escape:v1", vm.ErrInvalidReference},
	} {
		if _, err := s.Driver.Pull(t.Context(), c.ref, vm.PullOptions{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.ref, err, c.want)
		}
	}
}

func createNeverReplaces(t *testing.T, s Subject) {
	create(t, s, "tk-a-0")
	if err := s.Driver.Create(t.Context(), "tk-a-0", s.Image, vm.Shape{}); !errors.Is(err, vm.ErrExists) {
		t.Errorf("a second create: %v", err)
	}
}

func create(t *testing.T, s Subject, name string) {
	t.Helper()
	must(t, s)
	// Less than any image asks for: it is raised to the minimum.
	if err := s.Driver.Create(t.Context(), name, s.Image, vm.Shape{CPUs: 1, MemoryBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
}

// runs starts a machine and returns what its end will be.
func runs(t *testing.T, s Subject, name string) <-chan vm.RunEnd {
	t.Helper()
	ended := execute(t, s, name)
	await(t, name+" runs", func() bool {
		m, err := s.Driver.Machine(t.Context(), name)
		return err == nil && m.Running
	})
	return ended
}

func execute(t *testing.T, s Subject, name string) <-chan vm.RunEnd {
	t.Helper()
	c := s.Driver.RunCommand(name, vm.RunOptions{})
	// It ends by the driver, as it does in an agent.
	cmd := exec.CommandContext(context.Background(), c.Path, c.Args...)
	cmd.Env = c.Env
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan vm.RunEnd, 1)
	go func() {
		_ = cmd.Wait()
		ended <- vm.RunEnd{Code: cmd.ProcessState.ExitCode(), Tail: out.String()}
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		_ = s.Driver.Stop(ctx, name, time.Second)
	})
	return ended
}

func life(t *testing.T, s Subject) {
	create(t, s, "tk-a-0")
	ended := runs(t, s, "tk-a-0")
	machines, err := s.Driver.Machines(t.Context())
	if err != nil || !slices.Equal(machines, []vm.Machine{{Name: "tk-a-0", Running: true, MacOS: true}}) {
		t.Errorf("machines %+v, err %v", machines, err)
	}
	if err := s.Driver.Stop(t.Context(), "tk-a-0", time.Second); err != nil {
		t.Fatal(err)
	}
	// Which of them depends on how far the guest came.
	expect(t, s, ended, vm.Stopped, vm.ShutDown)
	if err := s.Driver.Delete(t.Context(), "tk-a-0"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Driver.Machine(t.Context(), "tk-a-0"); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
}

func stopIsIdempotent(t *testing.T, s Subject) {
	create(t, s, "tk-a-0")
	for _, name := range []string{"tk-a-0", "nobody"} {
		if err := s.Driver.Stop(t.Context(), name, time.Second); err != nil {
			t.Errorf("stopping %s: %v", name, err)
		}
	}
	for range 2 {
		if err := s.Driver.Delete(t.Context(), "tk-a-0"); err != nil {
			t.Errorf("deleting: %v", err)
		}
	}
}

func deleteRunning(t *testing.T, s Subject) {
	create(t, s, "tk-a-0")
	runs(t, s, "tk-a-0")
	if err := s.Driver.Delete(t.Context(), "tk-a-0"); !errors.Is(err, vm.ErrRunning) {
		t.Errorf("deleting what runs: %v", err)
	}
}

func guestShutsDown(t *testing.T, s Subject) {
	create(t, s, "tk-a-0")
	ended := runs(t, s, "tk-a-0")
	s.ShutDown(t, "tk-a-0")
	expect(t, s, ended, vm.ShutDown)
}

func guestCrashes(t *testing.T, s Subject) {
	create(t, s, "tk-a-0")
	ended := runs(t, s, "tk-a-0")
	s.Crash(t, "tk-a-0")
	expect(t, s, ended, vm.Crashed)
}

func limit(t *testing.T, s Subject) {
	for _, name := range []string{"tk-a-0", "tk-b-0", "tk-c-0"} {
		create(t, s, name)
	}
	runs(t, s, "tk-a-0")
	runs(t, s, "tk-b-0")
	expect(t, s, execute(t, s, "tk-c-0"), vm.Limited)
}

func cancel(t *testing.T, s Subject) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Driver.Pull(ctx, s.Image, vm.PullOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a pull that was cancelled: %v", err)
	}
}

func expect(t *testing.T, s Subject, ended <-chan vm.RunEnd, want ...vm.OutcomeKind) {
	t.Helper()
	select {
	case e := <-ended:
		if got := s.Driver.Classify(e); !slices.Contains(want, got.Kind) {
			t.Errorf("%+v is %+v, want %v", e, got, want)
		}
	case <-time.After(deadline):
		t.Fatalf("never ended, want %v", want)
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	late := time.After(deadline)
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
