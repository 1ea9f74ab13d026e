package shims

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// each calls act for path and, when asked, for everything below it.
func each(path string, recursive bool, act func(string) error) error {
	if !recursive {
		return act(path)
	}
	return filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return act(p)
	})
}

func chmod(c *call) int {
	c.protectMode()
	f, rest, ok := c.parse("Rh", "")
	if !ok || len(rest) < 2 {
		return rcUsage
	}
	change, ok := parseMode(rest[0])
	if !ok {
		return c.unmodelled("mode " + rest[0])
	}
	return c.perform(rest[1:], func(p string) error {
		return each(p, f.has('R'), func(p string) error {
			info, err := os.Stat(p)
			if err != nil {
				return err
			}
			if err := c.mayChangeFile(p, true); err != nil {
				return err
			}
			return os.Chmod(p, change(info.Mode()))
		})
	})
}

// protectMode keeps getopt from taking a mode such as -x for an option.
func (c *call) protectMode() {
	for i, a := range c.args {
		if len(a) > 1 && a[0] == '-' && strings.Trim(a[1:], "rwx") == "" {
			c.args[i] = "a" + a
			return
		}
	}
}

// parseMode understands octal modes and clauses such as u+x,go-rwx.
func parseMode(s string) (func(fs.FileMode) fs.FileMode, bool) {
	if n, err := strconv.ParseUint(s, 8, 12); err == nil {
		return func(fs.FileMode) fs.FileMode { return unixMode(n) }, true
	}
	form := regexp.MustCompile(`^([ugoa]*)([-+=])([rwx]*)$`)
	type clause struct {
		op         string
		mask, bits fs.FileMode
	}
	var clauses []clause
	for _, part := range strings.Split(s, ",") {
		m := form.FindStringSubmatch(part)
		if m == nil {
			return nil, false
		}
		who := whoMask(m[1])
		bits := fs.FileMode(0)
		for _, b := range m[3] {
			bits |= map[rune]fs.FileMode{'r': 0o444, 'w': 0o222, 'x': 0o111}[b]
		}
		clauses = append(clauses, clause{m[2], who, bits & who})
	}
	return func(mode fs.FileMode) fs.FileMode {
		for _, cl := range clauses {
			switch cl.op {
			case "+":
				mode |= cl.bits
			case "-":
				mode &^= cl.bits
			default:
				mode = mode&^cl.mask | cl.bits
			}
		}
		return mode
	}, true
}

func whoMask(who string) fs.FileMode {
	mask := fs.FileMode(0)
	for _, w := range who {
		mask |= map[rune]fs.FileMode{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}[w]
	}
	if who == "" {
		return 0o777
	}
	return mask
}

func chown(c *call) int {
	f, rest, ok := c.parse("Rh", "")
	if !ok || len(rest) < 2 {
		return rcUsage
	}
	if _, ok := c.parseOwner(rest[0], wire.Owner{}); !ok {
		c.errorf("%s: illegal user or group name", rest[0])
		return 1
	}
	if c.uid != wire.RootUID {
		return c.perform(rest[1:], func(string) error { return syscall.EPERM })
	}
	return c.perform(rest[1:], func(p string) error {
		return each(p, f.has('R'), func(p string) error {
			if !f.has('h') {
				p = resolved(p)
			}
			o, err := c.owner(p)
			if err != nil {
				return err
			}
			o, _ = c.parseOwner(rest[0], o)
			return c.setOwner(p, o)
		})
	})
}

// stat is BSD's, with -f and the formats below.
func stat(c *call) int {
	f, paths, ok := c.parse("Ln", "f")
	if !ok {
		return rcUsage
	}
	if !f.has('f') {
		return c.unmodelled("stat without -f")
	}
	for i, p := range paths {
		if f.has('L') {
			paths[i] = resolved(p)
		}
	}
	return c.perform(paths, func(p string) error {
		text, gap, err := c.format(f['f'], p)
		if err != nil {
			return err
		}
		if gap != "" {
			return fmt.Errorf("format %s is not modelled", gap)
		}
		fmt.Fprint(c.out, text)
		if !f.has('n') {
			fmt.Fprintln(c.out)
		}
		return nil
	})
}

