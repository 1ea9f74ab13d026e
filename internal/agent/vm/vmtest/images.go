package vmtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func probe(t *testing.T, s Subject) {
	info, err := s.Driver.Probe(t.Context())
	if err != nil || info.Name == "" || info.Version == "" {
		t.Errorf("info %+v, err %v", info, err)
	}
	if info.Unknown {
		t.Logf("nobody has tried version %s before", info.Version)
	}
}

func pull(t *testing.T, s Subject) {
	if !s.Held {
		if _, err := s.Driver.Digest(t.Context(), s.Image); !errors.Is(err, vm.ErrNotFound) {
			t.Errorf("digest before the pull: %v", err)
		}
	}
	first := have(t, s)
	held, err := s.Driver.Digest(t.Context(), s.Image)
	if err != nil || held != first {
		t.Errorf("digest %q, err %v, want %q", held, err, first)
	}
	if again := have(t, s); again != first {
		t.Errorf("a second pull brought %q after %q", again, first)
	}
	images, err := s.Driver.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// By its tag and by its digest.
	names := 0
	for _, i := range images {
		if i.Digest == first {
			names++
		}
	}
	if names < 2 || !slices.ContainsFunc(images, func(i vm.Image) bool { return i.Name == s.Image }) {
		t.Errorf("%s is not in %+v by tag and digest", s.Image, images)
	}
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
		if c.ref == "" {
			continue
		}
		if _, err := s.Driver.Pull(t.Context(), c.ref, vm.PullOptions{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.ref, err, c.want)
		}
	}
}

func cancel(t *testing.T, s Subject) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Driver.Pull(ctx, s.Image, vm.PullOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a pull that was cancelled: %v", err)
	}
}

func createNeverReplaces(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
	if err := s.Driver.Create(t.Context(), "tk-a-0", s.Image, vm.Shape{}); !errors.Is(err, vm.ErrExists) {
		t.Errorf("a second create: %v", err)
	}
	Run(t, s, "tk-a-0")
	if err := s.Driver.Create(t.Context(), "tk-a-0", s.Image, vm.Shape{}); !errors.Is(err, vm.ErrExists) {
		t.Errorf("a create over what runs: %v", err)
	}
	// Of many at the same time, one gets it.
	const many = 4
	errs := make([]error, many)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = s.Driver.Delete(context.Background(), "tk-b-0") })
	for i := range many {
		all.Go(func() { errs[i] = s.Driver.Create(t.Context(), "tk-b-0", s.Image, vm.Shape{}) })
	}
	all.Wait()
	made := 0
	for _, err := range errs {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, vm.ErrExists):
			t.Errorf("create beside others: %v", err)
		}
	}
	if made != 1 {
		t.Errorf("%d of %d made it", made, many)
	}
}

func createOnlyFromWhatIsHeld(t *testing.T, s Subject) {
	for _, ref := range []string{s.Missing, "registry.invalid/never/pulled:v1"} {
		if ref == "" {
			continue
		}
		if err := s.Driver.Create(t.Context(), "tk-a-0", ref, vm.Shape{}); !errors.Is(err, vm.ErrNotFound) {
			t.Errorf("from %s: %v", ref, err)
		}
		if _, err := s.Driver.Machine(t.Context(), "tk-a-0"); !errors.Is(err, vm.ErrNotFound) {
			t.Errorf("something was left behind: %v", err)
		}
	}
}

// names: none is a way to another machine's files, or an option.
func names(t *testing.T, s Subject) {
	Create(t, s, "tk-a-0")
	for _, name := range []string{"", ".", "..", "../tk-a-0", "x/../tk-a-0", "--help"} {
		if err := s.Driver.Create(t.Context(), name, s.Image, vm.Shape{}); err == nil {
			t.Errorf("a machine %q was made", name)
		}
		_ = s.Driver.Delete(t.Context(), name)
		if _, err := s.Driver.Machine(t.Context(), "tk-a-0"); err != nil {
			t.Fatalf("deleting %q: %v", name, err)
		}
	}
}
