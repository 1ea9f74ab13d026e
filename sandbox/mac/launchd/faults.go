package launchd

import (
	"syscall"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// idler is what runs in place of a program that never becomes healthy.
func idler() (path string, argv []string) { return "/bin/sleep", []string{"sleep", "1000000"} }

// Arm makes something go wrong with a job, until it has happened as often as
// the fault says or this launchd ends.
func (l *Launchd) Arm(f wire.JobFault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, f)
}

// Disarm forgets every fault.
func (l *Launchd) Disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = nil
}

// faultLocked takes the fault of a kind armed for a label.
func (l *Launchd) faultLocked(label string, kind wire.JobFaultKind) (wire.JobFault, bool) {
	for i := range l.faults {
		f := &l.faults[i]
		if f.Label != label || f.Kind != kind {
			continue
		}
		hit := *f
		if f.Count == 1 {
			l.faults = append(l.faults[:i], l.faults[i+1:]...)
		} else if f.Count > 1 {
			f.Count--
		}
		return hit, true
	}
	return wire.JobFault{}, false
}

// doomLocked lets a job's fresh process end in a while, if that is armed. What
// it ends with is told in place of the signal that really ends it.
func (j *job) doomLocked(pid int) {
	label := j.def.Label
	f, ok := j.l.faultLocked(label, wire.Crashes)
	end := Status{Signal: syscall.SIGABRT}
	if !ok {
		f, ok = j.l.faultLocked(label, wire.ExitsZero)
		end = Status{}
	}
	if !ok {
		return
	}
	j.l.clock.AfterFunc(j.l.scaled(f.After), func() {
		go func() {
			j.l.mu.Lock()
			defer j.l.mu.Unlock()
			if j.pid == pid && !j.stopping {
				j.disguise = &end
				j.l.sys.Signal(pid, syscall.SIGKILL)
			}
		}()
	})
}