// format fills a format string; gap is a part of it that is not modelled.
func (c *call) format(format, path string) (text, gap string, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", "", err
	}
	o, err := c.owner(path)
	if err != nil {
		return "", "", err
	}
	values := c.statValues(path, info, o)
	part := regexp.MustCompile(`%(%|[SLHO]*[a-zA-Z])`)
	text = part.ReplaceAllStringFunc(format, func(m string) string {
		v, ok := values[m]
		if !ok && gap == "" {
			gap = m
			c.reason = "stat format " + m
		}
		return v
	})
	return text, gap, nil
}

func (c *call) statValues(path string, info fs.FileInfo, o wire.Owner) map[string]string {
	st, _ := info.Sys().(*syscall.Stat_t)
	perm := uint32(0)
	inode, dev, links, blocks := uint64(0), uint64(0), uint64(0), int64(0)
	if st != nil {
		perm, inode, dev, blocks = st.Mode, st.Ino, st.Dev, st.Blocks
		links = uint64(st.Nlink) //nolint:unconvert // narrower on other architectures
	}
	link, _ := os.Readlink(path)
	return map[string]string{
		"%%": "%", "%Su": c.userName(o.UID), "%Sg": groupName(o.GID),
		"%u": strconv.Itoa(o.UID), "%g": strconv.Itoa(o.GID),
		"%Lp": fmt.Sprintf("%o", perm&0o777), "%OLp": fmt.Sprintf("%o", perm&0o777),
		"%Mp": fmt.Sprintf("%o", perm>>9&0o7), "%p": fmt.Sprintf("%o", perm), "%Op": fmt.Sprintf("%o", perm),
		"%Sp": info.Mode().String(), "%z": strconv.FormatInt(info.Size(), 10),
		"%m": strconv.FormatInt(info.ModTime().Unix(), 10), "%N": path, "%Y": link,
		"%i": strconv.FormatUint(inode, 10), "%d": strconv.FormatUint(dev, 10),
		"%l": strconv.FormatUint(links, 10), "%b": strconv.FormatInt(blocks, 10), "%HT": kind(info.Mode()),
	}
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "Directory"
	case m&fs.ModeSymlink != 0:
		return "Symbolic Link"
	case m&fs.ModeSocket != 0:
		return "Socket"
	case m&fs.ModeNamedPipe != 0:
		return "Fifo File"
	case m&fs.ModeCharDevice != 0:
		return "Character Device"
	}
	return "Regular File"
}

func ls(c *call) int {
	f, paths, ok := c.parse("1aAldn", "")
	if !ok {
		return rcUsage
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	return c.perform(paths, func(p string) error {
		info, err := os.Stat(p)
		if err != nil {
			info, err = os.Lstat(p)
		}
		if err != nil {
			return err
		}
		if !info.IsDir() || f.has('d') {
			return c.listOne(p, p, f)
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") && !f.has('a') && !f.has('A') {
				continue
			}
			if err := c.listOne(filepath.Join(p, e.Name()), e.Name(), f); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *call) listOne(path, shown string, f flags) error {
	if !f.has('l') && !f.has('n') {
		fmt.Fprintln(c.out, shown)
		return nil
	}
	format := "%Sp  %l %Su  %Sg  %z "
	if f.has('n') {
		format = "%Sp  %l %u  %g  %z "
	}
	text, _, err := c.format(format, path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	text += info.ModTime().UTC().Format("Jan _2 15:04") + " " + shown
	if link, err := os.Readlink(path); err == nil {
		text += " -> " + link
	}
	fmt.Fprintln(c.out, text)
	return nil
}
