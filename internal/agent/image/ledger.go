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
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	ledgerSchema = "macfleet.dev/images/v1"
	saltBytes    = 32
	// proofLimit bounds what is kept of one image; the oldest is given up, and its
	// Pods prove themselves anew.
	proofLimit = 100
)

// ledger remembers of each image who proved to be allowed to have it, and when it
// was used. An image pulled with credentials is given only to Pods that have one of
// them, or the Secret it was in; one that was here before, or pulled without, is
// everybody's. Credentials are kept as hashes with a salt of this host's own.
type ledger struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	kept  kept
	dirty bool
	// leftover are pulls that an earlier life of the agent did not see the end of.
	leftover map[string]string
}

// kept is the file.
type kept struct {
	Schema string `json:"schema"`
	Salt   []byte `json:"salt"`
	// Distrust: an earlier file was lost, so that an image without a record may be
	// one that was pulled with credentials.
	Distrust bool                   `json:"distrust,omitempty"`
	Images   map[string]imageRecord `json:"images"`
	// Intents are the pulls with credentials under way: by reference, the digest
	// that was here before.
	Intents map[string]string `json:"intents,omitempty"`
}

// imageRecord is of one digest.
type imageRecord struct {
	// Public: it was pulled without credentials of a Pod.
	Public bool `json:"public,omitempty"`
	// Private: it was pulled with some; Proofs are those that worked.
	Private bool    `json:"private,omitempty"`
	Proofs  []proof `json:"proofs,omitempty"`
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
	l.leftover, l.kept.Intents = l.kept.Intents, map[string]string{}
	for ref, digest := range l.leftover {
		l.kept.Intents[ref] = digest
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

// allows reports whether a Pod that offers these credentials may have the image.
func (l *ledger) allows(digest string, offered []credential) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kept.Images[digest]
	if r.Public || !r.Private {
		return r.Public || !l.kept.Distrust
	}
	return slices.ContainsFunc(r.Proofs, func(p proof) bool {
		return slices.ContainsFunc(offered, func(c credential) bool {
			return p.Hash == l.hash(c) || p.Secret == c.secret
		})
	})
}

// unsettled returns the pulls with credentials whose end nobody saw.
func (l *ledger) unsettled() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leftover
}

// settle ends them, with what is here now.
func (l *ledger) settle(now map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ref, before := range l.leftover {
		l.suspect(before, now[ref])
		delete(l.kept.Intents, ref)
	}
	l.leftover = nil
	l.saveOrLater()
}

// suspect keeps an image that a pull of unknown end may have brought from Pods
// without a proof.
func (l *ledger) suspect(before, digest string) {
	if digest == "" || digest == before {
		return
	}
	if r := l.kept.Images[digest]; !r.Public {
		r.Private = true
		l.kept.Images[digest] = r
	}
}

// intend notes that a pull with a credential begins. It must be on the disk before.
func (l *ledger) intend(ref, before string, c credential) error {
	if c.none() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.Intents[ref] = before
	err := l.save(true)
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("noting the pull of %s: %w: %w", ref, vm.ErrNoSpace, err)
	}
	if err != nil {
		return fmt.Errorf("noting the pull of %s: %w", ref, err)
	}
	return nil
}

// failed notes that a pull brought nothing, as far as anybody knows.
func (l *ledger) failed(ref, digest string, c credential) {
	if c.none() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspect(l.kept.Intents[ref], digest)
	delete(l.kept.Intents, ref)
	l.saveOrLater()
}

// proved notes that a credential, or none, gives access to an image. When that
// cannot be written, the intent stays on the disk, and says enough.
func (l *ledger) proved(ref, digest string, c credential) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kept.Images[digest]
	if c.none() {
		r.Public, r.Proofs = true, nil
	} else {
		r.Private = true
		p := proof{Secret: c.secret, Hash: l.hash(c)}
		r.Proofs = append(slices.DeleteFunc(r.Proofs, func(o proof) bool { return o == p }), p)
		r.Proofs = r.Proofs[max(0, len(r.Proofs)-proofLimit):]
		delete(l.kept.Intents, ref)
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

// see notes images found here for the first time.
func (l *ledger) see(digests []string, now time.Time) {
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
	if err := l.save(false); err != nil {
		l.dirty = true
		l.log.Warn("what is known of images is not written, trying again", "err", err)
	}
}

// save replaces the file; durable waits for the disk.
func (l *ledger) save(durable bool) (err error) {
	if l.path == "" {
		return nil
	}
	data, err := json.Marshal(l.kept)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if durable && err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(l.path+".new", l.path); err != nil {
		return err
	}
	l.dirty = false
	return nil
}
