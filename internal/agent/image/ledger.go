package image

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/atomicfile"
)

const (
	ledgerSchema = "macfleet.dev/images/v1"
	saltBytes    = 32
	// proofLimit bounds what is kept of one image; the oldest is given up, and its
	// Pods prove themselves anew.
	proofLimit = 100
)

// ledger remembers of each image who proved to be allowed to have it, and when it
// was used. From the first pull with credentials on, a repository is private: what
// comes of it, whoever brings it and however the pull ends, is given only to Pods
// that have credentials that worked, or the Secret they were in. What was here before,
// or was pulled without any, is everybody's. Credentials are kept as hashes with a
// salt of this host's own.
type ledger struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	kept  kept
	dirty bool
}

// kept is the file.
type kept struct {
	Schema string `json:"schema"`
	Salt   []byte `json:"salt"`
	// Distrust: an earlier file was lost, so that an image without a record may be
	// one that was pulled with credentials.
	Distrust bool                   `json:"distrust,omitempty"`
	Images   map[string]imageRecord `json:"images"`
	// Private repositories, sorted. None is ever taken out: the tool goes on with a pull
	// when the agent is gone, and links a tag after its image.
	Private []string `json:"privateRepositories,omitempty"`
}

// imageRecord is of one digest.
type imageRecord struct {
	// Public: it was pulled without credentials of a Pod, or before any.
	Public bool `json:"public,omitempty"`
	// Proofs are the credentials that it was pulled with.
	Proofs []proof `json:"proofs,omitempty"`
	// Seen is when it was first found here, Used when a Pod last got it.
	Seen time.Time `json:"seen,omitzero"`
	Used time.Time `json:"used,omitzero"`
}

type proof struct {
	Secret secretID `json:"secret"`
	Hash   string   `json:"hash"`
}

// openLedger reads the file. One that cannot be read is put aside: then no image
// without a record is trusted to be everybody's.
func openLedger(path string, log *slog.Logger) *ledger {
	l := &ledger{path: path, log: log}
	err := l.load()
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		l.kept = kept{}
	default:
		aside := path + ".unreadable"
		log.Error("what was known of images is lost, Pods prove their credentials anew", "file", aside, "err", err, "rename", os.Rename(path, aside))
		l.kept = kept{Distrust: true}
	}
	l.kept.Schema = ledgerSchema
	if l.kept.Images == nil {
		l.kept.Images = map[string]imageRecord{}
	}
	if len(l.kept.Salt) != saltBytes {
		l.kept.Salt = make([]byte, saltBytes)
		_, _ = rand.Read(l.kept.Salt) // never fails
	}
	return l
}

func (l *ledger) load() error {
	if l.path == "" {
		return fs.ErrNotExist
	}
	data, err := os.ReadFile(l.path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &l.kept); err != nil {
		return err
	}
	if l.kept.Schema != ledgerSchema {
		return fmt.Errorf("schema %q, this build reads %q", l.kept.Schema, ledgerSchema)
	}
	return nil
}

// hash names a credential without telling it, and is empty for none.
func (l *ledger) hash(c credential) string {
	if c.none() {
		return ""
	}
	h := hmac.New(sha256.New, l.kept.Salt)
	_ = json.NewEncoder(h).Encode([]string{c.username, c.password}) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// allows reports whether a Pod that offers these credentials may have the image of
// a repository.
func (l *ledger) allows(repository, digest string, offered []credential) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kept.Images[digest]
	if r.Public || len(r.Proofs) == 0 && !l.kept.Distrust && !l.isPrivate(repository) {
		return true
	}
	return slices.ContainsFunc(r.Proofs, func(p proof) bool {
		return slices.ContainsFunc(offered, func(c credential) bool {
			return p.Hash == l.hash(c) || p.Secret == c.secret
		})
	})
}

// private reports whether a repository was pulled from with credentials.
func (l *ledger) private(repository string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isPrivate(repository)
}

func (l *ledger) isPrivate(repository string) bool {
	_, found := slices.BinarySearch(l.kept.Private, directory(repository))
	return found
}

// directory is the same for all spellings of a repository that lead to one place on
// a volume that does not tell case.
func directory(repository string) string { return path.Clean(strings.ToLower(repository)) }

// intend notes that a repository is about to be pulled from with credentials, with
// the digests of it that are here. It must be on the disk before.
func (l *ledger) intend(repository string, here []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.kept.Distrust {
		l.publish(here)
	}
	before := l.kept.Private
	l.kept.Private = slices.Sorted(slices.Values(append(slices.Clone(before), directory(repository))))
	err := l.save()
	if err != nil {
		l.kept.Private = before // and the next pull tries again
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("noting the pull from %s: %w: %w", repository, vm.ErrNoSpace, err)
	}
	if err != nil {
		return fmt.Errorf("noting the pull from %s: %w", repository, err)
	}
	return nil
}

// publish makes images everybody's that nobody had to prove anything for.
func (l *ledger) publish(digests []string) {
	for _, d := range digests {
		if r := l.kept.Images[d]; len(r.Proofs) == 0 {
			r.Public = true
			l.kept.Images[d] = r
		}
	}
}

// proved notes that a credential, or none, gives access to an image.
func (l *ledger) proved(digest string, c credential) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kept.Images[digest]
	if c.none() {
		r.Public, r.Proofs = true, nil
	} else {
		p := proof{Secret: c.secret, Hash: l.hash(c)}
		r.Proofs = append(slices.DeleteFunc(r.Proofs, func(o proof) bool { return o == p }), p)
		r.Proofs = r.Proofs[max(0, len(r.Proofs)-proofLimit):]
	}
	l.kept.Images[digest] = r
	l.saveOrLater()
}

// touch notes a use, which the next flush writes.
func (l *ledger) touch(digest string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kept.Images[digest]
	r.Used = now
	l.kept.Images[digest], l.dirty = r, true
}

// used returns the last use of an image, or when it was first seen here.
func (l *ledger) used(digest string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kept.Images[digest]
	if r.Used.IsZero() {
		return r.Seen
	}
	return r.Used
}

// observe notes images found here for the first time.
func (l *ledger) observe(digests []string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range digests {
		if r := l.kept.Images[d]; r.Seen.IsZero() {
			r.Seen = now
			l.kept.Images[d], l.dirty = r, true
		}
	}
}

// forget drops the record of an image that was removed.
func (l *ledger) forget(digest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.kept.Images, digest)
	l.dirty = true
}

// flush writes what only changed times.
func (l *ledger) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dirty {
		l.saveOrLater()
	}
}

func (l *ledger) saveOrLater() {
	if err := l.save(); err != nil {
		l.dirty = true
		l.log.Warn("what is known of images is not written, trying again", "err", err)
	}
}

// save replaces the file.
func (l *ledger) save() error {
	if l.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.WriteJSON(l.path, l.kept); err != nil {
		return err
	}
	l.dirty = false
	return nil
}
