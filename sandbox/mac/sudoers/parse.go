package sudoers

import (
	"regexp"
	"strings"
)

var (
	aliasName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	userName  = regexp.MustCompile(`^%?[A-Za-z_][A-Za-z0-9_.-]*$`)
	tagPrefix = regexp.MustCompile(`^(NOPASSWD|PASSWD|SETENV|NOSETENV|NOEXEC|EXEC|LOG_INPUT|NOLOG_INPUT)\s*:\s*`)
)

// Add parses one file and appends what it holds. A line that does not parse
// is left out and returned as an error, the rest of the file counts: that is
// how the sudo of macOS treats a damaged drop-in.
func (p *Policy) Add(file string, data []byte) []*SyntaxError {
	var errs []*SyntaxError
	for _, l := range logicalLines(string(data)) {
		if !p.addLine(l.text) {
			errs = append(errs, &SyntaxError{File: file, Line: l.number, Text: l.text})
		}
	}
	return errs
}

type line struct {
	number int
	text   string
}

// logicalLines joins continued lines and drops comments and empty lines.
func logicalLines(s string) []line {
	var out []line
	var pending string
	start := 0
	for i, text := range strings.Split(s, "\n") {
		if pending == "" {
			start = i + 1
		}
		if rest, ok := strings.CutSuffix(text, `\`); ok {
			pending += rest + " "
			continue
		}
		text = strings.TrimSpace(stripComment(pending + text))
		pending = ""
		if text != "" {
			out = append(out, line{start, text})
		}
	}
	if pending != "" {
		out = append(out, line{start, pending})
	}
	return out
}

func stripComment(s string) string {
	for i := range s {
		if s[i] == '#' && (i == 0 || s[i-1] != '\\') && !startsUID(s[i+1:]) {
			return s[:i]
		}
	}
	return s
}

func startsUID(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

func (p *Policy) addLine(text string) bool {
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case strings.HasPrefix(word, "Defaults"):
		return strings.TrimSpace(rest) != ""
	case word == "@includedir" || word == "@include":
		return strings.TrimSpace(rest) != ""
	case word == "Cmnd_Alias":
		return p.addAlias(rest)
	}
	return p.addRule(text)
}

func (p *Policy) addAlias(text string) bool {
	name, list, ok := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	if !ok || !aliasName.MatchString(name) {
		return false
	}
	commands, ok := parseCommands(list)
	if !ok {
		return false
	}
	if p.aliases == nil {
		p.aliases = map[string][]Command{}
	}
	p.aliases[name] = commands
	return true
}

func (p *Policy) addRule(text string) bool {
	left, right, ok := strings.Cut(text, "=")
	if !ok {
		return false
	}
	fields := strings.Fields(left)
	if len(fields) < 2 || fields[len(fields)-1] != "ALL" {
		return false // host lists other than ALL are not modelled
	}
	who := strings.Join(fields[:len(fields)-1], "")
	for _, w := range strings.Split(who, ",") {
		if !userName.MatchString(w) {
			return false
		}
	}
	rule := Rule{Who: who}
	right = strings.TrimSpace(right)
	if strings.HasPrefix(right, "(") {
		inside, after, ok := strings.Cut(right[1:], ")")
		if !ok {
			return false
		}
		rule.RunAs, right = strings.TrimSpace(inside), after
	}
	if rule.Commands, ok = parseCommands(right); !ok {
		return false
	}
	p.Rules = append(p.Rules, rule)
	return true
}

func parseCommands(text string) ([]Command, bool) {
	var out []Command
	noPassword := false
	for _, item := range splitUnescaped(text, ',') {
		item = strings.TrimSpace(item)
		for m := tagPrefix.FindStringSubmatch(item); m != nil; m = tagPrefix.FindStringSubmatch(item) {
			switch m[1] {
			case "NOPASSWD":
				noPassword = true
			case "PASSWD":
				noPassword = false
			}
			item = item[len(m[0]):]
		}
		c, ok := parseCommand(item)
		if !ok {
			return nil, false
		}
		c.NoPassword = noPassword
		out = append(out, c)
	}
	return out, len(out) > 0
}

func parseCommand(item string) (Command, bool) {
	c := Command{}
	item, c.Negated = strings.CutPrefix(item, "!")
	item = strings.TrimSpace(item)
	name, args, _ := strings.Cut(item, " ")
	c.Pattern, c.Args = unescape(name), unescape(strings.TrimSpace(args))
	switch {
	case c.Pattern == "ALL":
		return c, c.Args == ""
	case strings.HasPrefix(c.Pattern, "/"):
		return c, true
	}
	return c, aliasName.MatchString(c.Pattern) && c.Args == ""
}

func splitUnescaped(s string, sep byte) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

func unescape(s string) string {
	return strings.NewReplacer(`\,`, `,`, `\:`, `:`, `\=`, `=`, `\\`, `\`).Replace(s)
}
