// Package sudoers reads the part of the sudoers language that a managed Mac
// uses and decides what a user may run. It covers user, group and ALL
// specifications, command aliases, NOPASSWD and PASSWD tags, wildcards in
// commands, and Defaults lines, which it accepts and ignores. Reading files,
// checking who owns them and asking for passwords is left to the caller.
package sudoers

import (
	"fmt"
	"path"
	"strings"
)

// SyntaxError is a line that sudo would refuse.
type SyntaxError struct {
	File string
	Line int
	Text string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d: syntax error", e.File, e.Line)
}

// Rule lets users matching Who run commands matching Commands.
type Rule struct {
	Who      string
	RunAs    string // user list between the parentheses; "" means root
	Commands []Command
}

// Command is one entry of a rule's command list.
type Command struct {
	// Pattern is ALL, an absolute path, or a command alias before expansion.
	Pattern    string
	Args       string // "" any, `""` none, otherwise a pattern
	NoPassword bool
	Negated    bool
}

// Policy is the rules of all files in the order sudo reads them.
type Policy struct {
	Rules   []Rule
	aliases map[string][]Command
}

// Request is somebody who wants to run something.
type Request struct {
	User   string
	Groups []string
	RunAs  string
	Path   string
	Args   []string
}

// Decision is the outcome for a Request.
type Decision struct {
	Allowed      bool
	NeedPassword bool
}

// Ignored reports whether sudo passes over a drop-in because of its name:
// names holding a dot and names ending in a tilde.
func Ignored(name string) bool {
	return strings.Contains(name, ".") || strings.HasSuffix(name, "~")
}

// Decide applies the rules. As in sudo, the last match wins.
func (p *Policy) Decide(r Request) Decision {
	d := Decision{}
	for _, rule := range p.Rules {
		if !matchUser(rule.Who, r) || !matchRunAs(rule.RunAs, r.RunAs) {
			continue
		}
		for _, c := range p.expand(rule.Commands) {
			if c.matches(r.Path, r.Args) {
				d = Decision{Allowed: !c.Negated, NeedPassword: !c.NoPassword}
			}
		}
	}
	return d
}

// List returns the rules that hold for somebody, and whether seeing them, or
// asking about one command, takes the password. As with sudo's "listpw=any",
// one NOPASSWD entry of whatever command is enough to be told without.
func (p *Policy) List(user string, groups []string) (rules []Rule, needPassword bool) {
	needPassword = true
	for _, rule := range p.Rules {
		if !matchUser(rule.Who, Request{User: user, Groups: groups}) {
			continue
		}
		rules = append(rules, rule)
		for _, c := range rule.Commands {
			needPassword = needPassword && !c.NoPassword
		}
	}
	return rules, needPassword
}

// String is a rule as sudo -l shows it.
func (r Rule) String() string {
	runAs := r.RunAs
	if runAs == "" {
		runAs = "root"
	}
	free := false
	entries := make([]string, 0, len(r.Commands))
	for _, c := range r.Commands {
		text := strings.TrimSpace(c.Pattern + " " + c.Args)
		if c.Negated {
			text = "!" + text
		}
		if c.NoPassword != free {
			text = map[bool]string{true: "NOPASSWD: ", false: "PASSWD: "}[c.NoPassword] + text
			free = c.NoPassword
		}
		entries = append(entries, text)
	}
	return "(" + runAs + ") " + strings.Join(entries, ", ")
}

func (p *Policy) expand(commands []Command) []Command {
	var out []Command
	for _, c := range commands {
		members, ok := p.aliases[c.Pattern]
		if !ok {
			out = append(out, c)
			continue
		}
		for _, m := range members {
			m.NoPassword, m.Negated = c.NoPassword, m.Negated != c.Negated
			out = append(out, m)
		}
	}
	return out
}

func matchUser(who string, r Request) bool {
	for _, w := range strings.Split(who, ",") {
		w = strings.TrimSpace(w)
		if w == "ALL" || w == r.User {
			return true
		}
		for _, g := range r.Groups {
			if w == "%"+g {
				return true
			}
		}
	}
	return false
}

func matchRunAs(list, want string) bool {
	users, _, _ := strings.Cut(list, ":")
	users = strings.TrimSpace(users)
	if users == "" {
		return want == "root"
	}
	for _, u := range strings.Split(users, ",") {
		if u = strings.TrimSpace(u); u == "ALL" || u == want {
			return true
		}
	}
	return false
}

func (c Command) matches(file string, args []string) bool {
	if c.Pattern == "ALL" {
		return true
	}
	if strings.HasSuffix(c.Pattern, "/") {
		return path.Dir(file)+"/" == c.Pattern && c.argsMatch(args)
	}
	ok, err := path.Match(c.Pattern, file)
	return err == nil && ok && c.argsMatch(args)
}

func (c Command) argsMatch(args []string) bool {
	switch c.Args {
	case "":
		return true
	case `""`:
		return len(args) == 0
	}
	return matchArgs(c.Args, strings.Join(args, " "))
}

// matchArgs is fnmatch without FNM_PATHNAME: sudo lets a star in arguments
// match blanks and slashes too.
func matchArgs(pattern, s string) bool {
	const slash = "\x01"
	r := strings.NewReplacer("/", slash)
	ok, err := path.Match(r.Replace(pattern), r.Replace(s))
	return err == nil && ok
}
