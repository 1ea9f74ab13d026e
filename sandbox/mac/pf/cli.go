package pf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Command is one run of pfctl by root.
type Command struct {
	Args []string
	// Stdin is what `-f -` reads.
	Stdin []byte
	Read  ReadFile
	PID   int
}

// Result is what a run of pfctl leaves. Unmodelled says what it was asked for
// that this one does not know; nothing was done then.
type Result struct {
	RC             int
	Stdout, Stderr string
	Unmodelled     string
}

// Exit codes of pfctl; a table that is not there is the odd one.
const (
	rcFailed   = 1
	rcNoTable  = 255
	rcUsage    = 64
	loadNotice = `pfctl: Use of -f option, could result in flushing of rules
present in the main ruleset added by the system at startup.
See /etc/pf.conf for further details.

`
	altqNotice = "No ALTQ support in kernel\nALTQ related functions disabled\n"
)

// Run does what a pfctl command line asks for, and prints what pfctl prints.
func (f *Filter) Run(c Command) Result {
	r := &run{f: f, c: c}
	if err := r.parse(); err != nil {
		return r.refuse(err)
	}
	r.do()
	return Result{RC: r.rc, Stdout: r.out.String(), Stderr: r.err.String(), Unmodelled: r.unmodelled}
}

// run is one command line under way.
type run struct {
	f *Filter
	c Command

	anchor, file, show, flush, table, verb, token string
	kill                                          []string
	words                                         []string
	enable, refer, disable, dry, quiet, loads     bool

	out, err   bytes.Buffer
	rc         int
	unmodelled string
}

func (r *run) refuse(err error) Result {
	return Result{RC: rcUsage, Stderr: "pfctl: " + err.Error() + "\n", Unmodelled: err.Error()}
}

// parse reads the options as getopt(3) does.
func (r *run) parse() error {
	args := r.c.Args
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		letters := args[0][1:]
		args = args[1:]
		for letters != "" {
			letter := letters[0]
			letters = letters[1:]
			if !strings.ContainsRune("aFfkostTX", rune(letter)) {
				if !r.flag(letter) {
					return &NotModelled{What: "option -" + string(letter)}
				}
				continue
			}
			value := letters
			letters = ""
			if value == "" {
				if len(args) == 0 {
					return &NotModelled{What: "option -" + string(letter) + " without a value"}
				}
				value, args = args[0], args[1:]
			}
			if err := r.valued(letter, value); err != nil {
				return err
			}
		}
	}
	r.words = args
	if len(r.c.Args) == 0 || (len(args) > 0 && r.verb == "") {
		return &NotModelled{What: "pfctl " + strings.Join(r.c.Args, " ")}
	}
	return nil
}

func (r *run) flag(letter byte) bool {
	switch letter {
	case 'e':
		r.enable = true
	case 'E':
		r.refer = true
	case 'd':
		r.disable = true
	case 'n':
		r.dry = true
	case 'q':
		r.quiet = true
	case 'v':
	default:
		return false
	}
	return true
}

func (r *run) valued(letter byte, value string) (err error) {
	switch letter {
	case 'a':
		r.anchor = strings.Trim(value, "/")
	case 'f':
		r.file, r.loads = value, true
	case 'k':
		r.kill = append(r.kill, value)
	case 'o':
		// Rules are never optimized here; that they are not must be asked for where it
		// matters.
		_, err = abbreviated(value, "none")
	case 't':
		r.table = value
	case 'X':
		r.token = value
	case 's':
		r.show, err = abbreviated(value, "nat", "rules", "Anchors", "states", "info", "Tables", "References", "dummynet")
	case 'F':
		r.flush, err = abbreviated(value, "nat", "rules", "states", "Tables", "all")
	case 'T':
		r.verb, err = abbreviated(value, "kill", "show", "add", "replace", "flush", "delete", "test")
	}
	return err
}

// abbreviated finds the first word that starts with what was given.
func abbreviated(given string, words ...string) (string, error) {
	i := slices.IndexFunc(words, func(w string) bool { return given != "" && strings.HasPrefix(w, given) })
	if i < 0 {
		return "", &NotModelled{What: given}
	}
	return words[i], nil
}

// do keeps pfctl's order, which is not that of the arguments.
func (r *run) do() {
	if r.loads {
		r.say(loadNotice)
	}
	if !r.dry {
		r.say(altqNotice)
	}
	for _, step := range []struct {
		wanted bool
		do     func()
	}{
		{r.disable, func() { r.report(r.f.disable(), "pf disabled") }},
		{r.token != "", r.release},
		{r.show != "", r.print},
		{r.flush != "", r.clear},
		{len(r.kill) > 0, r.killStates},
		{r.verb != "", r.tables},
		{r.loads && r.verb == "", r.load},
		{r.enable, func() { r.report(r.f.enable(), "pf enabled") }},
		{r.refer, r.acquire},
	} {
		if step.wanted {
			step.do()
		}
		if r.rc != 0 {
			return
		}
	}
}

