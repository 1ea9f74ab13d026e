package session

import (
	"bytes"
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	// File is where the note is.
	File = document.StateDir + "/session.json"
	// Lock is held by the process that restarts loginwindow, or changes the note.
	Lock = document.StateDir + "/session.lock"

	lockWait = time.Minute
	// restartCooldown is between two restarts of loginwindow in one boot, at least.
	restartCooldown = 10 * time.Minute
	// keptRefused bounds the passwords that are remembered as wrong.
	keptRefused = 8
	// refusedRounds makes guessing what a wrong password was slow.
	refusedRounds = 100_000
)

// note is what is remembered of the console. One that cannot be read is as good as none:
// at worst loginwindow restarts once more.
var note = step.Note[sessionNote]{Path: File, What: File}

// sessionNote is its content.
type sessionNote struct {
	// RestartedAt and BootSession are the last restart of loginwindow.
	RestartedAt time.Time `json:"kickedAt,omitzero"`
	BootSession string    `json:"bootSession,omitempty"`
	// Done: it was made. A run that was cut off in between leaves it unset, and no
	// one knows.
	Done bool `json:"done,omitempty"`
	// Refused are hashes of passwords that macOS sealed, or that brought no session twice,
	// so that none is tried again: a few wrong ones lock the account, and SSH with it.
	Refused []hashedPassword `json:"refused,omitempty"`
	// Tried is the password with which a restart of loginwindow brought no session, until
	// there is one. Not every macOS seals a wrong one.
	Tried *hashedPassword `json:"tried,omitempty"`
}

type hashedPassword struct {
	Salt []byte `json:"salt"`
	Hash []byte `json:"hash"`
}

// Nobody reports that no person has the console: it is root's, or a system account's, whose
// names begin with an underscore, as that of the Setup Assistant.
func Nobody(owner string) bool {
	return owner == "" || owner == step.Root || strings.HasPrefix(owner, "_")
}

// AnotherUser reports whether the owner of the console is a person other than the user. Where
// none is, loginwindow may be restarted, which ends what is on it.
func AnotherUser(owner, user string) bool { return owner != user && !Nobody(owner) }

// RestartLoginwindow restarts loginwindow, so that it logs the user in, at most once
// per restartCooldown and boot, and reports whether it did or tried to. The caller has seen that
// there is no session and that no guest runs: both would end. It is for converge
// and for hostd, which hold the same record of it in the state folder.
func RestartLoginwindow(ctx context.Context, mac macos.Mac, user string) (bool, error) {
	unlock, err := lockSession(ctx, mac)
	if err != nil {
		return false, err
	}
	defer func() { _ = unlock.Close() }()
	// Who held the lock may have brought it back.
	if up, err := mac.Session.Aqua(ctx, user); up || err != nil {
		return false, err
	}
	boot, err := step.BootSession(ctx, mac)
	if err != nil {
		return false, err
	}
	last, err := note.Read(mac.Files)
	if err != nil {
		return false, err
	}
	now := mac.Clock.Now()
	recent := last.BootSession == boot && now.Sub(last.RestartedAt).Abs() < restartCooldown
	switch {
	case recent && last.Done:
		return false, step.Fail(document.Retry, "loginwindow was restarted %s ago and no session of %s is there; the next try is %s after that one",
			now.Sub(last.RestartedAt).Round(time.Second), user, restartCooldown)
	case recent:
		// Nobody knows whether it was made. If it was, a session is on its way.
		if up, err := awaitSession(ctx, mac, user); up || err != nil {
			return false, err
		}
	}
	last.RestartedAt, last.BootSession, last.Done = mac.Clock.Now().UTC(), boot, false
	if err := note.Write(ctx, mac.Files, last); err != nil {
		return false, err
	}
	if err := mac.Session.RestartLoginwindow(ctx); err != nil {
		return true, restartFailed(ctx, err)
	}
	last.Done = true
	return true, note.Write(ctx, mac.Files, last)
}

// restartFailed is the failure of a restart of loginwindow. What logs the user in is
// stored, and a boot starts loginwindow anew.
func restartFailed(ctx context.Context, err error) error {
	if _, refused := errors.AsType[*macos.LaunchdError](err); !refused || ctx.Err() != nil {
		return fmt.Errorf("restarting loginwindow: %w", err) // an answer that did not come may come the next time
	}
	return step.Fail(document.Reboot, "restarting loginwindow: %w: reboot the Mac", err)
}

