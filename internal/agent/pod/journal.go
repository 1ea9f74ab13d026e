package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/shim"
)

// machinePrefix marks machines as ours.
const machinePrefix = "tk-"

// machineName is the name of a Pod's machine; a restart is another machine.
func machineName(uid types.UID, attempt int) string {
	return fmt.Sprintf("%s%s-%d", machinePrefix, uid, attempt)
}

// parseMachineName takes a name of ours apart; false for anybody else's.
func parseMachineName(name string) (types.UID, int, bool) {
	rest, ours := strings.CutPrefix(name, machinePrefix)
	dash := strings.LastIndex(rest, "-")
	if !ours || dash < 1 {
		return "", 0, false
	}
	attempt, err := strconv.Atoi(rest[dash+1:])
	if err != nil || attempt < 0 {
		return "", 0, false
	}
	return types.UID(rest[:dash]), attempt, true
}

// step is how far an attempt has come. It is on the disk before what it names
// happens.
type step string

const (
	stepCreating step = "creating" // the clone is being made
	stepStarting step = "starting" // a shim is being started
	stepRunning  step = "running"  // the machine was seen running
	stepEnded    step = "ended"    // Last tells how
)

// entry is what must be known of a Pod after a crash.
type entry struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Attempt numbers machines.
	Attempt int `json:"attempt"`
	// Former is the attempt's machine where the first system's agent started it.
	Former string `json:"former,omitempty"`
	// Crashes counts ends in a row, for the back-off.
	Crashes     int    `json:"crashes,omitempty"`
	Step        step   `json:"step"`
	Image       string `json:"image,omitempty"`
	ImageID     string `json:"imageID,omitempty"`
	BootSession string `json:"bootSession,omitempty"`
	// Started is when the machine was seen running.
	Started time.Time `json:"started,omitzero"`
	// The main container.
	lived
	// Inits are the init containers, in their order.
	Inits []lived `json:"inits,omitempty"`
	// Outcome is how the attempt ended.
	Outcome *end `json:"outcome,omitempty"`
}

// lived is what a container has gone through.
type lived struct {
	// Restarts counts the attempts before this one in which it ran, as the status does.
	Restarts int32 `json:"restarts"`
	// Begun and End are those of this attempt.
	Begun time.Time `json:"begun,omitzero"`
	End   *end      `json:"end,omitempty"`
	// Last is its end before this attempt.
	Last *end `json:"last,omitempty"`
}

// again is the container in the next attempt.
func (l lived) again() lived {
	switch {
	case l.End != nil:
		return lived{Restarts: l.Restarts + 1, Last: l.End}
	case !l.Begun.IsZero():
		return lived{Restarts: l.Restarts + 1, Last: l.Last}
	}
	return lived{Restarts: l.Restarts, Last: l.Last}
}

func (r entry) machine() string {
	if r.Former != "" {
		return r.Former
	}
	return machineName(r.UID, r.Attempt)
}

// outcome of an attempt that ended.
func (r entry) outcome() end {
	switch {
	case r.Outcome != nil:
		return *r.Outcome
	case r.Last != nil:
		// Written by an agent that knew of one container only.
		return *r.Last
	}
	return end{Code: codeLost, Reason: reasonUnknown, Message: "the journal does not say how the VM ended"}
}

// hasBegun reports whether a container has begun in this attempt.
func (r entry) hasBegun() bool {
	return !r.Begun.IsZero() || slices.ContainsFunc(r.Inits, func(l lived) bool { return !l.Begun.IsZero() })
}

// ended is the record once e is known.
func (r entry) ended(e end) entry {
	r.Step, r.Outcome = stepEnded, &e
	r.Inits = slices.Clone(r.Inits)
	if e.Unstarted {
		// A machine may hold its lock before it turns out that it cannot start.
		r.Begun = time.Time{}
		return r
	}
	if i := r.initIndex(e.Init); i >= 0 {
		r.Inits[i].End = &e
		return r
	}
	r.End = &e
	return r
}

