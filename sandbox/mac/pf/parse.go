package pf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// file is a parsed file: its rules, and what else it asks for.
type file struct {
	rules  [sections][]*rule
	tables []definition
	loads  []loading
	// complaints in the order of their lines.
	complaints []*Complaint
}

// definition of a table.
type definition struct {
	name     string
	persist  bool
	constant bool
	entries  []entry
	files    []string
	line     int
}

// loading is `load anchor … from …`.
type loading struct {
	anchor, path string
	line         int
}

// parser reads one file.
type parser struct {
	name       string
	interfaces []Interface
	lex        lexer
	place      section
	file       file
	left
}

// left is what is left to read of a statement.
type left struct {
	tokens []token
	line   int // of the last token taken
}

// parse reads a whole file, whatever is wrong with single lines of it. Only what
// is not modelled is an error.
func parse(name, text string, interfaces []Interface) (*file, error) {
	p := &parser{name: name, interfaces: interfaces, lex: lexer{text: text, line: 1, macros: map[string]string{}}}
	for {
		tokens, more, err := p.lex.statement()
		if !more {
			return &p.file, nil
		}
		if err == nil {
			err = p.statement(tokens)
		}
		var complaint *Complaint
		switch {
		case errors.As(err, &complaint):
			complaint.File = p.name
			p.file.complaints = append(p.file.complaints, complaint)
		case err != nil:
			return nil, fmt.Errorf("%s:%d: %w", p.name, tokens[0].line, err)
		}
	}
}

func (p *parser) statement(tokens []token) error {
	p.tokens, p.line = tokens, tokens[0].line
	first := p.next()
	if len(p.tokens) > 0 && p.tokens[0].is("=") && !first.quoted {
		return p.define(first.text)
	}
	switch first.text {
	case "set":
		return p.enter(options)
	case "table":
		return p.table()
	case "load":
		return p.load()
	case "pass", "block":
		return p.filterRule(first.text)
	case "scrub":
		return p.plainRule("scrub", normalization)
	case "nat", "rdr":
		return p.translate(first.text)
	case "no":
		return p.exempt()
	case "anchor", "nat-anchor", "rdr-anchor", "scrub-anchor", "dummynet-anchor":
		return p.anchorPoint(first.text)
	case "antispoof", "altq", "queue", "binat", "binat-anchor", "dummynet", "include":
		return &NotModelled{What: first.text}
	}
	return p.wrong()
}

// enter checks that a section may stand here.
func (p *parser) enter(s section) error {
	if s.place() < p.place {
		return p.complain("Rules must be in order: options, normalization, queueing, translation, dummynet, filtering")
	}
	p.place = s.place()
	return nil
}

func (p *parser) define(name string) error {
	p.next() // =
	var words []string
	for !p.done() {
		words = append(words, p.next().text)
	}
	if len(words) == 0 {
		return p.wrong()
	}
	p.lex.macros[name] = strings.Join(words, " ")
	return nil
}

// load is honoured by whoever loads the main ruleset.
func (p *parser) load() error {
	if !p.take("anchor") {
		return p.wrong()
	}
	l := loading{anchor: p.next().text, line: p.line}
	if !p.take("from") || p.done() {
		return p.wrong()
	}
	l.path = p.next().text
	p.file.loads = append(p.file.loads, l)
	return p.finish()
}

func (p *parser) table() error {
	d := definition{line: p.line}
	name, err := p.tableName()
	if err != nil {
		return err
	}
	d.name = name
	for !p.done() {
		switch {
		case p.take("persist"):
			d.persist = true
		case p.take("const"):
			d.constant = true
		case p.take("counters"):
		case p.take("file"):
			d.files = append(d.files, p.next().text)
		case p.take("{"):
			if d.entries, err = p.entries(); err != nil {
				return err
			}
		default:
			return p.wrong()
		}
	}
	p.file.tables = append(p.file.tables, d)
	return nil
}

func (p *parser) tableName() (string, error) {
	if !p.take("<") {
		return "", p.wrong()
	}
	name, err := p.word("")
	switch {
	case err != nil:
		return "", err
	case !p.take(">"):
		return "", p.wrong()
	case len(name) >= 32:
		return "", p.complain("table name too long, max 31 chars")
	}
	return name, nil
}

