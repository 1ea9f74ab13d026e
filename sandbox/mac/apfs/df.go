package apfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// DF runs the df command with args (without its name) in a folder.
func (d *Disk) DF(dir string, args []string) wire.Answer {
	kilo, posix, paths := false, false, args
	for len(paths) > 0 && strings.HasPrefix(paths[0], "-") {
		for _, f := range paths[0][1:] {
			switch f {
			case 'k':
				kilo = true
			case 'P':
				posix = true
			default:
				return unmodelled("df", args)
			}
		}
		paths = paths[1:]
	}
	if !kilo {
		return unmodelled("df", args)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	volumes, err := d.holders(dir, paths)
	if err != nil {
		return refused("df: %v", err)
	}
	var b strings.Builder
	if posix {
		fmt.Fprintln(&b, "Filesystem   1024-blocks      Used Available Capacity  Mounted on")
	} else {
		fmt.Fprintln(&b, "Filesystem   1024-blocks      Used Available Capacity iused ifree %iused  Mounted on")
	}
	for _, v := range volumes {
		size, used, free := d.space(v)
		fmt.Fprintf(&b, "/dev/%s %11d %9d %9d %7d%% ", v.Slice, size>>10, used>>10, free>>10, used*100/max(used+free, 1))
		if !posix {
			fmt.Fprintf(&b, "%5d %9d %5d%% ", 500000, size>>10, 0)
		}
		fmt.Fprintln(&b, " "+v.Mount)
	}
	return wire.Answer{Stdout: b.String()}
}

// holders are the volumes that hold paths, or all that are mounted.
func (d *Disk) holders(dir string, paths []string) ([]Volume, error) {
	var out []Volume
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if _, err := os.Stat(d.path(p)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: No such file or directory", p)
		} else if err != nil {
			return nil, err
		}
		if real, err := filepath.EvalSymlinks(d.path(p)); err == nil && d.o.Root == "" {
			p = real
		}
		out = append(out, d.holder(filepath.Clean(p)))
	}
	if len(paths) > 0 {
		return out, nil
	}
	for _, v := range append(d.system()[1:], d.added...) {
		if v.Mount != "" {
			out = append(out, v)
		}
	}
	return out, nil
}
