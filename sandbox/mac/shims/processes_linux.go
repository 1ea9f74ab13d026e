package shims

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// running is one process of this Mac.
type running struct {
	pid, parent, uid int
	args             []string
	residentBytes    int64
	cpu              time.Duration
}

func (r running) name() string { return filepath.Base(r.args[0]) }

// processes lists what runs, by process id. The first is launchd, as everybody
// expects.
func processes() ([]running, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []running
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if r, ok := readProcess(pid); ok {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b running) int { return a.pid - b.pid })
	return out, nil
}

// readProcess leaves out what has ended and is not yet reaped.
func readProcess(pid int) (running, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(line) == 0 {
		return running{}, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return running{}, false
	}
	r := running{pid: pid, args: strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")}
	r.readStat(string(stat))
	if pid == 1 {
		r.args = []string{"/sbin/launchd"}
	}
	r.uid = processUID(dir)
	return r, true
}

// readStat reads a line of proc(5): what follows the name in brackets is numbered from 3.
func (r *running) readStat(line string) {
	const (
		parent, user, system, resident = 4 - 3, 14 - 3, 15 - 3, 24 - 3
		// clockTick is the unit of times, on all Linux there is.
		clockTick = time.Second / 100
	)
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	number := func(i int) int64 {
		if i >= len(fields) {
			return 0
		}
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return n
	}
	r.parent = int(number(parent))
	r.cpu = time.Duration(number(user)+number(system)) * clockTick
	r.residentBytes = number(resident) * int64(os.Getpagesize())
}

// processUID is who a process is in its own namespace.
func processUID(dir string) int {
	mapping, err := os.ReadFile(filepath.Join(dir, "uid_map"))
	if fields := strings.Fields(string(mapping)); err == nil && len(fields) > 0 && fields[0] == strconv.Itoa(wire.UserUID) {
		return wire.UserUID
	}
	return wire.RootUID
}

// pgrep prints, and pkill signals, the processes that match a pattern.
func pgrep(c *call) int {
	sig := syscall.SIGTERM
	if c.name == "pkill" && len(c.args) > 0 {
		if s, ok := signalOption(c.args[0]); ok {
			sig, c.args = s, c.args[1:]
		}
	}
	f, rest, ok := c.parse("flxq", "uU")
	if !ok || len(rest) != 1 {
		return rcUsage
	}
	pattern, err := regexp.Compile(rest[0])
	if err != nil {
		c.errorf("Cannot compile regular expression `%s'", rest[0])
		return 2
	}
	all, err := processes()
	if err != nil {
		c.errorf("%v", err)
		return 3
	}
	rc := 1
	for _, p := range all {
		text := p.name()
		if f.has('f') {
			text = strings.Join(p.args, " ")
		}
		switch {
		case (processTable{c}).isMine(p) || !(processTable{c}).wantedUser(f, p) || !matchesWhole(pattern, text, f.has('x')):
			continue
		case c.name == "pkill":
			if err := (processTable{c}).signal(p, sig); err != nil {
				c.errorf("signalling pid %d: %s", p.pid, reason(err))
				continue
			}
		case f.has('q'):
		case f.has('l'):
			fmt.Fprintln(c.out, p.pid, text)
		default:
			fmt.Fprintln(c.out, p.pid)
		}
		rc = 0
	}
	return rc
}

// processTable is what ps, kill and their like see of the Mac's processes.
type processTable struct{ *call }

// isMine tells this very command and the ancestors pgrep leaves out on a Mac.
func (c processTable) isMine(p running) bool {
	for pid := os.Getpid(); pid > 1; {
		if pid == p.pid {
			return true
		}
		r, ok := readProcess(pid)
		if !ok {
			return false
		}
		pid = r.parent
	}
	return false
}

func (c processTable) wantedUser(f flags, p running) bool {
	for _, letter := range []byte{'u', 'U'} {
		if f.has(letter) && f[letter] != c.userName(p.uid) && f[letter] != strconv.Itoa(p.uid) {
			return false
		}
	}
	return true
}

func matchesWhole(pattern *regexp.Regexp, text string, whole bool) bool {
	if !whole {
		return pattern.MatchString(text)
	}
	pattern.Longest()
	return pattern.FindString(text) == text
}

// signal sends a signal as far as this process may.
func (c processTable) signal(p running, sig syscall.Signal) error {
	if c.uid != wire.RootUID && p.uid != c.uid {
		return syscall.EPERM
	}
	return syscall.Kill(p.pid, sig)
}

// signalOption reads -9, -KILL and -SIGKILL.
func signalOption(s string) (syscall.Signal, bool) {
	name, ok := strings.CutPrefix(s, "-")
	if !ok {
		return 0, false
	}
	return signalNamed(name)
}

func signalNamed(name string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(name); err == nil {
		return syscall.Signal(n), n >= 0 && n < 32
	}
	sig, ok := map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
		"TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
	return sig, ok
}

// kill is /bin/kill; shells have one of their own, which the model of owners
// does not reach.
func kill(c *call) int {
	sig, args := syscall.SIGTERM, c.args
	if len(args) > 1 && args[0] == "-s" {
		s, ok := signalNamed(args[1])
		if !ok {
			return c.unmodelled("signal " + args[1])
		}
		sig, args = s, args[2:]
	} else if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		s, ok := signalOption(args[0])
		if !ok {
			return c.unmodelled("option " + args[0])
		}
		sig, args = s, args[1:]
	}
	if len(args) == 0 {
		return rcUsage
	}
	rc := 0
	for _, a := range args {
		if err := (processTable{c}).killOne(a, sig); err != nil {
			c.errorf("%s: %s", a, reason(err))
			rc = 1
		}
	}
	return rc
}

