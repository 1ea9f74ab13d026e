package pf

import (
	"errors"
	"slices"
	"time"
)

// Reference is one reason for the filter to be enabled.
type Reference struct {
	Token   uint64
	PID     int
	Process string
	Taken   time.Time
}

// Refusals of enabling and disabling, in pfctl's words.
var (
	errAlreadyEnabled = errors.New("pf already enabled")
	errNotEnabled     = errors.New("pf not enabled")
	errBadToken       = errors.New("invalid token")
)

// Enabled says whether packets are looked at.
func (f *Filter) Enabled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.enabled()
}

func (f *Filter) enabled() bool { return f.lone || len(f.refs) > 0 }

// References are those that are held, oldest first.
func (f *Filter) References() []Reference {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.refs)
}

// Acquire takes a reference: each call makes a new one, whoever calls.
func (f *Filter) Acquire(pid int, process string) (token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nowEnabled()
	f.issued += 0x9e3779b97f4a7 // tokens look like pointers, not like a count
	f.refs = append(f.refs, Reference{Token: f.issued, PID: pid, Process: process, Taken: f.o.Now()})
	return f.issued
}

// Release gives a reference back and says how many are left. The filter is
// disabled with the last one.
func (f *Filter) Release(token uint64) (left int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.refs, func(r Reference) bool { return r.Token == token })
	if i < 0 {
		return 0, errBadToken
	}
	f.refs = slices.Delete(f.refs, i, i+1)
	left = len(f.refs)
	if f.lone {
		left++
	}
	return left, nil
}

// enable is -e: it leaves no reference, and works on a disabled filter only.
func (f *Filter) enable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.enabled() {
		return errAlreadyEnabled
	}
	f.nowEnabled()
	f.lone = true
	return nil
}

// disable is -d: everybody's references are gone.
func (f *Filter) disable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.enabled() {
		return errNotEnabled
	}
	f.lone, f.refs = false, nil
	return nil
}

func (f *Filter) nowEnabled() {
	if !f.enabled() {
		f.since = f.o.Now()
	}
}