// word is a name: a word or quoted string without quotes, control characters and, but for
// those in also, punctuation: what is printed can be read again.
func (p *parser) word(also string) (string, error) {
	t := p.next()
	odd := func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(single+"\"'#$\\", r)
	}
	switch i := strings.IndexFunc(strings.Map(func(r rune) rune {
		if strings.ContainsRune(also, r) {
			return -1
		}
		return r
	}, t.text), odd); {
	case t.text == "" || (!t.quoted && t.punctuation()):
		return "", p.wrong()
	case i >= 0:
		return "", &NotModelled{What: fmt.Sprintf("name %q", t.text)}
	}
	return t.text, nil
}

func (p *parser) entries() ([]entry, error) {
	var out []entry
	for {
		for p.take(",") {
			continue
		}
		if p.take("}") {
			return out, nil
		}
		not := p.take("!")
		hosts, err := p.hostWord()
		if err != nil {
			return nil, err
		}
		for _, h := range hosts {
			if h.host.prefix.IsValid() {
				out = append(out, entry{prefix: h.host.prefix, not: not})
			}
		}
	}
}

// anchorPoint is a call of another ruleset, under conditions.
func (p *parser) anchorPoint(action string) error {
	at := map[string]section{
		"anchor": filtering, "nat-anchor": translation, "rdr-anchor": redirection,
		"scrub-anchor": normalization, "dummynet-anchor": shaping,
	}[action]
	if err := p.enter(at); err != nil {
		return err
	}
	if p.done() || p.peek().is("{") || p.peek().text == "" {
		return &NotModelled{What: "anchor without a name"}
	}
	name, err := p.word("")
	if err != nil {
		return err
	}
	r := rule{section: at, action: action, call: name}
	if at == normalization {
		r.options.rest = []string{"fragment reassemble"}
	}
	return p.rule(r)
}

func (p *parser) filterRule(action string) error {
	if err := p.enter(filtering); err != nil {
		return err
	}
	r := rule{section: filtering, action: action}
	if action == "block" {
		r.reply = "drop"
		if t := p.peek(); slices.Contains([]string{"drop", "return", "return-rst", "return-icmp", "return-icmp6"}, t.text) {
			r.reply = p.next().text
		}
		if p.peek().is("(") {
			return &NotModelled{What: "arguments of " + r.reply}
		}
	}
	return p.rule(r)
}

func (p *parser) plainRule(action string, at section) error {
	if err := p.enter(at); err != nil {
		return err
	}
	return p.rule(rule{section: at, action: action})
}

func (p *parser) exempt() error {
	switch word := p.next().text; word {
	case "nat":
		return p.plainRule("no nat", translation)
	case "rdr":
		return p.plainRule("no rdr", redirection)
	case "scrub":
		return p.plainRule("no scrub", normalization)
	}
	return p.wrong()
}

func (p *parser) translate(action string) error {
	at := translation
	if action == "rdr" {
		at = redirection
	}
	if err := p.enter(at); err != nil {
		return err
	}
	r := rule{section: at, action: action}
	if p.take("pass") {
		r.action += " pass"
	}
	return p.rule(r)
}

func (l *left) peek() token {
	if len(l.tokens) == 0 {
		return token{line: l.line}
	}
	return l.tokens[0]
}

func (l *left) next() token {
	t := l.peek()
	if len(l.tokens) > 0 {
		l.tokens, l.line = l.tokens[1:], t.line
	}
	return t
}

// take consumes the next token if it is that one.
func (l *left) take(text string) bool {
	if !l.peek().is(text) {
		return false
	}
	l.next()
	return true
}

func (l *left) done() bool { return len(l.tokens) == 0 }

func (p *parser) finish() error {
	if !p.done() {
		return p.wrong()
	}
	return nil
}

func (p *parser) wrong() error { return p.complain("syntax error") }

func (p *parser) complain(format string, args ...any) error {
	return &Complaint{Line: p.peek().line, Text: fmt.Sprintf(format, args...)}
}
