package image

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const base = "r.test/macos/base:v1"

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		held   bool
		policy corev1.PullPolicy
		pulls  int
		err    error
	}{
		{false, corev1.PullIfNotPresent, 1, nil},
		{true, corev1.PullIfNotPresent, 0, nil},
		{false, corev1.PullAlways, 1, nil},
		{true, corev1.PullAlways, 1, nil},
		{false, corev1.PullNever, 0, errNeverPull},
		{true, corev1.PullNever, 0, nil},
	} {
		h := newHost()
		h.publish(base, 1, gb, "")
		if c.held {
			h.here(base, 1, gb)
		}
		told := 0
		got, err := New(options(t, h)).Ensure(t.Context(), Request{Ref: base, Policy: c.policy, Pulling: func() { told++ }})
		if !errors.Is(err, c.err) || len(h.pulled()) != c.pulls || told != c.pulls {
			t.Errorf("held %t, %s: %v, pulls %v, told %d times", c.held, c.policy, err, h.pulled(), told)
		}
		want := Result{Digest: sha(1), Ref: "r.test/macos/base@" + sha(1), Pulled: c.pulls > 0}
		if err == nil && got != want {
			t.Errorf("held %t, %s: %s", c.held, c.policy, cmp.Diff(want, got))
		}
	}
}

func TestReferences(t *testing.T) {
	for text, want := range map[string]string{
		"r.test/a":                   "r.test/a:latest",
		"r.test:5000/a/b":            "r.test:5000/a/b:latest",
		"r.test:5000/a:v1":           "r.test:5000/a:v1",
		"r.test/a@" + sha(1):         "r.test/a@" + sha(1),
		"base":                       "",
		"":                           "",
		"r.test/":                    "",
		"/a:v1":                      "",
		"r.test/a:":                  "",
		"r.test/a@":                  "",
		"r.test/a:v1@" + sha(1):      "r.test/a@" + sha(1),
		"r.test:5000/a:v1@" + sha(1): "r.test:5000/a@" + sha(1),
		"r.test:5000/a@" + sha(1):    "r.test:5000/a@" + sha(1),
		"r.test/a:@" + sha(1):        "",
		"r.test/a:v1@":               "",
		"r.test:5000@" + sha(1):      "",
		strings.Repeat("a", 1<<16):   "",
		"r.test/a b:v1":              "r.test/a b:v1", // the driver refuses it
		"tk-11111111-1111-1111-1-0":  "",
	} {
		got, err := parseReference(text)
		if want == "" && !errors.Is(err, vm.ErrInvalidReference) || want != "" && (err != nil || got.String() != want) {
			t.Errorf("%.80q: %v, %v; want %q", text, got, err, want)
		}
	}
}

func TestReasons(t *testing.T) {
	h := newHost()
	s := New(options(t, h))
	for reason, r := range map[string]Request{
		"InvalidImageName":  {Ref: "base"},
		"ErrImageNeverPull": {Ref: base, Policy: corev1.PullNever},
		"ErrImagePull":      {Ref: "r.test/missing:v1"},
	} {
		if _, err := s.Ensure(t.Context(), r); Reason(err) != reason {
			t.Errorf("%+v: %v is %s, want %s", r, err, Reason(err), reason)
		}
	}
}

// Only a refusal is asked again with the next credential: a pull of 60 GB that
// breaks is not begun anew once for each Secret.
func TestWhichCredentialIsTried(t *testing.T) {
	broken := errors.New("the network is down")
	for _, c := range []struct {
		name, password string
		fails          error
		want           []string
		err            error
	}{
		{"the second is right", "p2", nil, []string{"u1 " + base, "u2 " + base}, nil},
		{"none is needed", "", nil, []string{"u1 " + base}, nil},
		{"none is right", "p3", nil, []string{"u1 " + base, "u2 " + base, "nobody " + base}, vm.ErrAuth},
		{"the network breaks", "p2", broken, []string{"u1 " + base}, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost()
			h.publish(base, 1, gb, c.password)
			h.failWith = c.fails
			secrets := []corev1.Secret{secret("one", "r.test", "u1", "p1"), secret("two", "r.test", "u2", "p2")}
			_, err := New(options(t, h)).Ensure(t.Context(), Request{Ref: base, PullSecrets: secrets})
			if !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			if diff := cmp.Diff(c.want, h.pulled()); diff != "" {
				t.Errorf("pulls (-want +got)\n%s", diff)
			}
			if err != nil && (strings.Contains(err.Error(), "p1") || strings.Contains(err.Error(), "u1")) {
				t.Errorf("the error shows a credential: %v", err)
			}
		})
	}
}

func TestNoSpace(t *testing.T) {
	const big = "r.test/macos/big:v1"
	t.Run("unused images go first, once", func(t *testing.T) {
		h := newHost()
		h.total = 100 * gb
		h.publish(big, 9, 70*gb, "")
		h.here("r.test/macos/old:v1", 1, 30*gb)
		h.here("r.test/macos/used:v1", 2, 20*gb)
		o := options(t, h)
		o.InUse = func() []string { return []string{"r.test/macos/used:v1", big} }
		if _, err := New(o).Ensure(t.Context(), Request{Ref: big}); err != nil {
			t.Fatal(err)
		}
		if len(h.pulled()) != 2 || h.has(sha(1)) || !h.has(sha(2)) || !h.has(sha(9)) {
			t.Errorf("pulls %v, held %v", h.pulled(), h.held)
		}
	})
	t.Run("bigger than the disk", func(t *testing.T) {
		h := newHost()
		h.total = 100 * gb
		h.publish(big, 9, 120*gb, "")
		_, err := New(options(t, h)).Ensure(t.Context(), Request{Ref: big})
		var full *noSpaceError
		if !errors.Is(err, vm.ErrNoSpace) || !errors.As(err, &full) || Reason(err) != "ErrImagePull" {
			t.Fatal(err)
		}
		if len(h.pulled()) != 1 || full.Total != 100*gb || !strings.Contains(err.Error(), "had 100.0 GB free of 100.0 GB") {
			t.Errorf("pulls %v, error %v", h.pulled(), err)
		}
	})
	t.Run("with an estimate", func(t *testing.T) {
		h := newHost()
		h.total = 100 * gb
		h.gate, h.failWith = make(chan struct{}), vm.ErrNoSpace
		s := New(options(t, h))
		done := make(chan error, 1)
		go func() {
			_, err := s.Ensure(t.Context(), Request{Ref: big})
			done <- err
		}()
		receive(t, "the pull", h.started)
		h.progress(20) // resumed
		h.progress(60)
		h.set(func() { h.foreign = 80 * gb })
		close(h.gate)
		err := receive(t, "the end", done)
		if err == nil || !strings.Contains(err.Error(), "still needed about 160.0 GB") {
			t.Error(err)
		}
	})
}
