// Package shims holds the commands of a simulated Mac. Each is strict: a flag
// or form that is not modelled exits 64 and is recorded, so that a script
// cannot come to depend on Linux behaviour, and a command that is not modelled
// exits 127. State that several commands share lives in pid 1, which every
// shim asks over a socket; files are the Mac's real files.
//
// There is one real identity behind every process. Who a process is, getuid
// tells (501 in the user's own namespace, 0 otherwise); who owns a file, pid 1
// remembers. Commands here respect both; a shell's own redirections and the
// system calls of other programs are not held to the owners pid 1 remembers.
package shims

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Exit codes with a meaning of their own.
const (
	rcUsage    = 64 // EX_USAGE: a form that is not modelled
	rcSoftware = 70 // EX_SOFTWARE: pid 1 does not answer
	rcNotFound = 127
)

// call is one run of one shim.
type call struct {
	name   string
	args   []string
	uid    int
	in     *digested
	out    io.Writer
	err    io.Writer
	pid1   *wire.Packets
	world  wire.World
	reason string // why it is not modelled, once that is known
	left   bool   // its end is on record
}

type tool func(*call) int

// tools are all modelled commands but tart, which records itself.
func tools() map[string]tool {
	return map[string]tool{
		"basename": basename, "cat": cat, "chmod": chmod, "chown": chown, "cmp": cmp, "cp": cp,
		"codesign": codesign, "csrutil": csrutil, "cut": cut, "defaults": inPID1, "date": date, "dd": dd, "df": inPID1, "diskutil": inPID1, "dirname": dirname, "echo": echo,
		"env": env, "false": func(*call) int { return 1 }, "fdesetup": fdesetup, "grep": grep, "gunzip": gunzip,
		"gzip": gunzip, "hdiutil": inPID1, "head": head, "hostname": hostname, "id": id, "ifconfig": ifconfig, "ioreg": ioreg, "kickstart": kickstart, "kill": kill, "killall": killall, "launchctl": launchctl,
		"ln": ln, "ls": ls, "mkdir": mkdir, "mktemp": mktemp, "mv": mv, "newfs_hfs": inPID1, "newsyslog": inPID1, "pfctl": pfctl, "pgrep": pgrep, "pkill": pgrep, "pmset": inPID1, "ps": ps, "pwd": pwd, "readlink": readlink,
		"reboot": reboot, "rm": rm, "rmdir": rmdir, "scutil": scutil, "seq": seq, "shasum": shasum,
		"shutdown": shutdown, "sleep": sleep, "softwareupdate": inPID1, "sort": sortLines, "spctl": spctl, "sshd": inPID1, "stat": stat, "sudo": sudo, "sw_vers": swVers,
		"sync": func(*call) int { return 0 }, "sysctl": sysctl, "tail": tail, "tee": tee, "touch": touch,
		"tr": tr, "true": func(*call) int { return 0 }, "uname": uname, "visudo": visudo, "vm_stat": vmStat, "wc": wc, "whoami": whoami, "xz": gunzip, "xattr": xattr,
	}
}

// Main runs the shim that argv[0] names and returns its exit code.
func Main(argv []string) int {
	c := &call{
		name: filepath.Base(argv[0]), args: argv[1:], uid: os.Getuid(),
		in: &digested{r: os.Stdin}, out: os.Stdout, err: os.Stderr,
	}
	if err := c.greet(argv); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.name, err)
		return rcSoftware
	}
	defer c.pid1.Close()
	rc := c.run()
	c.leave(argv, rc)
	return rc
}

// run does the work, unless a fault is armed for it.
func (c *call) run() int {
	t, ok := tools()[c.name]
	if !ok {
		c.reason = "the command is not modelled"
		c.errorf("not modelled")
		return rcNotFound
	}
	return t(c)
}

func (c *call) greet(argv []string) error {
	conn, err := wire.Dial()
	if err != nil {
		return err
	}
	c.pid1 = conn
	a, err := c.ask(wire.Call{Hello: &wire.Hello{Argv: argv, UID: c.uid}})
	if err != nil {
		return err
	}
	if a.World == nil {
		return errors.New("pid 1 does not know the world")
	}
	c.world = *a.World
	if a.Fault != nil {
		fmt.Fprint(c.err, a.Fault.Stderr)
		c.leave(argv, a.Fault.RC)
		os.Exit(a.Fault.RC)
	}
	return nil
}

// leave waits for the answer, so that what ran is on record before the caller
// can go on.
func (c *call) leave(argv []string, rc int) {
	if c.left {
		return
	}
	c.left = true
	_, err := c.ask(wire.Call{Exit: &wire.Execution{
		Argv: argv, UID: c.uid, RC: rc, StdinSHA256: c.in.digest(), Unmodelled: c.reason,
	}})
	if err != nil {
		c.errorf("%v", err)
	}
}

func (c *call) ask(q wire.Call, fds ...int) (wire.Answer, error) {
	var a wire.Answer
	if err := c.pid1.Send(q, fds...); err != nil {
		return a, err
	}
	if _, err := c.pid1.Receive(&a); err != nil {
		return a, fmt.Errorf("waiting for pid 1: %w", err)
	}
	return a, nil
}

// unmodelled ends a shim that was asked for what it does not model.
func (c *call) unmodelled(what string) int {
	c.reason = what
	c.errorf("not modelled: %s", what)
	return rcUsage
}

func (c *call) errorf(format string, args ...any) {
	fmt.Fprintf(c.err, "%s: %s\n", c.name, fmt.Sprintf(format, args...))
}

// fail reports an error in the words of strerror(3) and returns 1.
func (c *call) fail(path string, err error) int {
	c.errorf("%s: %s", path, reason(err))
	return 1
}

func reason(err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory"
	case errors.Is(err, fs.ErrPermission):
		return "Permission denied"
	case errors.Is(err, fs.ErrExist):
		return "File exists"
	case errors.As(err, &errno):
		text := errno.Error()
		return string(text[0]&^0x20) + text[1:]
	}
	return err.Error()
}

// digested remembers a digest of what was read.
type digested struct {
	r io.Reader
	h hash.Hash
}

func (d *digested) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if n > 0 {
		if d.h == nil {
			d.h = sha256.New()
		}
		d.h.Write(p[:n])
	}
	return n, err
}

func (d *digested) digest() string {
	if d.h == nil {
		return ""
	}
	return hex.EncodeToString(d.h.Sum(nil))
}
