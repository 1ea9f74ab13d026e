package shims

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/sudoers"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// rulesOf is sudo -l: the rules that hold for the caller.
func (c sudoer) rulesOf(r sudoRequest, policy *sudoers.Policy) int {
	rules, needPassword := policy.List(c.userName(c.uid), c.groups())
	if c.uid != wire.RootUID && needPassword && !c.authenticate(r) {
		return 1
	}
	if len(rules) == 0 {
		fmt.Fprintf(c.out, "User %s is not allowed to run sudo on %s.\n", c.userName(c.uid), c.hostName())
		return 1
	}
	fmt.Fprintf(c.out, "User %s may run the following commands on %s:\n", c.userName(c.uid), c.hostName())
	for _, rule := range rules {
		fmt.Fprintf(c.out, "    %s\n", rule)
	}
	return 0
}

// mayRun is sudo -l with a command: whether the caller may run it at all,
// with or without a password. That none is needed for asking says nothing of
// the command itself.
func (c sudoer) mayRun(r sudoRequest, policy *sudoers.Policy, path string) int {
	_, needPassword := policy.List(c.userName(c.uid), c.groups())
	if c.uid != wire.RootUID && needPassword && !c.authenticate(r) {
		return 1
	}
	d := policy.Decide(sudoers.Request{
		User: c.userName(c.uid), Groups: c.groups(), RunAs: r.runAs, Path: path, Args: r.argv[1:],
	})
	if !d.Allowed {
		return 1
	}
	fmt.Fprintln(c.out, strings.Join(append([]string{path}, r.argv[1:]...), " "))
	return 0
}

// controllingTerminal names the terminal of this process and its session, or
// is empty without one. A ticket is worth nothing in another session.
func controllingTerminal() string {
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return ""
	}
	// After the name in parentheses: state, parent, group, session, terminal.
	_, rest, ok := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 5 || fields[4] == "0" {
		return ""
	}
	return fields[4] + ":" + fields[3]
}

// ticket asks about a terminal; there is none for what has no terminal.
func (c sudoer) ticket(t wire.Ticket) bool {
	if t.Terminal == "" {
		return false
	}
	a, err := c.ask(wire.Call{Ticket: &t})
	return err == nil && a.Found
}

func (c sudoer) forgetTicket() int {
	c.ticket(wire.Ticket{Terminal: controllingTerminal(), Forget: true})
	return 0
}

// asker returns what reads one password: from stdin with -S, else from the
// terminal with the echo off; nil when there is neither.
func (c sudoer) asker(r sudoRequest) (ask func() (string, bool), done func()) {
	if r.stdin {
		return func() (string, bool) {
			fmt.Fprint(c.err, r.prompt)
			return readLine(os.Stdin)
		}, func() {}
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, nil
	}
	fd := int(tty.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		_ = tty.Close()
		return nil, nil
	}
	silent := *before
	silent.Lflag &^= unix.ECHO
	_ = unix.IoctlSetTermios(fd, unix.TCSETS, &silent)
	return func() (string, bool) {
			fmt.Fprint(tty, r.prompt)
			line, eof := readLine(tty)
			fmt.Fprintln(tty)
			return line, eof
		}, func() {
			_ = unix.IoctlSetTermios(fd, unix.TCSETS, before)
			_ = tty.Close()
		}
}
