package pf

import (
	"fmt"
	"slices"
	"strings"
)

// token is a word, a quoted string or a piece of punctuation.
type token struct {
	text   string
	quoted bool
	line   int
}

// end is the token after the last one.
func (t token) end() bool { return t.text == "" && !t.quoted }

// is says whether the token is that bare word or punctuation.
func (t token) is(text string) bool { return !t.quoted && t.text == text }

// punctuation says that the token is no word.
func (t token) punctuation() bool {
	return !t.quoted && (slices.Contains(pairs(), t.text) || strings.Trim(t.text, single) == "")
}

// Complaint is what is wrong in one line of a file.
type Complaint struct {
	File string
	Line int
	Text string
}

func (c *Complaint) Error() string { return fmt.Sprintf("%s:%d: %s", c.File, c.Line, c.Text) }

// NotModelled is a form the real pfctl takes and this one does not know.
type NotModelled struct{ What string }

func (e *NotModelled) Error() string { return "not modelled: " + e.What }

// pairs are the punctuation of two characters.
func pairs() []string { return []string{"->", "!=", "<=", ">=", "><", "<>"} }

const single = "{}(),<>!="

// lexer cuts a file into statements: the tokens of a line, or of several where a
// list is open or the line end is escaped.
type lexer struct {
	text   string
	line   int
	macros map[string]string
}

// statement is the next one with anything in it; false at the end.
func (l *lexer) statement() ([]token, bool, error) {
	var out []token
	depth := 0
	for {
		l.blanks()
		if l.text == "" {
			return out, len(out) > 0, nil
		}
		if l.text[0] == '\n' {
			l.text, l.line = l.text[1:], l.line+1
			if depth == 0 && len(out) > 0 {
				return out, true, nil
			}
			continue
		}
		tokens, err := l.next()
		for _, t := range tokens {
			switch {
			case t.is("{"):
				depth++
			case t.is("}"):
				depth--
			}
		}
		out = append(out, tokens...)
		if err != nil {
			l.skipLine()
			return out, true, err
		}
	}
}

func (l *lexer) skipLine() {
	if i := strings.IndexByte(l.text, '\n'); i >= 0 {
		l.text = l.text[i:]
		return
	}
	l.text = ""
}

// blanks passes over white space, comments and escaped line ends.
func (l *lexer) blanks() {
	for l.text != "" {
		switch {
		case strings.HasPrefix(l.text, "\\\n"):
			l.text, l.line = l.text[2:], l.line+1
		case l.text[0] == ' ' || l.text[0] == '\t' || l.text[0] == '\r':
			l.text = l.text[1:]
		case l.text[0] == '#':
			l.skipLine()
		default:
			return
		}
	}
}

// next is one token, or those of a macro's value.
func (l *lexer) next() ([]token, error) {
	if len(l.text) > 1 {
		for _, p := range pairs() {
			if strings.HasPrefix(l.text, p) {
				return l.take(len(p)), nil
			}
		}
	}
	switch c := l.text[0]; {
	case c == '"' || c == '\'':
		return l.quoted(c)
	case strings.IndexByte(single, c) >= 0:
		return l.take(1), nil
	case c == '$':
		return l.macro()
	}
	n := strings.IndexFunc(l.text, func(r rune) bool { return strings.ContainsRune(single+" \t\r\n#\"'$", r) })
	if n < 0 {
		n = len(l.text)
	}
	return l.take(n), nil
}

func (l *lexer) take(n int) []token {
	t := token{text: l.text[:n], line: l.line}
	l.text = l.text[n:]
	return []token{t}
}

func (l *lexer) quoted(mark byte) ([]token, error) {
	n := strings.IndexByte(l.text[1:], mark)
	if n < 0 {
		return nil, &Complaint{Line: l.line, Text: "syntax error"}
	}
	t := token{text: l.text[1 : n+1], quoted: true, line: l.line}
	l.line += strings.Count(t.text, "\n")
	l.text = l.text[n+2:]
	return []token{t}, nil
}

func (l *lexer) macro() ([]token, error) {
	name := l.text[1:]
	if n := strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}); n >= 0 {
		name = name[:n]
	}
	l.text = l.text[1+len(name):]
	value, ok := l.macros[name]
	if !ok {
		return nil, &Complaint{Line: l.line, Text: fmt.Sprintf("macro '%s' not defined", name)}
	}
	// A macro's value is taken apart without macros, so that none holds itself.
	inner := lexer{text: strings.ReplaceAll(value, "\n", " "), line: l.line}
	var out []token
	for inner.blanks(); inner.text != ""; inner.blanks() {
		tokens, err := inner.next()
		if err != nil {
			return out, err
		}
		out = append(out, tokens...)
	}
	return out, nil
}
