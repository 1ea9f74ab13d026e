package shims

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// perform runs one act a path and reports the failures.
func (c *call) perform(paths []string, act func(string) error) int {
	if len(paths) == 0 {
		c.errorf("no file named")
		return rcUsage
	}
	rc := 0
	for _, p := range paths {
		if err := act(p); err != nil {
			rc = c.fail(p, err)
		}
	}
	return rc
}

func mkdir(c *call) int {
	f, paths, ok := c.parse("p", "m")
	if !ok {
		return rcUsage
	}
	mode, err := strconv.ParseUint(f['m'], 8, 12)
	if f.has('m') && err != nil {
		return c.unmodelled("mode " + f['m'])
	}
	return c.perform(paths, func(p string) error {
		info, err := os.Stat(p)
		if f.has('p') && err == nil && info.IsDir() {
			return nil
		}
		if err := c.makeDir(p, f.has('p')); err != nil {
			return err
		}
		if f.has('m') {
			return os.Chmod(p, unixMode(mode))
		}
		return nil
	})
}

func (c *call) makeDir(p string, parents bool) error {
	dir := filepath.Dir(filepath.Clean(p))
	if _, err := os.Stat(dir); parents && errors.Is(err, fs.ErrNotExist) {
		if err := c.makeDir(dir, true); err != nil {
			return err
		}
	}
	if err := c.mayChange(p); err != nil {
		return err
	}
	if err := os.Mkdir(p, 0o777); err != nil {
		return err
	}
	return c.setOwner(p, c.mine())
}

func unixMode(m uint64) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if m&bit != 0 {
			mode |= flag
		}
	}
	return mode
}

func rmdir(c *call) int {
	_, paths, ok := c.parse("", "")
	if !ok {
		return rcUsage
	}
	return c.perform(paths, func(p string) error {
		if err := c.mayChange(p); err != nil {
			return err
		}
		if info, err := os.Lstat(p); err == nil && !info.IsDir() {
			return errors.New("Not a directory") //nolint:staticcheck // the text macOS prints
		}
		return os.Remove(p)
	})
}

func rm(c *call) int {
	f, paths, ok := c.parse("rRf", "")
	if !ok {
		return rcUsage
	}
	if len(paths) == 0 && f.has('f') {
		return 0
	}
	return c.perform(paths, func(p string) error {
		info, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) && f.has('f') {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.mayChange(p); err != nil {
			return err
		}
		if !info.IsDir() {
			return os.Remove(p)
		}
		if !f.has('r') && !f.has('R') {
			return errors.New("is a directory")
		}
		return os.RemoveAll(p)
	})
}

// into is the path a file gets when the target is a folder.
func into(from, to string) string {
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		return filepath.Join(to, filepath.Base(from))
	}
	return to
}

// targets checks the last operand of mv, cp and ln.
func (c *call) targets(paths []string) ([]string, string, bool) {
	if len(paths) < 2 {
		c.errorf("needs a source and a target")
		return nil, "", false
	}
	to := paths[len(paths)-1]
	if info, err := os.Stat(to); len(paths) > 2 && (err != nil || !info.IsDir()) {
		c.errorf("%s is not a directory", to)
		return nil, "", false
	}
	return paths[:len(paths)-1], to, true
}

func mv(c *call) int {
	_, paths, ok := c.parse("fh", "")
	if !ok {
		return rcUsage
	}
	from, to, ok := c.targets(paths)
	if !ok {
		return rcUsage
	}
	return c.perform(from, func(p string) error {
		dest := into(p, to)
		if _, err := os.Lstat(p); err != nil {
			return err
		}
		if err := errors.Join(c.mayChange(p), c.mayChange(dest)); err != nil {
			return err
		}
		o, err := c.owner(p)
		if err != nil {
			return err
		}
		// Recorded first: an owner that was only assumed from the place must
		// not change with the place.
		if err := c.setOwner(p, o); err != nil {
			return err
		}
		return os.Rename(p, dest)
	})
}

