// Package newsyslog models macOS' newsyslog: the syntax of its configuration,
// what it says it would do, and the rotation of a log by renaming, after which
// a process that does not reopen its log goes on writing to the renamed file.
// Rotation by time is not modelled; who is signalled is left to the caller.
package newsyslog

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

// Entry is one log of a configuration.
type Entry struct {
	Log   string
	Owner string // user:group, empty when the file has none
	Mode  fs.FileMode
	Count int
	// Size in KiB past which the log is rotated; 0: not by size.
	Size int64
	// When is the time specification; * means never.
	When    string
	Flags   string
	PIDFile string
	Signal  int
}

var (
	errMissing = errors.New("malformed line (missing fields)")
	ownerShape = regexp.MustCompile(`^[A-Za-z0-9_.-]*:[A-Za-z0-9_.-]*$`)
	// whenShape is an interval in hours, a moment, or both.
	whenShape = regexp.MustCompile(`^([0-9]+|\*)?(@[0-9T]+|\$[HDWM][0-9A-Za-z]+)?$`)
)

// flags that newsyslog knows, in either case.
const flags = "BCDEGJNPRUWXZ-"

// hangup is the signal that is sent when none is named.
const hangup = 1

// parse reads a configuration.
func parse(text string) ([]Entry, error) {
	var out []Entry
	for line := range strings.SplitSeq(text, "\n") {
		words, _, _ := strings.Cut(line, "#")
		fields := strings.Fields(words)
		if len(fields) == 0 {
			continue
		}
		e, err := entry(fields)
		if err != nil {
			return nil, fmt.Errorf("%w:\n%s", err, line)
		}
		out = append(out, e)
	}
	return out, nil
}

func entry(f []string) (Entry, error) {
	e := Entry{Log: f[0], Signal: hangup}
	if e.Log != "<default>" && !strings.HasPrefix(e.Log, "/") {
		return e, errors.New("malformed line (log is no absolute path)")
	}
	f = f[1:]
	if len(f) > 0 && strings.ContainsAny(f[0], ":.") {
		if !ownerShape.MatchString(f[0]) {
			return e, errors.New("error in config file; unknown user or group")
		}
		e.Owner, f = f[0], f[1:]
	}
	if len(f) < 4 {
		return e, errMissing
	}
	mode, err := strconv.ParseUint(f[0], 8, 12)
	if err != nil {
		return e, fmt.Errorf("error in config file; bad permissions")
	}
	e.Mode = fs.FileMode(mode)
	if e.Count, err = strconv.Atoi(f[1]); err != nil || e.Count < 0 {
		return e, fmt.Errorf("error in config file; bad count")
	}
	if f[2] != "*" {
		if e.Size, err = strconv.ParseInt(f[2], 10, 40); err != nil || e.Size < 0 {
			return e, fmt.Errorf("error in config file; bad size")
		}
	}
	if e.When = f[3]; !whenShape.MatchString(e.When) {
		return e, fmt.Errorf("malformed at %s", e.When)
	}
	return e, e.rest(f[4:])
}

// rest takes what may be left out: flags, pid file, signal.
func (e *Entry) rest(f []string) error {
	if len(f) > 0 && !strings.HasPrefix(f[0], "/") {
		if strings.Trim(strings.ToUpper(f[0]), flags) != "" {
			return fmt.Errorf("illegal flag in config file -- %s", f[0])
		}
		e.Flags, f = strings.ToUpper(f[0]), f[1:]
	}
	if len(f) > 0 && strings.HasPrefix(f[0], "/") {
		e.PIDFile, f = f[0], f[1:]
	}
	if len(f) > 0 {
		n, err := strconv.Atoi(strings.TrimPrefix(f[0], "-"))
		if err != nil || n < 1 || n > 31 {
			return fmt.Errorf("error in config file; bad signal number")
		}
		e.Signal, f = n, f[1:]
	}
	if len(f) > 0 {
		return errors.New("malformed line (too many fields)")
	}
	return nil
}

func (e Entry) has(flag string) bool { return strings.Contains(e.Flags, flag) }
