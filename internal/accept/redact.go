package accept

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

const (
	maxLines = 300
	maxLine  = 300 // bytes
)

// redactor takes out what tells which Mac it is, whose, and how to get in.
type redactor struct {
	known map[string]string
	user  *regexp.Regexp
}

func newRedactor(user string) *redactor {
	return &redactor{map[string]string{}, regexp.MustCompile(`\b` + regexp.QuoteMeta(user) + `\b`)}
}

// hide has a text be shown as a word from now on.
func (r *redactor) hide(text, as string) {
	if text != "" {
		r.known[text] = "<" + as + ">"
	}
}

var (
	keyLine     = regexp.MustCompile(`(ssh-[a-z0-9]+|ecdsa-sha2-[a-z0-9]+|sk-[a-z0-9@.-]+) AAAA[A-Za-z0-9+/=]+`)
	fingerprint = regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{43}`)
	uuidShape   = regexp.MustCompile(`\b[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b`)
	etherShape  = regexp.MustCompile(`\b([0-9A-Fa-f]{1,2}:){5}[0-9A-Fa-f]{1,2}\b`)
	hashShape   = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	ipv4Shape   = regexp.MustCompile(`\b[0-9]+(\.[0-9]+){3}\b`)
	ipv6Shape   = regexp.MustCompile(`[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:]*`)
)

// text shows a text without them.
func (r *redactor) text(s string) string {
	// The longest first: one may be the beginning of another.
	names := make([]string, 0, len(r.known))
	for name := range r.known {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	for _, name := range names {
		s = strings.ReplaceAll(s, name, r.known[name])
	}
	s = keyLine.ReplaceAllString(s, "<key>")
	s = fingerprint.ReplaceAllString(s, "<fingerprint>")
	s = uuidShape.ReplaceAllString(s, "<uuid>")
	s = hashShape.ReplaceAllString(s, "<sha256>")
	s = etherShape.ReplaceAllString(s, "<ether>")
	s = ipv4Shape.ReplaceAllStringFunc(s, publicAddress)
	s = ipv6Shape.ReplaceAllStringFunc(s, publicAddress)
	return r.user.ReplaceAllString(s, "<user>")
}

// publicAddress hides an address that leads to one machine from everywhere. Those that
// mean the same everywhere stay: they are in every firewall.
func publicAddress(s string) string {
	address, err := netip.ParseAddr(s)
	if err != nil || !address.IsGlobalUnicast() || address.IsPrivate() {
		return s
	}
	return "<address>"
}

// lines are what was printed, a line each, so much of it as a report takes.
func (r *redactor) lines(output string) []string {
	var all []string
	for line := range strings.SplitSeq(strings.ToValidUTF8(output, "?"), "\n") {
		line = strings.Map(printable, strings.TrimRight(line, " \t\r"))
		if strings.TrimSpace(line) == "" {
			continue
		}
		if len(all) == maxLines {
			return append(all, "… and more")
		}
		line = r.text(line)
		if len(line) > maxLine {
			line = strings.ToValidUTF8(line[:maxLine], "") + "…"
		}
		all = append(all, line)
	}
	return all
}

func printable(c rune) rune {
	switch {
	case c == '\t':
		return ' '
	case c < ' ' || c == 0x7f:
		return '?'
	}
	return c
}
