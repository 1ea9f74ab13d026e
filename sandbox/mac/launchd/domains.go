package launchd

import "fmt"

// BuiltIn is a job of macOS' own that the machine models elsewhere: it is
// always loaded and running, can be kicked, and cannot be removed here.
type BuiltIn struct {
	// Path is where its property list would be.
	Path string
	// Kick starts it anew; restart says whether -k was given. It returns the
	// exit code of launchctl.
	Kick func(restart bool) int
}

func (b BuiltIn) print(label string) string {
	return fmt.Sprintf("system/%s = {\n\tactive count = 1\n\tpath = %s\n\ttype = LaunchDaemon\n\tstate = running\n\n"+
		"\tdomain = system\n\truns = 1\n\tlast exit code = (never exited)\n}\n", label, b.Path)
}
