package converge

import (
	"bytes"
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	sessionFile = document.StateDir + "/session.json"
	// KickCooldown is between two restarts of loginwindow in one boot, at least.
	KickCooldown = 10 * time.Minute
	// keptRefused bounds the passwords that are remembered as wrong.
	keptRefused = 8
	// refusedRounds makes guessing what a wrong password was slow.
	refusedRounds = 100_000
)

// sessionNote is what is remembered of the console.
type sessionNote struct {
	// KickedAt and BootSession are the last restart of loginwindow.
	KickedAt    time.Time `json:"kickedAt,omitzero"`
	BootSession string    `json:"bootSession,omitempty"`
	// Done: it was made. A run that was cut off in between leaves it unset, and no
	// one knows.
	Done bool `json:"done,omitempty"`
	// Refused are hashes of passwords that macOS sealed, so that none is tried twice:
	// a few wrong ones lock the account, and SSH with it.
	Refused []refusedPassword `json:"refused,omitempty"`
}

type refusedPassword struct {
	Salt []byte `json:"salt"`
	Hash []byte `json:"hash"`
}

func readSessionNote(files macos.Files) (sessionNote, error) {
	var note sessionNote
	data, err := read(files, sessionFile)
	if errors.Is(err, fs.ErrNotExist) {
		return note, nil
	}
	if err != nil {
		return note, fmt.Errorf("reading %s: %w", sessionFile, err)
	}
	if err := json.Unmarshal(data, &note); err != nil {
		// Half a note is none: at worst loginwindow restarts once more.
		return sessionNote{}, nil
	}
	return note, nil
}

func writeSessionNote(ctx context.Context, files macos.Files, note sessionNote) error {
	data, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encoding what is known of the console: %w", err)
	}
	return write(ctx, files, file{sessionFile, append(data, '\n'), macos.Attr{Mode: 0o600, Owner: root, Group: wheel}})
}

// Stranger reports whether the owner of the console is a person other than the user.
// Nobody is there when it is root's, or a system account's, whose names begin with
// an underscore; then loginwindow may be restarted, which ends what is on it.
func Stranger(owner, user string) bool {
	return owner != user && owner != root && owner != "" && !strings.HasPrefix(owner, "_")
}

// KickLoginwindow restarts loginwindow, so that it logs the user in, at most once
// per KickCooldown and boot, and reports whether it did. The caller has seen that
// there is no session and that no guest runs: both would end. It is for converge
// and for hostd, which hold the same record of it in the state folder.
func KickLoginwindow(ctx context.Context, mac macos.Mac, user string) (bool, error) {
	unlock, err := lockSession(ctx, mac)
	if err != nil {
		return false, err
	}
	defer func() { _ = unlock.Close() }()
	// Who held the lock may have brought it back.
	if up, err := mac.Session.Aqua(ctx, user); up || err != nil {
		return false, err
	}
	boot, err := mac.Host.BootSession(ctx)
	if err != nil {
		return false, fmt.Errorf("reading the boot session: %w", err)
	}
	note, err := readSessionNote(mac.Files)
	if err != nil {
		return false, err
	}
	now := mac.Clock.Now()
	recent := note.BootSession == boot && now.Sub(note.KickedAt).Abs() < KickCooldown
	switch {
	case recent && note.Done:
		return false, fail(document.Retry, "loginwindow was restarted %s ago and no session of %s is there; the next try is %s after that one",
			now.Sub(note.KickedAt).Round(time.Second), user, KickCooldown)
	case recent:
		// Nobody knows whether it was made. If it was, a session is on its way.
		if up, err := sessionComes(ctx, mac, user); up || err != nil {
			return false, err
		}
	}
	note.KickedAt, note.BootSession, note.Done = mac.Clock.Now().UTC(), boot, false
	if err := writeSessionNote(ctx, mac.Files, note); err != nil {
		return false, err
	}
	if err := mac.Session.Kick(ctx); err != nil {
		return false, fmt.Errorf("restarting loginwindow: %w", err)
	}
	note.Done = true
	return true, writeSessionNote(ctx, mac.Files, note)
}

// lockSession keeps converge and hostd from restarting loginwindow at once, and from
// forgetting what the other has noted.
func lockSession(ctx context.Context, mac macos.Mac) (io.Closer, error) {
	unlock, err := lock(ctx, mac, sessionLock, sessionLockWait)
	if errors.Is(err, macos.ErrLocked) {
		return nil, fail(document.Retry, "another process has been restarting loginwindow for %s", sessionLockWait)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the console's record: %w", err)
	}
	return unlock, nil
}

// sessionComes waits for a session that may be starting.
func sessionComes(ctx context.Context, mac macos.Mac, user string) (bool, error) {
	err := await(ctx, mac.Clock, sessionTimeout, "a console session", func() (bool, error) {
		return mac.Session.Aqua(ctx, user)
	})
	var late *timeoutError
	if errors.As(err, &late) {
		return false, nil
	}
	return err == nil, err
}

// refusedBefore reports whether macOS sealed this password before.
func (t *target) refusedBefore(password string) (bool, error) {
	note, err := readSessionNote(t.Mac.Files)
	if err != nil {
		return false, err
	}
	for _, r := range note.Refused {
		hash, err := hashPassword(password, r.Salt)
		if err != nil {
			return false, err
		}
		if bytes.Equal(hash, r.Hash) {
			return true, nil
		}
	}
	return false, nil
}

// rememberRefused keeps the hash of the password that lay there when this run began
// to log in, and was refused. The document's may be another one, which has yet to be
// tried. A right password is never kept this way.
func (t *target) rememberRefused(ctx context.Context) error {
	if t.tried == "" {
		return nil
	}
	unlock, err := lockSession(ctx, t.Mac)
	if err != nil {
		return err
	}
	defer func() { _ = unlock.Close() }()
	note, err := readSessionNote(t.Mac.Files)
	if err != nil {
		return err
	}
	r := refusedPassword{Salt: make([]byte, sha256.Size)}
	if _, err := rand.Read(r.Salt); err != nil {
		return fmt.Errorf("making a salt: %w", err)
	}
	if r.Hash, err = hashPassword(t.tried, r.Salt); err != nil {
		return err
	}
	note.Refused = append(note.Refused, r)
	note.Refused = note.Refused[max(0, len(note.Refused)-keptRefused):]
	return writeSessionNote(ctx, t.Mac.Files, note)
}

func hashPassword(password string, salt []byte) ([]byte, error) {
	hash, err := pbkdf2.Key(sha256.New, password, salt, refusedRounds, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("hashing a password: %w", err)
	}
	return hash, nil
}
