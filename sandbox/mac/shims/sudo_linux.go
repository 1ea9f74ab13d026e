package shims

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/macfleet/macfleet/sandbox/mac/sudoers"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// passwordTries is sudo's passwd_tries as macOS builds it.
const passwordTries = 3

// sudoRequest is a sudo command line taken apart.
type sudoRequest struct {
	nonInteractive, stdin bool
	// list asks what is allowed, ignoreTicket for the password in any case.
	list, ignoreTicket bool
	prompt             string
	runAs              string
	env                []string
	argv               []string
}

// sudo runs a command under another identity, or tells what is allowed.
// Tickets are modelled for terminals; elsewhere every run without a NOPASSWD
// rule needs the password, as with -k.
func sudo(c *call) int {
	r, rc := sudoer{c}.parseSudo()
	if rc != 0 {
		return rc
	}
	if len(r.argv) == 0 {
		if r.list {
			return sudoer{c}.rulesOf(r, sudoer{c}.policy())
		}
		return sudoer{c}.forgetTicket()
	}
	path, err := lookPath(r.argv[0])
	if err != nil {
		c.errorf("%s: command not found", r.argv[0])
		return 1
	}
	policy := sudoer{c}.policy()
	if r.list {
		return sudoer{c}.mayRun(r, policy, path)
	}
	d := policy.Decide(sudoers.Request{
		User: c.userName(c.uid), Groups: sudoer{c}.groups(), RunAs: r.runAs, Path: path, Args: r.argv[1:],
	})
	needPassword := c.uid != wire.RootUID && d.NeedPassword
	if (needPassword || !d.Allowed) && !(sudoer{c}).authenticate(r) {
		return 1
	}
	if !d.Allowed {
		fmt.Fprintf(c.err, "Sorry, user %s is not allowed to execute '%s' as %s on %s.\n",
			c.userName(c.uid), strings.Join(append([]string{path}, r.argv[1:]...), " "), r.runAs, c.hostName())
		return 1
	}
	return sudoer{c}.runAs(r, path)
}

// sudoer is what sudo and visudo do.
type sudoer struct{ *call }

func (c sudoer) parseSudo() (sudoRequest, int) {
	r := sudoRequest{prompt: "Password:", runAs: "root"}
	f, rest, ok := c.parse("nSkKHl", "pu")
	if !ok {
		return r, rcUsage
	}
	r.list, r.ignoreTicket = f.has('l'), f.has('k')
	if len(rest) == 0 && !r.list && (f.has('k') || f.has('K')) {
		return r, 0
	}
	if f.has('K') || len(rest) == 0 && !r.list {
		return r, c.unmodelled("a form without a command")
	}
	r.nonInteractive, r.stdin = f.has('n'), f.has('S')
	if f.has('p') {
		r.prompt = f['p']
	}
	if f.has('u') {
		r.runAs = f['u']
	}
	if r.runAs != "root" && r.runAs != c.world.Username {
		c.errorf("unknown user %s", r.runAs)
		return r, 1
	}
	for len(rest) > 0 && strings.Contains(rest[0], "=") && !strings.Contains(strings.SplitN(rest[0], "=", 2)[0], "/") {
		r.env, rest = append(r.env, rest[0]), rest[1:]
	}
	if r.argv = rest; len(rest) == 0 && !r.list {
		return r, c.unmodelled("a form without a command")
	}
	return r, 0
}

// authenticate asks for the password as often as sudo does, unless the
// terminal is trusted. An empty line and the end of input are refused before
// anybody is asked, so they do not count.
func (c sudoer) authenticate(r sudoRequest) bool {
	terminal := controllingTerminal()
	if !r.ignoreTicket && c.ticket(wire.Ticket{Terminal: terminal}) {
		return true
	}
	if r.nonInteractive {
		c.errorf("a password is required")
		return false
	}
	ask, done := c.asker(r)
	if ask == nil {
		c.errorf("a terminal is required to read the password; either use the -S option to read from standard input or configure an askpass helper")
		c.errorf("a password is required")
		return false
	}
	defer done()
	if !c.askPassword(ask) {
		return false
	}
	if !r.ignoreTicket {
		c.ticket(wire.Ticket{Terminal: terminal, Grant: true})
	}
	return true
}

