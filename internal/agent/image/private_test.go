package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/atomicfile"
)

func owner() credential {
	return credential{secret: secretID{"team", "owner", "uid-owner"}, username: "u", password: "right"}
}

// arrive puts an image on the host as the tool does before it links the tag.
func (h *fakeHost) arrive(ref string, n int) string {
	at := repositoryOf(ref) + "@" + sha(n)
	h.set(func() { h.held[at], h.sizes[sha(n)] = sha(n), gb })
	return at
}

func never(t *testing.T, s *Store, ref string) error {
	t.Helper()
	_, err := s.Ensure(t.Context(), Request{Ref: ref, Policy: corev1.PullNever})
	return err
}

// What a pull with credentials brings before it fails is not for everybody: neither by
// its tag, nor by its digest where the tag is not linked yet, in no spelling.
func TestAPullThatFailsLeavesNothingForEverybody(t *testing.T) {
	secrets := []corev1.Secret{secret("owner", "r.test", "u", "right")}
	h := newHost()
	h.publish(base, 1, gb, "right")
	h.gate, h.failWith = make(chan struct{}), errors.New("killed before the tag was linked")
	s := New(options(t, h))
	done := ask(t.Context(), s, Request{Ref: base, PullSecrets: secrets})
	receive(t, "the pull", h.started)
	at := h.arrive(base, 1)
	if err := never(t, s, at); !errors.Is(err, errNeverPull) {
		t.Errorf("while it is pulled: %v", err)
	}
	close(h.gate)
	if got := receive(t, "the end", done); got.err == nil {
		t.Fatal("no error")
	}
	h.here(base, 1, gb)
	shouted, dotted := strings.Replace(at, "r.test/macos", "R.test/MacOS", 1), strings.Replace(at, "/macos", "/./macos", 1)
	h.set(func() { h.held[shouted], h.held[dotted], h.failWith = sha(1), sha(1), nil })
	for _, ref := range []string{at, base, shouted, dotted} {
		if err := never(t, s, ref); !errors.Is(err, errNeverPull) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if _, err := s.Ensure(t.Context(), Request{Ref: base, PullSecrets: secrets}); err != nil {
		t.Errorf("the owner: %v", err)
	}
}

// The tool goes on with a pull when the agent is gone, for as long as it takes.
func TestAPullThatOutlivesTheAgentIsNotForEverybody(t *testing.T) {
	h := newHost()
	h.publish(base, 2, gb, "right")
	h.here(base, 1, gb) // of the host, and everybody's
	o := options(t, h)
	if err := New(o).intend(t.Context(), repositoryOf(base), owner()); err != nil {
		t.Fatal(err)
	}
	s := New(o)
	run(t, s)
	if err := never(t, s, base); err != nil {
		t.Errorf("the old image: %v", err)
	}
	at := h.arrive(base, 2)
	for _, s := range []*Store{s, New(o)} {
		if err := never(t, s, at); !errors.Is(err, errNeverPull) {
			t.Errorf("the new image: %v", err)
		}
	}
	other := "r.test/macos/other:v1"
	h.here(other, 3, gb)
	if err := s.intend(t.Context(), repositoryOf(other), owner()); err != nil {
		t.Fatal(err)
	}
	if err := never(t, s, other); err != nil {
		t.Errorf("another repository's: %v", err)
	}
	if err := never(t, s, at); !errors.Is(err, errNeverPull) {
		t.Errorf("the new image, now that another repository became private: %v", err)
	}
}

// speechless is a host that does not tell what it has.
type speechless struct{ *fakeHost }

func (speechless) Images(context.Context) ([]vm.Image, error) { return nil, vm.ErrUnusable }

func TestNoPullWithCredentialsBeforeItIsKnownWhatIsHere(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "right")
	o := options(t, h)
	o.Source = speechless{h}
	_, err := New(o).Ensure(t.Context(), Request{Ref: base, PullSecrets: []corev1.Secret{secret("owner", "r.test", "u", "right")}})
	if !errors.Is(err, vm.ErrUnusable) || len(h.pulled()) != 0 {
		t.Errorf("%v, pulls %v", err, h.pulled())
	}
}

// An intent that a power cut may take back is none; package atomicfile waits for the disk.
func TestAnIntentIsOnTheDisk(t *testing.T) {
	o := options(t, newHost())
	scratch := atomicfile.Temp(filepath.Join(o.Dir, "images.json"))
	if err := os.MkdirAll(filepath.Join(scratch, "in its place"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := New(o)
	for range 2 { // the second is not taken for known
		if err := s.intend(t.Context(), repositoryOf(base), owner()); err == nil {
			t.Fatal("an intent that is on no disk")
		}
	}
	if err := os.RemoveAll(scratch); err != nil {
		t.Fatal(err)
	}
	if err := s.intend(t.Context(), repositoryOf(base), owner()); err != nil || !New(o).ledger.private(repositoryOf(base)) {
		t.Error(err)
	}
}

// Where an earlier record was lost, what is here may be private.
func TestNothingIsPublishedInDistrust(t *testing.T) {
	h := newHost()
	h.here(base, 1, gb)
	o := options(t, h)
	if err := os.WriteFile(filepath.Join(o.Dir, "images.json"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := New(o)
	if err := s.intend(t.Context(), repositoryOf(base), owner()); err != nil {
		t.Fatal(err)
	}
	if err := never(t, s, base); !errors.Is(err, errNeverPull) {
		t.Error(err)
	}
}

// No credential is kept longer than it is asked for, not even as a hash.
func TestAPublicImageHasNoProofs(t *testing.T) {
	l := New(options(t, newHost())).ledger
	l.proved(sha(1), owner())
	l.proved(sha(1), credential{})
	if diff := cmp.Diff(imageRecord{Public: true}, l.kept.Images[sha(1)]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