// next is the record of the attempt after this one.
func (r entry) next() entry {
	r.Attempt++
	r.Former = ""
	r.Step, r.Started, r.Outcome = "", time.Time{}, nil
	r.lived = r.again()
	inits := make([]lived, len(r.Inits))
	for i, l := range r.Inits {
		inits[i] = l.again()
	}
	r.Inits = inits
	return r
}

// initIndex is -1 for the main container, whose ends name no init container.
func (r entry) initIndex(id string) int {
	for i := range r.Inits {
		if initID(i) == id {
			return i
		}
	}
	return -1
}

// end is how one attempt, or one container in it, ended, in the words of a
// container status.
type end struct {
	Code    int32  `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Unstarted: nothing of the Pod has run, so that this is no restart: the machine
	// did not start or ended before any container began, nothing fenced it in, or its
	// volumes could not be mounted. Reason is then what the Pod waits for.
	Unstarted bool `json:"limited,omitempty"`
	// Replaced: it was stopped for another image, and the restart policy has no say.
	Replaced bool `json:"replaced,omitempty"`
	// Init is the command of the init container that ended; empty: the main one.
	Init string `json:"init,omitempty"`
	// Machine is the machine's name, with that of the init container.
	Machine  string    `json:"machine,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished"`
}

// journal keeps one directory a Pod UID: the record, and one directory an attempt
// that belongs to its shim.
type journal string

func (j journal) dir(uid types.UID) string { return filepath.Join(string(j), string(uid)) }

func (j journal) recordFile(uid types.UID) string { return filepath.Join(j.dir(uid), "record.json") }

const attemptPrefix = "attempt-"

func (j journal) attemptDir(uid types.UID, attempt int) string {
	return filepath.Join(j.dir(uid), attemptPrefix+strconv.Itoa(attempt))
}

func (j journal) save(r entry) error {
	if err := os.MkdirAll(j.dir(r.UID), 0o700); err != nil {
		return fmt.Errorf("making a journal: %w", err)
	}
	if err := shim.WriteJSON(j.recordFile(r.UID), r); err != nil {
		return fmt.Errorf("writing the journal of a Pod: %w", err)
	}
	return nil
}

// load returns nil when there is no record. An unreadable one is moved aside: the
// machines' names and locks say enough.
func (j journal) load(uid types.UID) (*entry, error) {
	path := j.recordFile(uid)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal of a Pod: %w", err)
	}
	var r entry
	if err := json.Unmarshal(data, &r); err != nil || r.UID != uid {
		if err := os.Rename(path, path+".unreadable"); err != nil {
			return nil, fmt.Errorf("moving an unreadable journal aside: %w", err)
		}
		return nil, nil
	}
	return &r, nil
}

func (j journal) remove(uid types.UID) error {
	if err := os.RemoveAll(j.dir(uid)); err != nil {
		return fmt.Errorf("removing the journal of a Pod: %w", err)
	}
	return nil
}

// clearAttempt makes room for an attempt that is made again.
func (j journal) clearAttempt(uid types.UID, attempt int) error {
	if err := os.RemoveAll(j.attemptDir(uid, attempt)); err != nil {
		return fmt.Errorf("clearing an attempt: %w", err)
	}
	return nil
}

// dropAttempts removes what is left of the attempts before one.
func (j journal) dropAttempts(uid types.UID, before int) error {
	entries, err := os.ReadDir(j.dir(uid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for old attempts: %w", err)
	}
	var errs []error
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), "attempt-")
		if n, err := strconv.Atoi(number); ours && err == nil && n < before {
			errs = append(errs, j.clearAttempt(uid, n))
		}
	}
	return errors.Join(errs...)
}

// lastAttempt is the highest that has a directory; -1: none has.
func (j journal) lastAttempt(uid types.UID) (int, error) {
	entries, err := os.ReadDir(j.dir(uid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("listing attempts: %w", err)
	}
	last := -1
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e.Name(), attemptPrefix); ok {
			if n, err := strconv.Atoi(number); err == nil {
				last = max(last, n)
			}
		}
	}
	return last, nil
}

// uids lists the Pods that have a journal.
func (j journal) uids() ([]types.UID, error) {
	entries, err := os.ReadDir(string(j))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing journals: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		uids = append(uids, types.UID(e.Name()))
	}
	return uids, nil
}