func (c sudoer) askPassword(ask func() (line string, eof bool)) bool {
	wrong := 0
	for try := range passwordTries {
		line, eof := ask()
		if eof && line == "" {
			c.noPassword(wrong)
			return false
		}
		if line != "" {
			a, err := c.ask(wire.Call{Verify: &wire.Verify{Password: line}})
			if err == nil && a.Verified {
				return true
			}
			wrong++
		}
		if try < passwordTries-1 {
			fmt.Fprintln(c.err, "Sorry, try again.")
		}
	}
	c.incorrect(max(wrong, 1))
	return false
}

func (c sudoer) noPassword(wrong int) {
	if wrong > 0 {
		c.errorf("no password was provided")
		c.incorrect(wrong)
		return
	}
	c.errorf("no password was provided")
	c.errorf("a password is required")
}

func (c sudoer) incorrect(n int) {
	plural := "s"
	if n == 1 {
		plural = ""
	}
	c.errorf("%d incorrect password attempt%s", n, plural)
}

// readLine reads up to a newline, a byte at a time, so that what follows is
// left for the command. It bypasses the digest: this is a password.
func readLine(from *os.File) (line string, eof bool) {
	var b [1]byte
	var out []byte
	for {
		n, err := from.Read(b[:])
		if n == 1 && b[0] == '\n' {
			return string(out), false
		}
		if n == 1 {
			out = append(out, b[0])
		}
		if err != nil {
			return string(out), true
		}
	}
}

func (c sudoer) groups() []string {
	if c.uid == wire.RootUID {
		return []string{"wheel", "admin"}
	}
	return []string{"staff", "admin"}
}

func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return "", os.ErrNotExist
		}
		return filepath.Abs(name)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		p := filepath.Join(dir, name)
		if info, err := os.Stat(p); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", os.ErrNotExist
}

// runAs runs the command as somebody.
func (c sudoer) runAs(r sudoRequest, path string) int {
	uid := wire.RootUID
	if r.runAs != "root" {
		uid = wire.UserUID
	}
	return c.start(wire.Run{Path: path, Argv: r.argv, Env: c.sudoEnv(r, path), UID: uid})
}

// start has pid 1 start a program and waits, passing signals on.
func (c *call) start(r wire.Run) int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	r.Dir = dir
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			if n, ok := s.(syscall.Signal); ok {
				_ = c.pid1.Send(wire.Call{Signal: int(n)})
			}
		}
	}()
	a, err := c.ask(wire.Call{Run: &r}, 0, 1, 2)
	signal.Stop(signals)
	if err != nil {
		c.errorf("%v", err)
		return rcSoftware
	}
	if a.Error != "" {
		c.errorf("unable to execute %s", a.Error)
	}
	if a.Signal != 0 {
		return 128 + a.Signal
	}
	return a.RC
}

// sudoEnv is what env_reset leaves on macOS: HOME and MAIL stay the caller's,
// PATH stays as it is since there is no secure_path.
func (c sudoer) sudoEnv(r sudoRequest, path string) []string {
	kept := []string{"PATH", "TERM", "HOME", "MAIL", "LANG", "TZ", "SSH_AUTH_SOCK", "COLORTERM", "EDITOR", "VISUAL"}
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(kept, name) || strings.HasPrefix(name, "LC_") {
			env = append(env, kv)
		}
	}
	env = append(env,
		"USER="+r.runAs, "LOGNAME="+r.runAs, "SHELL=/bin/sh",
		"SUDO_USER="+c.userName(c.uid), fmt.Sprintf("SUDO_UID=%d", c.uid), fmt.Sprintf("SUDO_GID=%d", c.mine().GID),
		"SUDO_COMMAND="+strings.Join(append([]string{path}, r.argv[1:]...), " "))
	return append(env, r.env...)
}
