package shims

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/macfleet/macfleet/sandbox/mac/sudoers"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const (
	sudoersFile = "/etc/sudoers"
	sudoersDir  = "/private/etc/sudoers.d"
)

// policy reads the sudoers file and its drop-ins the way sudo does, saying on
// stderr what it passes over. A damaged line is echoed, as the real one does:
// whoever writes a secret into a drop-in sees it leak.
func (c sudoer) policy() *sudoers.Policy {
	p := &sudoers.Policy{}
	for _, path := range sudoersFiles() {
		if why := c.distrusted(path); why != "" {
			c.errorf("%s %s", path, why)
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			c.errorf("unable to open %s: %s", path, reason(err))
			continue
		}
		for _, e := range p.Add(path, data) {
			c.complain(e)
		}
	}
	return p
}

func (c sudoer) complain(e *sudoers.SyntaxError) {
	fmt.Fprintf(c.err, "%s:%d:%d: syntax error\n%s\n%*s\n", e.File, e.Line, len(e.Text), e.Text, max(len(e.Text), 1), "^")
}

func sudoersFiles() []string {
	files := []string{sudoersFile}
	entries, err := os.ReadDir(sudoersDir) // sorted by name
	if err != nil {
		return files
	}
	for _, e := range entries {
		if !sudoers.Ignored(e.Name()) && !e.IsDir() {
			files = append(files, filepath.Join(sudoersDir, e.Name()))
		}
	}
	return files
}

// distrusted says why sudo refuses to read a file, or nothing.
func (c sudoer) distrusted(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "cannot be found"
	}
	info, err := os.Stat(real)
	if err != nil {
		return "cannot be read"
	}
	o, err := c.owner(real)
	switch {
	case err != nil:
		return "has no owner"
	case !info.Mode().IsRegular():
		return "is not a regular file"
	case o.UID != wire.RootUID:
		return fmt.Sprintf("is owned by uid %d, should be 0", o.UID)
	case info.Mode().Perm()&0o002 != 0:
		return "is world writable"
	case info.Mode().Perm()&0o020 != 0 && o.GID != wire.WheelGID:
		return fmt.Sprintf("is owned by gid %d, should be 0", o.GID)
	}
	return ""
}

// visudo checks files; editing is not modelled.
func visudo(c *call) int {
	f, rest, ok := c.parse("csq", "f")
	if !ok {
		return rcUsage
	}
	if !f.has('c') || len(rest) > 1 {
		return c.unmodelled("visudo without -c")
	}
	files, whole := sudoersFiles(), true
	if f.has('f') {
		files, whole = []string{f['f']}, false
	}
	if len(rest) == 1 {
		files, whole = rest, false
	}
	if whole && c.uid != wire.RootUID {
		return c.fail(sudoersFile, fs.ErrPermission)
	}
	rc := 0
	for _, path := range files {
		if !(sudoer{c}).checkSudoers(path, whole, f.has('q')) {
			rc = 1
		}
	}
	return rc
}

// checkSudoers is strict about owner and mode for the files in use only.
func (c sudoer) checkSudoers(path string, inUse, quiet bool) bool {
	if path == "-" {
		path = "/dev/stdin"
	}
	data, err := os.ReadFile(path)
	if err != nil {
		c.fail(path, err)
		return false
	}
	if inUse {
		if why := c.badMode(path); why != "" {
			fmt.Fprintf(c.err, "%s: %s\n", path, why)
			return false
		}
	}
	var p sudoers.Policy
	errs := p.Add(path, data)
	for _, e := range errs {
		if !quiet {
			c.complain(e)
		}
	}
	if len(errs) == 0 && !quiet {
		fmt.Fprintf(c.out, "%s: parsed OK\n", path)
	}
	return len(errs) == 0
}

func (c sudoer) badMode(path string) string {
	o, err := c.owner(resolved(path))
	if err != nil || o.UID != wire.RootUID || o.GID != wire.WheelGID {
		return fmt.Sprintf("wrong owner (uid, gid) should be (%d, %d)", wire.RootUID, wire.WheelGID)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o440 {
		return "bad permissions, should be mode 0440"
	}
	return ""
}

func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
