package tart

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/guest"
	"github.com/macfleet/macfleet/internal/agent/vm/vmtest"
)

func TestPullFaults(t *testing.T) {
	for _, c := range []struct {
		kind string
		want error
	}{
		{"pull-unauthorized", vm.ErrAuth},
		{"pull-not-found", vm.ErrImageNotFound},
		{"pull-no-space", vm.ErrNoSpace},
	} {
		t.Run(c.kind, func(t *testing.T) {
			s := newFake(t, faults(c.kind)).subject()
			if _, err := s.Driver.Pull(t.Context(), s.Image, vm.PullOptions{}); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	t.Run("an interrupted pull is resumed", func(t *testing.T) {
		s := newFake(t, map[string]any{"faults": []map[string]any{{"kind": "pull-interrupted", "times": 1}}}).subject()
		if _, err := s.Driver.Pull(t.Context(), s.Image, vm.PullOptions{}); err == nil || errors.Is(err, vm.ErrAuth) || errors.Is(err, vm.ErrImageNotFound) {
			t.Errorf("the first: %v", err)
		}
		if _, err := s.Driver.Digest(t.Context(), s.Image); !errors.Is(err, vm.ErrNotFound) {
			t.Errorf("half an image is taken for one: %v", err)
		}
		if _, err := s.Driver.Pull(t.Context(), s.Image, vm.PullOptions{}); err != nil {
			t.Errorf("the second: %v", err)
		}
	})
	t.Run("a pull that stalls ends with its context", func(t *testing.T) {
		s := newFake(t, faults("pull-stalls")).subject()
		ctx, stop := context.WithCancelCause(t.Context())
		stalled := errors.New("stalled")
		_, err := s.Driver.Pull(ctx, s.Image, vm.PullOptions{Progress: func(int) { stop(stalled) }})
		if !errors.Is(err, stalled) {
			t.Errorf("%v", err)
		}
	})
}

func TestCredentials(t *testing.T) {
	f := newFake(t, map[string]any{"credentials": map[string]string{"private": "robot:s3cret"}})
	s := f.subject()
	wrong := vm.PullOptions{Credential: &vm.Credential{Username: "robot", Password: "gu3ss"}}
	if _, err := s.Driver.Pull(t.Context(), s.Private, wrong); !errors.Is(err, vm.ErrAuth) || strings.Contains(err.Error(), "gu3ss") {
		t.Errorf("a wrong one: %v", err)
	}
	var percents []int
	right := vm.PullOptions{Credential: &vm.Credential{Username: "robot", Password: "s3cret"}, Progress: func(p int) { percents = append(percents, p) }}
	if _, err := s.Driver.Pull(t.Context(), s.Private, right); err != nil {
		t.Fatal(err)
	}
	if len(percents) == 0 || percents[len(percents)-1] != 100 || !slices.IsSorted(percents) {
		t.Errorf("progress %v", percents)
	}
	argvs, envs := f.calls(t, "pull")
	for i, argv := range argvs {
		if strings.Contains(strings.Join(argv, " "), "s3cret") || !slices.Contains(envs[i], "TART_REGISTRY_HOSTNAME") {
			t.Errorf("pull %q with the environment %v", argv, envs[i])
		}
	}
	if _, err := s.Driver.Images(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, envs = f.calls(t, "list"); len(envs) == 0 || slices.Contains(envs[0], "TART_REGISTRY_PASSWORD") {
		t.Errorf("others have the environment %v", envs)
	}
}

func TestCloneFaults(t *testing.T) {
	t.Run("no space", func(t *testing.T) {
		f := newFake(t, faults("clone-no-space"))
		s := f.subject()
		if _, err := f.Pull(t.Context(), s.Image, vm.PullOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := f.Create(t.Context(), "tk-a-0", s.Image, vm.Shape{}); !errors.Is(err, vm.ErrNoSpace) {
			t.Errorf("%v, want %v", err, vm.ErrNoSpace)
		}
		if _, err := f.Machine(t.Context(), "tk-a-0"); !errors.Is(err, vm.ErrNotFound) {
			t.Errorf("something was left behind: %v", err)
		}
	})
	t.Run("a tag that moves", func(t *testing.T) {
		f := newFake(t, nil)
		s := f.subject()
		before, err := f.Pull(t.Context(), s.Image, vm.PullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f.plan(t, map[string]any{"images": map[string]any{s.Image: map[string]any{"os": "linux"}}})
		vmtest.Create(t, s, "tk-moved-0")
		if after, err := f.Digest(t.Context(), s.Image); err != nil || after == before {
			t.Fatalf("the tag did not move: %s, %v", after, err)
		}
		if m, err := f.Machine(t.Context(), "tk-moved-0"); err != nil || m.MacOS {
			t.Errorf("the new image made %+v, %v", m, err)
		}
		// tart drops what no tag names any more. It is not to pull it by itself.
		held := strings.TrimSuffix(s.Image, ":v1")
		if err := f.Create(t.Context(), "tk-a-0", held+"@"+before, vm.Shape{}); !errors.Is(err, vm.ErrNotFound) {
			t.Errorf("from the old image: %v", err)
		}
		argvs, _ := f.calls(t, "clone")
		if len(argvs) != 1 || !slices.ContainsFunc(argvs[0], func(a string) bool { return strings.Contains(a, "@sha256:") }) {
			t.Errorf("clones %q", argvs)
		}
	})
	t.Run("many at the same time", func(t *testing.T) {
		f := newFake(t, map[string]any{"cloneDelay": "50ms"})
		s := f.subject()
		if _, err := f.Pull(t.Context(), s.Image, vm.PullOptions{}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		// Another process of ours has a driver of its own.
		for _, d := range []*Driver{f.Driver, New(Options{Path: f.path, Home: f.home, Environ: f.environ})} {
			for range 2 {
				all.Go(func() {
					if err := d.Create(t.Context(), "tk-a-0", s.Image, vm.Shape{}); err != nil && !errors.Is(err, vm.ErrExists) {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		if argvs, _ := f.calls(t, "clone"); len(argvs) != 1 {
			t.Errorf("clones %q", argvs)
		}
	})
	t.Run("identities differ", func(t *testing.T) {
		f := newFake(t, faults("duplicate-mac"))
		seen := map[string]bool{}
		for _, name := range []string{"tk-a-0", "tk-b-0"} {
			vmtest.Create(t, f.subject(), name)
			data, err := os.ReadFile(f.configFile(name))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(data)) {
				if key := strings.TrimSpace(line); strings.HasPrefix(key, `"macAddress"`) || strings.HasPrefix(key, `"ecid"`) {
					if seen[key] {
						t.Errorf("%s has the %s of another", name, key)
					}
					seen[key] = true
				}
			}
		}
		if len(seen) != 4 {
			t.Errorf("found %v", seen)
		}
	})
	t.Run("a suspended image", func(t *testing.T) {
		f := newFake(t, nil)
		s := f.subject()
		digest, err := f.Pull(t.Context(), s.Image, vm.PullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		link, err := f.imageLink(s.Image)
		if err != nil {
			t.Fatal(err)
		}
		saved := filepath.Join(filepath.Dir(link), digest, "state.vzvmsave")
		if err := os.WriteFile(saved, []byte("saved"), 0o600); err != nil {
			t.Fatal(err)
		}
		vmtest.Create(t, s, "tk-a-0")
		if _, err := os.Stat(filepath.Join(f.machineDir("tk-a-0"), "state.vzvmsave")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the clone would wake up instead of boot: %v", err)
		}
	})
}

func TestListFaults(t *testing.T) {
	t.Run("truncated", func(t *testing.T) {
		f := newFake(t, faults("list-truncated"))
		if _, err := f.Pull(t.Context(), f.subject().Image, vm.PullOptions{}); err != nil {
			t.Fatal(err)
		}
		if images, err := f.Images(t.Context()); err == nil {
			t.Errorf("half a list was taken for whole: %+v", images)
		}
	})
	t.Run("hangs", func(t *testing.T) {
		f := newFake(t, faults("list-hangs"))
		f.query = 100 * time.Millisecond
		if _, err := f.Images(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		// What tells of machines does not go by tart.
		vmtest.Create(t, f.subject(), "tk-a-0")
		if m, err := f.Machines(t.Context()); err != nil || len(m) != 1 {
			t.Errorf("%+v, %v", m, err)
		}
	})
	t.Run("a name that leads nowhere", func(t *testing.T) {
		d := scripted(t, `echo '[{"Source":"OCI","Name":"registry.test/macos/base:v1","Size":24}]'`)
		if images, err := d.Images(t.Context()); err != nil || len(images) != 0 {
			t.Errorf("%+v, %v", images, err)
		}
	})
}

// scripted is a tart that does something no version of it is known to do.
func scripted(t *testing.T, script string) *Driver {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "tart")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return New(Options{Path: path, Home: dir})
}

func TestErrorsKeepSecrets(t *testing.T) {
	d := scripted(t, `echo "$TART_REGISTRY_USERNAME:$TART_REGISTRY_PASSWORD was refused, code: 401" >&2; exit 1`)
	_, err := d.Pull(t.Context(), "registry.test/macos/base:v1", vm.PullOptions{Credential: &vm.Credential{Username: "robot", Password: "s3cret"}})
	if !errors.Is(err, vm.ErrAuth) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "robot") {
		t.Error(err)
	}
}

func TestStopFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		plan  map[string]any
		grace time.Duration
		want  vm.OutcomeKind
	}{
		{"the guest ignores its shutdown", faults("guest-ignores-shutdown"), 500 * time.Millisecond, vm.Stopped},
		{"tart ignores its signal, too", faults("guest-ignores-shutdown", "run-ignores-stop"), 500 * time.Millisecond, vm.Killed},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, c.plan)
			if c.want == vm.Killed {
				f.unplug = unplugLeast
			}
			s := f.subject()
			vmtest.Create(t, s, "tk-a-0")
			ended := vmtest.Run(t, s, "tk-a-0")
			vmtest.Up(t, s, "tk-a-0")
			if err := s.Driver.Stop(t.Context(), "tk-a-0", c.grace); err != nil {
				t.Fatal(err)
			}
			vmtest.Expect(t, s, ended, c.want)
		})
	}
	t.Run("no agent: the plug is pulled at once", func(t *testing.T) {
		s := newFake(t, faults("agent-never")).subject()
		vmtest.Create(t, s, "tk-a-0")
		ended := vmtest.Run(t, s, "tk-a-0")
		began := time.Now()
		if err := s.Driver.Stop(t.Context(), "tk-a-0", time.Hour); err != nil {
			t.Fatal(err)
		}
		vmtest.Expect(t, s, ended, vm.Stopped)
		if took := time.Since(began); took > 5*time.Minute { // and not an hour
			t.Errorf("took %v", took)
		}
	})
	t.Run("a shorter grace counts at once", func(t *testing.T) {
		s := newFake(t, faults("guest-ignores-shutdown")).subject()
		vmtest.Create(t, s, "tk-a-0")
		ended := vmtest.Run(t, s, "tk-a-0")
		vmtest.Up(t, s, "tk-a-0")
		first := make(chan error, 1)
		go func() { first <- s.Driver.Stop(t.Context(), "tk-a-0", time.Hour) }()
		if err := s.Driver.Stop(t.Context(), "tk-a-0", 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-first:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the first stop goes on")
		}
		vmtest.Expect(t, s, ended, vm.Stopped)
	})
	t.Run("a stop that is given up", func(t *testing.T) {
		s := newFake(t, faults("guest-ignores-shutdown")).subject()
		vmtest.Create(t, s, "tk-a-0")
		vmtest.Run(t, s, "tk-a-0")
		vmtest.Up(t, s, "tk-a-0")
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		if err := s.Driver.Stop(ctx, "tk-a-0", time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestRunFaults(t *testing.T) {
	for kind, want := range map[string]vm.OutcomeKind{
		"run-exits-early": vm.NotStarted, "run-no-session": vm.NotStarted, "run-limit": vm.Limited,
		"network-lost": vm.Crashed, "boot-crash": vm.Crashed,
	} {
		t.Run(kind, func(t *testing.T) {
			s := newFake(t, faults(kind)).subject()
			vmtest.Create(t, s, "tk-a-0")
			vmtest.Expect(t, s, vmtest.Execute(t, s, "tk-a-0"), want)
		})
	}
}

func TestGuestFaults(t *testing.T) {
	t.Run("no agent", func(t *testing.T) {
		s := newFake(t, faults("agent-never")).subject()
		vmtest.Create(t, s, "tk-a-0")
		vmtest.Run(t, s, "tk-a-0")
		g := guest.Dial(s.Driver.GuestSocket("tk-a-0"), guest.Options{})
		defer g.Close()
		if _, err := g.Exec(t.Context(), vm.GuestCommand{Argv: []string{"true"}}, vm.Streams{}); !errors.Is(err, vm.ErrGuestUnreachable) {
			t.Errorf("%v", err)
		}
	})
	t.Run("the connection breaks once a command began", func(t *testing.T) {
		s := newFake(t, map[string]any{"faults": []map[string]any{{"kind": "agent-drops", "step": "'600'"}}}).subject()
		vmtest.Create(t, s, "tk-a-0")
		vmtest.Run(t, s, "tk-a-0")
		g := vmtest.Up(t, s, "tk-a-0")
		_, err := g.Exec(t.Context(), vm.GuestCommand{Argv: []string{"sleep", "600"}}, vm.Streams{})
		if !errors.Is(err, vm.ErrLost) || errors.Is(err, vm.ErrGuestUnreachable) || errors.Is(err, vm.ErrNotExecuted) {
			t.Errorf("%v", err)
		}
		if code, err := g.Exec(t.Context(), vm.GuestCommand{Argv: []string{"/bin/sh", "-c", "exit 9"}}, vm.Streams{}); err != nil || code != 9 {
			t.Errorf("the next command: code %d, err %v", code, err)
		}
	})
	t.Run("the connection breaks at the first question", func(t *testing.T) {
		s := newFake(t, map[string]any{"faults": []map[string]any{{"kind": "agent-drops", "times": 2}}}).subject()
		vmtest.Create(t, s, "tk-a-0")
		vmtest.Run(t, s, "tk-a-0")
		g := vmtest.Up(t, s, "tk-a-0")
		if code, err := g.Exec(t.Context(), vm.GuestCommand{Argv: []string{"/bin/sh", "-c", "exit 9"}}, vm.Streams{}); err != nil || code != 9 {
			t.Errorf("code %d, err %v", code, err)
		}
	})
	t.Run("the machine goes", func(t *testing.T) {
		s := newFake(t, nil).subject()
		vmtest.Create(t, s, "tk-a-0")
		ended := vmtest.Run(t, s, "tk-a-0")
		g := vmtest.Up(t, s, "tk-a-0")
		go func() { _ = s.Driver.Stop(context.Background(), "tk-a-0", 0) }()
		if _, err := g.Exec(t.Context(), vm.GuestCommand{Argv: []string{"sleep", "600"}}, vm.Streams{}); !errors.Is(err, vm.ErrLost) && !errors.Is(err, vm.ErrGuestUnreachable) {
			t.Errorf("%v", err)
		}
		vmtest.Expect(t, s, ended, vm.Stopped)
	})
}
