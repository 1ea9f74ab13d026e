package tart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guest"
)

// Env is what a process hands to [Main]. Its zero value stands for the streams and
// the environment of the calling process.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
}

func (e Env) withDefaults() Env {
	if e.Stdin == nil {
		e.Stdin = os.Stdin
	}
	if e.Stdout == nil {
		e.Stdout = os.Stdout
	}
	if e.Stderr == nil {
		e.Stderr = os.Stderr
	}
	if e.Getenv == nil {
		e.Getenv = os.Getenv
	}
	return e
}

// get reads a variable, taking an empty one as unset.
func (e Env) get(name, otherwise string) string {
	if v := e.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// Main runs one tart command line and returns its exit code: 0 for success, 2 when a
// VM does not exist, is not running or is already running, 64 for wrong usage, and 1
// for everything else. args[0] is the name of the program; the guests of `run` are
// processes of the same executable with the same args[0]. Under the name nc it is what
// guests have of that name.
//
// Main must be called from the main function of a process of its own: `run` holds
// locks that end with the process, and handles its signals.
func Main(args []string, env Env) int {
	env = env.withDefaults()
	if len(args) > 0 && filepath.Base(args[0]) == "nc" {
		return guest.Netcat(args[1:], env.Stdin, env.Stdout, env.Stderr)
	}
	if len(args) > 1 && args[1] == guestCommand {
		return guestMain(env.Stdin, env.Stderr)
	}
	c, err := newCLI(args, env)
	if err != nil {
		return report(env.Stderr, err)
	}
	// Every command but run gives up on SIGINT; run takes it as tart stop.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	done := c.journal.begin(args)
	code := report(env.Stderr, c.dispatch(ctx, args[1:]))
	done(code)
	return code
}

// cli is one invocation: where things are, and what the plan says goes wrong.
type cli struct {
	env       Env
	program   string
	home      home
	plan      *armedPlan
	journal   journal
	stateDir  string
	leaseFile string
}

func newCLI(args []string, env Env) (*cli, error) {
	if len(args) == 0 {
		return nil, errors.New("started without a program name")
	}
	root := env.Getenv("TART_HOME")
	if root == "" {
		root = filepath.Join(env.get("HOME", "/"), ".tart")
	}
	h := home(root)
	if err := h.prepare(); err != nil {
		return nil, err
	}
	plan, err := loadPlan(env.get("TART_FAKE_FAULTS", "/var/db/tart-fake/plan.json"))
	if err != nil {
		return nil, err
	}
	return &cli{
		env:       env,
		program:   args[0],
		home:      h,
		plan:      plan,
		journal:   journal(env.get("TART_FAKE_JOURNAL", filepath.Join(root, ".journal.jsonl"))),
		stateDir:  env.get("TART_FAKE_STATE", "/var/run/tart-fake"),
		leaseFile: env.get("TART_FAKE_LEASES", "/var/db/dhcpd_leases"),
	}, nil
}

func (c *cli) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
		c.printf("%s", overview)
		return nil
	}
	if args[0] == "--version" {
		c.printf("%s\n", c.plan.Version)
		return nil
	}
	command, known := c.commands()[args[0]]
	if !known {
		return unknownCommand(args[0])
	}
	if args[0] != "pull" && args[0] != "clone" {
		c.home.collectTemporary()
	}
	return command(ctx, args[1:])
}

func (c *cli) commands() map[string]func(context.Context, []string) error {
	return map[string]func(context.Context, []string) error{
		"pull":    images{c}.pull,
		"clone":   c.clone,
		"set":     c.set,
		"run":     runner{c}.run,
		"ip":      c.ip,
		"stop":    c.stop,
		"delete":  c.delete,
		"list":    lister{c}.list,
		"get":     lister{c}.get,
		"fqn":     images{c}.fqn,
		"rename":  c.rename,
		"exec":    c.exec,
		"suspend": c.suspend,
		"prune":   c.prune,
		"login":   images{c}.login,
		"logout":  images{c}.logout,
		"push":    images{c}.push,
		"import":  c.importVM,
		"export":  c.exportVM,
	}
}

func unknownCommand(name string) error {
	if name == "create" {
		return usageError{message: fmt.Sprintf("the simulated tart does not model %q", name)}
	}
	return usageError{message: fmt.Sprintf("Unexpected argument '%s'", name)}
}

// now is the time by the Mac's clock.
func (c *cli) now() time.Time { return time.Now().Add(time.Duration(c.plan.ClockOffset)) }

// printf writes to stdout; a reader that has gone away is its own trouble.
func (c *cli) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.env.Stdout, format, args...)
}

const overview = `USAGE: tart <subcommand>

SUBCOMMANDS:
  clone, delete, exec, export, fqn, get, import, ip, list, login, logout,
  prune, pull, push, rename, run, set, stop, suspend
`
