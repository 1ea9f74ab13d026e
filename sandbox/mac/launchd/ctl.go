package launchd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Exit codes of launchctl, which are launchd's error numbers.
const (
	codeNotPermitted = 1
	codeNoProcess    = 3
	codeIO           = 5
	codeInProgress   = 36
	codeAlready      = 37
	codeUsage        = 64
	codeNotFound     = 113
	codeDisabled     = 119
	codeDomain       = 125
)

func errorText(code int) string {
	switch code {
	case codeNotPermitted:
		return "Operation not permitted"
	case codeNoProcess:
		return "No such process"
	case codeIO:
		return "Input/output error"
	case codeInProgress:
		return "Operation now in progress"
	case codeAlready:
		return "Operation already in progress"
	case codeDisabled:
		return "Service is disabled"
	case codeDomain:
		return "Domain does not support specified action"
	}
	return "Could not find specified service"
}

// Result is the outcome of one launchctl command.
type Result struct {
	RC             int
	Stdout, Stderr string
	// Unmodelled is set when the command or a flag of it is not modelled.
	Unmodelled string
}

func unmodelled(what string) Result {
	return Result{RC: codeUsage, Stderr: "launchctl: not modelled: " + what + "\n", Unmodelled: what}
}

func failed(what string, code int) Result {
	if code == 0 {
		return Result{}
	}
	return Result{RC: code, Stderr: fmt.Sprintf("%s failed: %d: %s\n", what, code, errorText(code))}
}

func notFound(domain, label string) Result {
	return Result{
		RC:     codeNotFound,
		Stderr: fmt.Sprintf("Bad request.\nCould not find service %q in domain for %s\n", label, domain),
	}
}

// Control runs launchctl with args (without its name) for a user id.
func (l *Launchd) Control(uid int, args []string) Result {
	if len(args) == 0 {
		return unmodelled("no subcommand")
	}
	verb, args := args[0], args[1:]
	switch verb {
	case "print":
		return l.ctlPrint(args)
	case "print-disabled":
		return l.ctlPrintDisabled(args)
	case "list":
		return l.ctlList(args)
	case "managername":
		return Result{Stdout: map[bool]string{true: "System\n", false: "Background\n"}[uid == wire.RootUID]}
	}
	writers := map[string]func([]string) Result{
		"bootstrap": l.ctlBootstrap, "bootout": l.ctlBootout, "kickstart": l.ctlKickstart,
		"enable": l.ctlEnable, "disable": l.ctlDisable, "kill": l.ctlKill,
	}
	write, ok := writers[verb]
	if !ok {
		return unmodelled(verb)
	}
	if uid != wire.RootUID {
		return failed(verb, codeNotPermitted)
	}
	return write(args)
}

func (l *Launchd) ctlBootstrap(args []string) Result {
	if len(args) < 2 {
		return unmodelled("bootstrap without a path")
	}
	if args[0] != "system" {
		return failed("Bootstrap", codeDomain)
	}
	for _, path := range args[1:] {
		if rc := l.bootstrap(path); rc != 0 {
			return failed("Bootstrap", rc)
		}
	}
	return Result{}
}

func (l *Launchd) ctlBootout(args []string) Result {
	label := ""
	switch {
	case len(args) == 1:
		domain, name, ok := strings.Cut(args[0], "/")
		if !ok || domain != "system" {
			return failed("Boot-out", codeDomain)
		}
		label = name
	case len(args) == 2 && args[0] == "system":
		d, _, err := l.read(args[1])
		if err != nil {
			return failed("Boot-out", codeIO)
		}
		label = d.Label
	default:
		return failed("Boot-out", codeDomain)
	}
	return failed("Boot-out", l.bootout(label))
}

func (l *Launchd) ctlKickstart(args []string) Result {
	restart, show := false, false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		for _, f := range args[0][1:] {
			switch f {
			case 'k':
				restart = true
			case 'p':
				show = true
			default:
				return unmodelled("kickstart " + args[0])
			}
		}
		args = args[1:]
	}
	label, r := l.target("Kickstart", args)
	if label == "" {
		return r
	}
	pid, rc := l.kickstart(label, restart)
	if rc == codeNotFound {
		return Result{RC: rc, Stderr: fmt.Sprintf("Could not find service %q in domain for system\n", label)}
	}
	if rc != 0 {
		return Result{RC: rc, Stderr: fmt.Sprintf("Could not kickstart service %q: %d: %s\n", label, rc, errorText(rc))}
	}
	if show {
		return Result{Stdout: fmt.Sprintf("service spawned with pid: %d\n", pid)}
	}
	return Result{}
}

func (l *Launchd) ctlEnable(args []string) Result  { return l.override("Enable", args, false) }
func (l *Launchd) ctlDisable(args []string) Result { return l.override("Disable", args, true) }

func (l *Launchd) override(what string, args []string, disabled bool) Result {
	label, r := l.target(what, args)
	if label != "" {
		l.setDisabled(label, disabled)
	}
	return r
}

func (l *Launchd) ctlKill(args []string) Result {
	if len(args) != 2 {
		return unmodelled("kill without signal and target")
	}
	sig, ok := parseSignal(args[0])
	if !ok {
		return unmodelled("kill " + args[0])
	}
	label, r := l.target("Kill", args[1:])
	if label == "" {
		return r
	}
	rc := l.signal(label, sig)
	if rc == codeNotFound {
		return notFound("system", label)
	}
	return failed("Kill", rc)
}

// target takes system/<label>; the label is empty when the result holds.
func (l *Launchd) target(what string, args []string) (string, Result) {
	if len(args) != 1 {
		return "", unmodelled(strings.ToLower(what) + " with other than one target")
	}
	domain, label, ok := strings.Cut(args[0], "/")
	if !ok || domain != "system" || label == "" {
		return "", failed(what, codeDomain)
	}
	return label, Result{}
}

func parseSignal(s string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return syscall.Signal(n), n > 0 && n < 32
	}
	names := map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
		"TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ABRT": syscall.SIGABRT,
		"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}
	sig, ok := names[strings.TrimPrefix(s, "SIG")]
	return sig, ok
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
