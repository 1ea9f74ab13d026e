package launchd

import "fmt"

// BuiltIn is a job of macOS' own that the machine models elsewhere: every boot loads
// it, it runs while it is loaded unless it says otherwise, and can be kicked.
type BuiltIn struct {
	// Path is where its property list would be.
	Path string
	// Kick starts it anew; restart says whether -k was given. It returns the
	// exit code of launchctl.
	Kick func(restart bool) int
	// Loaded is told that the job was booted out, and that it was loaded again; it
	// returns the exit code of launchctl. Without it the job cannot be booted out.
	Loaded func(bool) int
	// Running says whether it runs while it is loaded; nil means that it does.
	Running func() bool
}

// builtInLocked is the job of that label, while it is loaded.
func (l *Launchd) builtInLocked(label string) (BuiltIn, bool) {
	b, ok := l.builtIn[label]
	return b, ok && !l.unloaded[label]
}

// bootoutBuiltIn removes a job of macOS' own, and reports whether it is one that can be.
func (l *Launchd) bootoutBuiltIn(label string) (rc int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.builtInLocked(label)
	if !ok || b.Loaded == nil {
		return 0, false
	}
	l.unloaded[label] = true
	return b.Loaded(false), true
}

// bootstrapBuiltIn loads a job of macOS' own, and reports whether the path is that of one.
func (l *Launchd) bootstrapBuiltIn(path string) (rc int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for label, b := range l.builtIn {
		switch {
		case b.Path != path:
			continue
		case !l.unloaded[label]:
			return codeAlready, true
		case l.overrides[label]:
			return codeDisabled, true
		}
		delete(l.unloaded, label)
		return b.Loaded(true), true
	}
	return 0, false
}

func (b BuiltIn) print(label string) string {
	active, state, runs := 1, "running", 1
	if b.Running != nil && !b.Running() {
		active, state, runs = 0, "not running", 0
	}
	return fmt.Sprintf("system/%s = {\n\tactive count = %d\n\tpath = %s\n\ttype = LaunchDaemon\n\tstate = %s\n\n"+
		"\tdomain = system\n\truns = %d\n\tlast exit code = (never exited)\n}\n", label, active, b.Path, state, runs)
}