func (c processTable) killOne(arg string, sig syscall.Signal) error {
	pid, err := strconv.Atoi(arg)
	if err != nil || pid <= 0 {
		return errors.New("illegal process id")
	}
	p, ok := readProcess(pid)
	if !ok {
		return syscall.ESRCH
	}
	return c.signal(p, sig)
}

// killall signals processes by name.
func killall(c *call) int {
	sig, args := syscall.SIGTERM, c.args
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		s, ok := signalOption(args[0])
		if !ok {
			return c.unmodelled("option " + args[0])
		}
		sig, args = s, args[1:]
	}
	all, err := processes()
	if err != nil || len(args) == 0 {
		return rcUsage
	}
	rc := 0
	for _, name := range args {
		found := name == loginwindow && (processTable{c}).killLoginwindow(sig)
		for _, p := range all {
			if p.name() == name && p.pid != os.Getpid() && (processTable{c}).signal(p, sig) == nil {
				found = true
			}
		}
		if !found {
			fmt.Fprintln(c.err, "No matching processes belonging to you were found")
			rc = 1
		}
	}
	return rc
}

// loginwindow is no process here: pid 1 models it.
const loginwindow = "loginwindow"

// killLoginwindow has pid 1 end it, and reports whether it ran and this process may.
func (c processTable) killLoginwindow(sig syscall.Signal) bool {
	if sig == 0 {
		return false
	}
	a, err := c.ask(wire.Call{Tool: &wire.ToolCall{Name: "killall", Args: []string{loginwindow}}})
	return err == nil && a.Error == "" && a.RC == 0
}

// ps knows -a, -A, -x, -p and -o with the columns below.
func ps(c *call) int {
	f, rest, ok := c.parse("aAxew", "opU")
	if !ok {
		return rcUsage
	}
	if len(rest) > 0 {
		return c.unmodelled(strings.Join(rest, " "))
	}
	columns, ok := processTable{c}.psColumns(f)
	if !ok {
		return rcUsage
	}
	all, err := processes()
	if err != nil {
		c.errorf("%v", err)
		return 1
	}
	wanted := strings.Split(f['p'], ",")
	rc := 1
	for _, p := range all {
		if f.has('p') && !slices.Contains(wanted, strconv.Itoa(p.pid)) || !(processTable{c}).wantedUser(flags{}, p) {
			continue
		}
		if !f.has('p') && !f.has('a') && !f.has('A') && !f.has('e') && p.uid != c.uid {
			continue
		}
		rc = 0
		processTable{c}.psLine(columns, p)
	}
	return rc
}

// psColumn is one column; an empty title leaves the header line out when all
// are empty.
type psColumn struct{ key, title string }

func (c processTable) psColumns(f flags) ([]psColumn, bool) {
	format := "pid,args"
	if f.has('o') {
		format = f['o']
	}
	var columns []psColumn
	titled := false
	for _, item := range strings.Split(format, ",") {
		key, title, renamed := strings.Cut(strings.TrimSpace(item), "=")
		if !renamed {
			title = strings.ToUpper(key)
		}
		if !slices.Contains([]string{"pid", "ppid", "uid", "user", "rss", "time", "args", "command", "comm"}, key) {
			c.unmodelled("column " + key)
			return nil, false
		}
		columns, titled = append(columns, psColumn{key, title}), titled || title != ""
	}
	if titled {
		for i, col := range columns {
			fmt.Fprint(c.out, psCell(col.key, col.title, i == len(columns)-1))
		}
	}
	return columns, true
}

func psCell(key, text string, last bool) string {
	switch {
	case last && (key == "args" || key == "command" || key == "comm" || key == "user"):
		return text + "\n"
	case last:
		return fmt.Sprintf("%5s\n", text)
	case key == "rss":
		return fmt.Sprintf("%6s ", text)
	case key == "time":
		return fmt.Sprintf("%9s ", text)
	case key == "pid" || key == "ppid" || key == "uid":
		return fmt.Sprintf("%5s ", text)
	}
	return fmt.Sprintf("%-16s ", text)
}

func (c processTable) psLine(columns []psColumn, p running) {
	for i, col := range columns {
		text := map[string]string{
			"pid": strconv.Itoa(p.pid), "ppid": strconv.Itoa(p.parent), "uid": strconv.Itoa(p.uid), "user": c.userName(p.uid),
			"rss": strconv.FormatInt(p.residentBytes>>10, 10), "time": cpuTime(p.cpu),
			"args": strings.Join(p.args, " "), "command": strings.Join(p.args, " "), "comm": p.args[0],
		}[col.key]
		fmt.Fprint(c.out, psCell(col.key, text, i == len(columns)-1))
	}
}

// cpuTime is in minutes, seconds and hundredths: a Mac's ps counts no hours.
func cpuTime(d time.Duration) string {
	hundredths := d / (10 * time.Millisecond)
	return fmt.Sprintf("%d:%02d.%02d", hundredths/6000, hundredths/100%60, hundredths%100)
}