func cp(c *call) int {
	f, paths, ok := c.parse("pf", "")
	if !ok {
		return rcUsage
	}
	from, to, ok := c.targets(paths)
	if !ok {
		return rcUsage
	}
	return c.perform(from, func(p string) error { return c.copyFile(p, into(p, to), f.has('p'), f.has('f')) })
}

func (c *call) copyFile(from, to string, preserve, force bool) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errors.New("is a directory (not copied)")
	}
	_, err = os.Lstat(to)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh {
		err = c.mayChange(to)
	} else {
		err = c.mayChangeFile(to, true)
	}
	if err != nil {
		return err
	}
	if force && !fresh && os.Remove(to) == nil {
		fresh = true
	}
	if err := copyBytes(from, to, info.Mode().Perm()); err != nil {
		return err
	}
	if preserve {
		if err := os.Chmod(to, info.Mode()); err != nil {
			return err
		}
		if err := os.Chtimes(to, time.Time{}, info.ModTime()); err != nil {
			return err
		}
	}
	if fresh {
		return c.setOwner(to, c.mine())
	}
	return nil
}

func copyBytes(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func ln(c *call) int {
	f, paths, ok := c.parse("sfnh", "")
	if !ok {
		return rcUsage
	}
	from, to, ok := c.targets(paths)
	if !ok {
		return rcUsage
	}
	return c.perform(from, func(p string) error {
		dest := to
		info, err := os.Lstat(to)
		isLink := err == nil && info.Mode()&fs.ModeSymlink != 0
		if !isLink || (!f.has('n') && !f.has('h')) {
			dest = into(p, to)
		}
		if err := c.mayChange(dest); err != nil {
			return err
		}
		if f.has('f') {
			if err := os.Remove(dest); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if !f.has('s') {
			return os.Link(p, dest)
		}
		if err := os.Symlink(p, dest); err != nil {
			return err
		}
		return c.setOwner(dest, c.mine())
	})
}

func touch(c *call) int {
	_, paths, ok := c.parse("", "")
	if !ok {
		return rcUsage
	}
	return c.perform(paths, func(p string) error {
		now := time.Now()
		err := os.Chtimes(p, now, now)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := c.mayChange(p); err != nil {
			return err
		}
		return c.create(p, 0o666)
	})
}

func (c *call) create(p string, mode fs.FileMode) error {
	f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), c.setOwner(p, c.mine()))
}

func mktemp(c *call) int {
	f, rest, ok := c.parse("dq", "t")
	if !ok {
		return rcUsage
	}
	template := filepath.Join(os.TempDir(), "tmp.XXXXXXXXXX")
	switch {
	case f.has('t') && len(rest) == 0:
		template = filepath.Join(os.TempDir(), f['t']+".XXXXXXXXXX")
	case len(rest) == 1 && !f.has('t'):
		template = rest[0]
	case len(rest) > 0:
		return c.unmodelled("several templates")
	}
	stem := strings.TrimRight(template, "X")
	if stem == template {
		return c.unmodelled("a template that does not end in X")
	}
	path, err := c.makeTemp(filepath.Dir(stem+"x"), filepath.Base(stem+"*"), f.has('d'))
	if err != nil {
		return c.fail(template, err)
	}
	fmt.Fprintln(c.out, path)
	return 0
}

func (c *call) makeTemp(dir, pattern string, folder bool) (string, error) {
	if err := c.mayChange(filepath.Join(dir, pattern)); err != nil {
		return "", err
	}
	if folder {
		path, err := os.MkdirTemp(dir, pattern)
		if err != nil {
			return "", err
		}
		return path, c.setOwner(path, c.mine())
	}
	file, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return "", err
	}
	return file.Name(), errors.Join(file.Close(), c.setOwner(file.Name(), c.mine()))
}
