package accept

import (
	"cmp"
	"net/netip"
	"path"
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
	// words are shown as what they stand for where they stand alone.
	words map[string]string
	user  *regexp.Regexp
}

func newRedactor(user string) *redactor {
	return &redactor{map[string]string{}, map[string]string{}, regexp.MustCompile(`\b` + regexp.QuoteMeta(user) + `\b`)}
}

// hide has a text be shown as a word from now on.
func (r *redactor) hide(text, as string) {
	if text != "" {
		r.known[text] = "<" + as + ">"
	}
}

// shortest is the length of a word that is hidden: where a shorter one is hidden, the
// places tell what it is.
const shortest = 6

// hideWord has a word be shown as another, unless it is an ordinary one: hidden in what
// every Mac prints, it would be told.
func (r *redactor) hideWord(word, as string, everyMacPrints Simulated) {
	if len(word) >= shortest && !everyMacPrints.hold(word) {
		r.words[word] = "<" + as + ">"
	}
}

// replaceWord replaces a word where no letter or digit is beside it.
func replaceWord(s, word, by string) string {
	var b strings.Builder
	for from := 0; ; {
		at := strings.Index(s[from:], word)
		if at < 0 {
			return b.String() + s[from:]
		}
		at += from
		end := at + len(word)
		if alone := !(at > 0 && inWord(s[at-1]) && inWord(word[0])) && !(end < len(s) && inWord(s[end]) && inWord(word[len(word)-1])); alone {
			b.WriteString(s[from:at] + by)
		} else {
			b.WriteString(s[from:end])
		}
		from = end
	}
}

func inWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

var (
	keyLine     = regexp.MustCompile(`(ssh-[a-z0-9]+|ecdsa-sha2-[a-z0-9]+|sk-[a-z0-9@.-]+) AAAA[A-Za-z0-9+/=]+`)
	fingerprint = regexp.MustCompile(`SHA256:[A-Za-z0-9+/]+`)
	uuidShape   = regexp.MustCompile(`\b[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b|\b[0-9A-Fa-f]{8}-[0-9A-Fa-f-]{0,27}…?$`)
	etherShape  = regexp.MustCompile(`\b([0-9A-Fa-f]{1,2}:){5}[0-9A-Fa-f]{1,2}\b`)
	hashShape   = regexp.MustCompile(`\b[0-9a-f]{64}\b|\b[0-9a-f]{16,63}…?$`)
	ipv4Shape   = regexp.MustCompile(`\b[0-9]+(\.[0-9]+){3}\b`)
	ipv6Shape   = regexp.MustCompile(`[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:]*`)
	homeShape   = regexp.MustCompile(`/Users/[^/\s:;,"']+`)
	jobShape    = regexp.MustCompile(`[^\s:;,"']+\.plist`)
)

// text shows a text without them.
func (r *redactor) text(s string) string {
	// The longest first: one may be the beginning of another.
	names := make([]string, 0, len(r.known))
	for name := range r.known {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	for word, as := range r.words {
		s = replaceWord(s, word, as)
	}
	for _, name := range names {
		s = strings.ReplaceAll(s, name, r.known[name])
	}
	s = keyLine.ReplaceAllString(s, "<key>")
	s = fingerprint.ReplaceAllString(s, "<fingerprint>")
	s = uuidShape.ReplaceAllString(s, "<uuid>")
	s = hashShape.ReplaceAllString(s, "<sha256>")
	// Addresses first: what is left of one may look like another's.
	s = ipv6Shape.ReplaceAllStringFunc(s, publicIPv6)
	s = etherShape.ReplaceAllString(s, "<ether>")
	s = ipv4Shape.ReplaceAllStringFunc(s, publicAddress)
	s = jobShape.ReplaceAllStringFunc(s, foreignJob)
	s = r.user.ReplaceAllString(s, "<user>")
	return homeShape.ReplaceAllStringFunc(s, foreignHome)
}

// foreignHome hides who else has a home folder.
func foreignHome(path string) string {
	if name := strings.TrimPrefix(path, "/Users/"); name == "Shared" || name == "<user>" {
		return path
	}
	return "/Users/<somebody>"
}

// foreignJob hides whose a launch daemon is: by custom, a company's.
func foreignJob(file string) string {
	name := path.Base(file)
	if strings.HasPrefix(file, "/System/") || strings.HasPrefix(name, "com.apple.") || strings.HasPrefix(name, "dev.macfleet.") {
		return file
	}
	return strings.TrimSuffix(file, name) + "<job>.plist"
}

// publicIPv6 takes colons off that belong to the sentence.
func publicIPv6(s string) string {
	for _, form := range []string{s, strings.TrimSuffix(s, ":"), strings.TrimPrefix(s, ":"), strings.Trim(s, ":")} {
		if _, err := netip.ParseAddr(form); err == nil {
			return strings.Replace(s, form, publicAddress(form), 1)
		}
	}
	return s
}

// fromEther says that an address is made of the Mac's hardware address.
func fromEther(a netip.Addr) bool {
	b := a.As16()
	return a.Is6() && b[11] == 0xff && b[12] == 0xfe
}

// publicAddress hides an address that leads to one machine from everywhere. Those that
// mean the same everywhere stay: they are in every firewall.
func publicAddress(s string) string {
	address, err := netip.ParseAddr(s)
	if err != nil || !fromEther(address) && (!address.IsGlobalUnicast() || address.IsPrivate()) {
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
