package vmtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func life(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
	ended := Run(t, s, "tk-a-0")
	machines, err := s.Driver.Machines(t.Context())
	// Whether it has powered on by now depends on how busy the host is.
	there := func(m vm.Machine) bool { return m.Name == "tk-a-0" && m.Running && m.MacOS && m.Unseen == nil }
	if err != nil || !slices.ContainsFunc(machines, there) {
		t.Errorf("machines %+v, err %v", machines, err)
	}
	if err := s.Driver.Stop(t.Context(), "tk-a-0", s.patience()); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Driver.Machine(t.Context(), "tk-a-0"); err != nil || m.Running {
		t.Errorf("after stop: %+v, %v", m, err)
	}
	// Which of them depends on how far the guest came.
	Expect(t, s, ended, vm.Stopped, vm.ShutDown)
	if err := s.Driver.Delete(t.Context(), "tk-a-0"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Driver.Machine(t.Context(), "tk-a-0"); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
}

func wait(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
	if err := s.Driver.Wait(t.Context(), "tk-a-0"); err != nil {
		t.Errorf("waiting for one that does not run: %v", err)
	}
	Run(t, s, "tk-a-0")
	short, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := s.Driver.Wait(short, "tk-a-0"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for one that runs: %v", err)
	}
	waited := make(chan error, 2)
	for range 2 {
		go func() { waited <- s.Driver.Wait(t.Context(), "tk-a-0") }()
	}
	if err := s.Driver.Stop(t.Context(), "tk-a-0", 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-waited:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(s.patience()):
			t.Fatal("nobody told who waits")
		}
	}
}

func stopIsIdempotent(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
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

func stopAsksTheGuest(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
	ended := Run(t, s, "tk-a-0")
	Up(t, s, "tk-a-0")
	began := time.Now()
	if err := s.Driver.Stop(t.Context(), "tk-a-0", s.patience()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > s.patience() {
		t.Errorf("took %v", took)
	}
	Expect(t, s, ended, vm.ShutDown)
}

// stopWithoutGrace pulls the plug.
func stopWithoutGrace(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
	ended := Run(t, s, "tk-a-0")
	Up(t, s, "tk-a-0")
	if err := s.Driver.Stop(t.Context(), "tk-a-0", 0); err != nil {
		t.Fatal(err)
	}
	Expect(t, s, ended, vm.Stopped)
}

func deleteRunning(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
	Run(t, s, "tk-a-0")
	if err := s.Driver.Delete(t.Context(), "tk-a-0"); !errors.Is(err, vm.ErrRunning) {
		t.Errorf("deleting what runs: %v", err)
	}
}

func guestShutsDown(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
	ended := Run(t, s, "tk-a-0")
	g := Up(t, s, "tk-a-0")
	// It may go down before it says how the command ended.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_, _ = g.Exec(ctx, vm.GuestCommand{Argv: []string{"/bin/sh", "-c", `PATH=$PATH:/sbin:/usr/sbin; shutdown -h now || sudo -n shutdown -h now`}}, vm.Streams{})
	}()
	Expect(t, s, ended, vm.ShutDown)
}

func guestCrashes(t *testing.T, s Subject) {
	if s.Crash == nil {
		t.Skip("guests cannot be made to crash here")
	}
	Create(t, s, "tk-a-0")
	ended := Run(t, s, "tk-a-0")
	Up(t, s, "tk-a-0")
	s.Crash(t, "tk-a-0")
	Expect(t, s, ended, vm.Crashed)
}

func runTwice(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
	Run(t, s, "tk-a-0")
	Expect(t, s, Execute(t, s, "tk-a-0"), vm.NotStarted)
	if m, err := s.Driver.Machine(t.Context(), "tk-a-0"); err != nil || !m.Running {
		t.Errorf("the first one is %+v, err %v", m, err)
	}
}

func limit(t *testing.T, s Subject) {
	for _, name := range []string{"tk-a-0", "tk-b-0", "tk-c-0"} {
		Create(t, s, name)
	}
	Run(t, s, "tk-a-0")
	Run(t, s, "tk-b-0")
	Up(t, s, "tk-b-0")
	Expect(t, s, Execute(t, s, "tk-c-0"), vm.Limited)
}
