package newsyslog

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// rcUsage is the exit code of a form that is not modelled.
const rcUsage = 64

// stockFile and dropIns are read when no file is named.
const (
	stockFile = "/etc/newsyslog.conf"
	dropIns   = "/etc/newsyslog.d/*.conf"
)

// Options configure a run.
type Options struct {
	UID int
	Dir string
	// Own records whose a new log is; Signal signals a process by id. Both may
	// be nil.
	Own    func(path, owner string) error
	Signal func(pid, signal int) error
}

// Run runs the newsyslog command with args (without its name).
func Run(o Options, args []string) wire.Answer {
	var r run
	r.o = o
	var named []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-f" && i+1 < len(args):
			i++
			named = append(named, args[i])
		case strings.HasPrefix(a, "-") && strings.Trim(a[1:], "nvF") == "" && a != "-":
			r.dry = r.dry || strings.Contains(a, "n")
			r.force = r.force || strings.Contains(a, "F")
			r.verbose += strings.Count(a, "v")
		default:
			what := "newsyslog " + strings.Join(args, " ")
			return wire.Answer{RC: rcUsage, Stderr: "newsyslog: not modelled: " + what + "\n", Unmodelled: what}
		}
	}
	if o.UID != wire.RootUID && !r.dry {
		return wire.Answer{RC: 1, Stderr: "newsyslog: must have root privs\n"}
	}
	if err := r.files(named); err != nil {
		return wire.Answer{RC: 1, Stdout: r.out.String(), Stderr: "newsyslog: " + err.Error() + "\n"}
	}
	return wire.Answer{Stdout: r.out.String(), Unmodelled: r.gap}
}

type run struct {
	o          Options
	dry, force bool
	verbose    int
	out        strings.Builder
	gap        string // what was asked for and is not modelled
}

func (r *run) files(named []string) error {
	if len(named) == 0 {
		found, err := filepath.Glob(dropIns)
		if err != nil {
			return err
		}
		if _, err := os.Stat(stockFile); err == nil {
			named = append(named, stockFile)
		}
		named = append(named, found...)
	}
	for _, file := range named {
		if !filepath.IsAbs(file) {
			file = filepath.Join(r.o.Dir, file)
		}
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: No such file or directory", file)
		}
		if err != nil {
			return err
		}
		if r.verbose > 0 {
			fmt.Fprintf(&r.out, "Processing %s\n", file)
		}
		entries, err := parse(string(data))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := r.entry(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry decides about one log and rotates it when it is due.
func (r *run) entry(e Entry) error {
	if e.Log == "<default>" {
		return nil
	}
	info, err := os.Stat(e.Log)
	if errors.Is(err, fs.ErrNotExist) {
		r.say("%s <%d%s>: does not exist, skipped.\n", e.Log, e.Count, e.Flags)
		return nil
	}
	if err != nil {
		return err
	}
	kib := (info.Size() + 1023) >> 10
	due := r.force || (e.Size > 0 && kib >= e.Size)
	if !due && e.When != "*" && !r.dry {
		r.gap = "newsyslog's rotation by time"
	}
	verdict := "skipping"
	if due {
		verdict = "trimming log...."
	}
	r.say("%s <%d%s>: size (Kb): %d [%d] --> %s\n", e.Log, e.Count, e.Flags, kib, e.Size, verdict)
	if !due {
		return nil
	}
	return r.rotate(e, info)
}

func (r *run) say(format string, args ...any) {
	if r.verbose > 0 || r.dry {
		fmt.Fprintf(&r.out, format, args...)
	}
}

// suffix is that of a rotated log.
func (r *run) suffix(e Entry) string {
	switch {
	case e.has("Z"):
		return ".gz"
	case e.has("J") && !r.dry:
		r.gap = "newsyslog's compression by bzip2"
	}
	return ""
}

func (r *run) rotate(e Entry, info fs.FileInfo) error {
	suffix := r.suffix(e)
	numbered := func(n int) string { return e.Log + "." + strconv.Itoa(n) }
	if r.dry {
		fmt.Fprintf(&r.out, "\tmv %s to %s\n", e.Log, numbered(0))
		return nil
	}
	for n := e.Count - 1; n >= 0; n-- {
		from := numbered(n) + suffix
		var err error
		if n == e.Count-1 {
			err = os.Remove(from)
		} else {
			err = os.Rename(from, numbered(n+1)+suffix)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(e.Log, numbered(0)); err != nil {
		return err
	}
	if err := r.fresh(e); err != nil {
		return err
	}
	r.signal(e)
	if suffix == ".gz" {
		return compress(numbered(0), info.Mode().Perm())
	}
	return nil
}

// fresh makes the new, empty log.
func (r *run) fresh(e Entry) error {
	if err := os.WriteFile(e.Log, nil, e.Mode); err != nil {
		return err
	}
	if err := os.Chmod(e.Log, e.Mode); err != nil {
		return err
	}
	if r.o.Own == nil {
		return nil
	}
	return r.o.Own(e.Log, e.Owner)
}

// signal tells the process of the pid file; a file that is missing or names no
// process is only complained about.
func (r *run) signal(e Entry) {
	if e.PIDFile == "" || e.has("N") || r.o.Signal == nil {
		return
	}
	data, err := os.ReadFile(e.PIDFile)
	pid, bad := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || bad != nil || pid < 2 {
		fmt.Fprintf(&r.out, "newsyslog: pid file %s: no process\n", e.PIDFile)
		return
	}
	if err := r.o.Signal(pid, e.Signal); err != nil {
		fmt.Fprintf(&r.out, "newsyslog: can't notify daemon, pid %d: %v\n", pid, err)
	}
}

func compress(path string, mode fs.FileMode) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path+".gz", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(out)
	_, err = io.Copy(z, in)
	if err = errors.Join(err, z.Close(), out.Close()); err != nil {
		return err
	}
	return os.Remove(path)
}