// lockSession keeps converge and hostd from restarting loginwindow at once, and from
// forgetting what the other has noted.
func lockSession(ctx context.Context, mac macos.Mac) (io.Closer, error) {
	unlock, err := step.Lock(ctx, mac, Lock, lockWait)
	if errors.Is(err, macos.ErrLocked) {
		return nil, step.Fail(document.Retry, "another process has been restarting loginwindow for %s", lockWait)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the console's record: %w", err)
	}
	return unlock, nil
}

// awaitSession waits for a session that may be starting.
func awaitSession(ctx context.Context, mac macos.Mac, user string) (bool, error) {
	err := step.Await(ctx, mac.Clock, sessionTimeout, "a console session", func() (bool, error) {
		return mac.Session.Aqua(ctx, user)
	})
	if _, ok := errors.AsType[*step.TimeoutError](err); ok {
		return false, nil
	}
	return err == nil, err
}

// refusedBefore reports whether this password was refused before.
func (c *Console) refusedBefore(password string) (bool, error) {
	last, err := note.Read(c.Mac.Files)
	if err != nil {
		return false, err
	}
	for _, r := range last.Refused {
		if refused, err := r.is(password); refused || err != nil {
			return refused, err
		}
	}
	return false, nil
}

// recordRefused keeps the hash of the password that lay there when this run began
// to log in, and was refused. The document's may be another one, which has yet to be
// tried. A right password is never kept this way.
func (c *Console) recordRefused(ctx context.Context) error {
	if c.tried == "" {
		return nil
	}
	hashed, err := newHashed(c.tried)
	if err != nil {
		return err
	}
	return changeNote(ctx, c.Mac, func(n *sessionNote) { n.refuse(hashed) })
}

// recordTried keeps the hash of the password with which this run restarted loginwindow and
// no session came.
func (c *Console) recordTried(ctx context.Context) error {
	hashed, err := newHashed(c.tried)
	if err != nil {
		return err
	}
	return changeNote(ctx, c.Mac, func(n *sessionNote) { n.Tried = &hashed })
}

// triedBefore reports whether it was so the last time, too, with no session in between.
func (c *Console) triedBefore() (bool, error) {
	last, err := note.Read(c.Mac.Files)
	if err != nil || last.Tried == nil {
		return false, err
	}
	return last.Tried.is(c.tried)
}

// LoggedIn forgets that a password brought no session, now that there is one.
func LoggedIn(ctx context.Context, mac macos.Mac) error {
	if last, err := note.Read(mac.Files); err != nil || last.Tried == nil {
		return err
	}
	return changeNote(ctx, mac, func(n *sessionNote) { n.Tried = nil })
}

func (n *sessionNote) refuse(password hashedPassword) {
	n.Refused, n.Tried = append(n.Refused, password), nil
	n.Refused = n.Refused[max(0, len(n.Refused)-keptRefused):]
}

// changeNote changes what is remembered, under the lock.
func changeNote(ctx context.Context, mac macos.Mac, change func(*sessionNote)) error {
	unlock, err := lockSession(ctx, mac)
	if err != nil {
		return err
	}
	defer func() { _ = unlock.Close() }()
	last, err := note.Read(mac.Files)
	if err != nil {
		return err
	}
	change(&last)
	return note.Write(ctx, mac.Files, last)
}

func newHashed(password string) (hashedPassword, error) {
	h := hashedPassword{Salt: make([]byte, sha256.Size)}
	if _, err := rand.Read(h.Salt); err != nil {
		return h, fmt.Errorf("making a salt: %w", err)
	}
	var err error
	h.Hash, err = hashPassword(password, h.Salt)
	return h, err
}

func (h hashedPassword) is(password string) (bool, error) {
	hash, err := hashPassword(password, h.Salt)
	return err == nil && bytes.Equal(hash, h.Hash), err
}

func hashPassword(password string, salt []byte) ([]byte, error) {
	hash, err := pbkdf2.Key(sha256.New, password, salt, refusedRounds, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("hashing a password: %w", err)
	}
	return hash, nil
}