// say prints what -q silences.
func (r *run) say(format string, args ...any) {
	if !r.quiet {
		fmt.Fprintf(&r.err, format, args...)
	}
}

func (r *run) fail(rc int, err error) {
	fmt.Fprintf(&r.err, "pfctl: %v\n", err)
	r.rc = rc
}

func (r *run) report(err error, done string) {
	if err != nil {
		r.fail(rcFailed, err)
		return
	}
	r.say("%s\n", done)
}

func (r *run) acquire() {
	was := r.f.Enabled()
	token := r.f.Acquire(r.c.PID, "pfctl")
	if was {
		r.say("pfctl: pf already enabled\n")
	} else {
		r.say("pf enabled\n")
	}
	fmt.Fprintf(&r.err, "Token : %d\n", token)
}

func (r *run) release() {
	token, err := strconv.ParseUint(r.token, 10, 64)
	if err != nil {
		r.fail(rcFailed, errBadToken)
		return
	}
	left, err := r.f.Release(token)
	switch {
	case err != nil:
		r.fail(rcFailed, err)
	case left == 0:
		r.say("disable request successful, pf disabled\n")
	default:
		r.say("disable request successful. %d more pf enable reference(s) remaining, pf still enabled.\n", left)
	}
}

func (r *run) load() {
	name, text := r.file, r.c.Stdin
	if r.file == "-" {
		name = "stdin"
	} else {
		data, err := r.c.Read(r.file)
		if err != nil {
			r.fail(rcFailed, fmt.Errorf("%s: %s", r.file, unreadable(err)))
			return
		}
		text = data
	}
	l := load{f: r.f, read: r.c.Read, dry: r.dry}
	err := l.main(r.anchor, name, string(text))
	for _, line := range l.says {
		r.say("%s\n", line)
	}
	r.loadFailed(err)
}

// loadFailed prints complaints about lines as they are, and what ended the load
// under pfctl's name.
func (r *run) loadFailed(err error) {
	var missing *NotModelled
	var many interface{ Unwrap() []error }
	switch {
	case err == nil:
		return
	case errors.As(err, &missing):
		r.unmodelled = err.Error()
		r.fail(rcUsage, err)
		return
	case !errors.As(err, &many):
		r.fail(rcFailed, err)
		return
	}
	for _, e := range many.Unwrap() {
		var c *Complaint
		if errors.As(e, &c) {
			fmt.Fprintln(&r.err, c)
			continue
		}
		r.fail(rcFailed, e)
	}
}

func unreadable(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "No such file or directory"
	}
	return err.Error()
}

func (r *run) clear() {
	f := r.f
	switch r.flush {
	case "rules", "nat":
		f.flushRules(r.anchor, r.flush)
		r.say("%s cleared\n", r.flush)
	case "states":
		r.say("%d states cleared\n", f.clearStates())
	case "Tables":
		r.flushTables()
	case "all":
		f.flushRules(r.anchor, "rules")
		f.flushRules(r.anchor, "nat")
		r.say("rules cleared\nnat cleared\ndummynet cleared\n")
		if r.anchor == "" {
			r.say("%d states cleared\n", f.clearStates())
		}
		r.flushTables()
	}
}

func (r *run) flushTables() {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if r.f.anchors[r.anchor] == nil {
		r.say("pfctl: Anchor or Ruleset does not exist.\n")
		return
	}
	r.say("%s deleted.\n", plural(r.f.flushTables(r.anchor), "table"))
	r.f.prune()
}

func (r *run) killStates() {
	nets := make([]netip.Prefix, 2)
	for i, word := range r.kill {
		prefix, _, ok := parsePrefix(word)
		if !ok || i > 1 {
			r.rc, r.unmodelled = rcUsage, "-k "+word
			return
		}
		nets[i] = prefix
	}
	n := r.f.KillStates(nets[0], nets[1])
	r.say("killed %d states from %d sources and %d destinations\n", n, 1, len(r.kill)-1)
}

// clearStates forgets all conversations.
func (f *Filter) clearStates() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.sessions)
	f.sessions = nil
	return n
}

// flushRules empties the filter or the translation rules of an anchor.
func (f *Filter) flushRules(anchor, which string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rs := f.anchors[anchor]
	if rs == nil {
		return
	}
	gone := []section{filtering, normalization}
	if which == "nat" {
		gone = []section{translation, redirection}
	}
	for _, s := range gone {
		f.tables.refer(anchor, rs.rules[s], -1)
		rs.rules[s], rs.private[s] = nil, nil
	}
	f.prune()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
