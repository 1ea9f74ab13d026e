package launchd

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const (
	// databaseBase is the size of a fresh database of background items, and
	// databaseItem what each registration adds: about 4 MB after a thousand.
	databaseBase = 16 << 10
	databaseItem = 4 << 10
)

// Registrations are what background task management has on record. It keeps
// what it has once seen: a property list that went away stays counted.
type Registrations struct {
	// Count is the number of new or changed property lists seen so far.
	Count int `json:"count"`
	// Known are the digests of the property lists seen, by path.
	Known map[string]string `json:"known,omitempty"`
}

// Bytes is the size of the database.
func (r Registrations) Bytes() int64 {
	return databaseBase + int64(r.Count)*databaseItem
}

// Registrations returns what is on record.
func (l *Launchd) Registrations() Registrations {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Registrations{Count: l.background.Count, Known: maps.Clone(l.background.Known)}
}

// Tune sets the limits of background task management from now on.
func (l *Launchd) Tune(s wire.Switches) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.respawnLimit, l.databaseLimit = s.RespawnLimit, s.DatabaseLimit
}

// Appeared says that a property list was seen in a watched folder, with what
// it held; nil when it was gone before it could be read.
func (l *Launchd) Appeared(path string, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registerLocked(path, data)
}

// registerLocked counts a property list unless the same bytes are on record.
func (l *Launchd) registerLocked(path string, data []byte) {
	if strings.HasPrefix(path, "/System/") {
		return // macOS' own are not background items
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	known, ok := l.background.Known[path]
	if ok && (known == digest || data == nil) {
		return
	}
	if l.background.Known == nil {
		l.background.Known = map[string]string{}
	}
	l.background.Known[path] = digest
	l.background.Count++
	l.sys.SaveRegistrations(Registrations{Count: l.background.Count, Known: maps.Clone(l.background.Known)})
}

// respawnsLocked reports whether ended jobs are still started again.
func (l *Launchd) respawnsLocked() bool {
	return l.respawnLimit == 0 || l.background.Count <= l.respawnLimit
}

// choked reports whether the database is too large for daemons to be loaded at
// boot.
func (l *Launchd) choked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.databaseLimit > 0 && l.background.Bytes() > l.databaseLimit
}
