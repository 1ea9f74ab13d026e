// Package sshconf reads the configuration of a Mac's sshd as sshd does: files
// included in name order, the first value of a keyword wins, anything unknown
// is an error. What the settings then do to a connection is left to the caller.
package sshconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MainFile is where sshd starts to read.
const MainFile = "/etc/ssh/sshd_config"

// maxDepth is how deep sshd follows Include.
const maxDepth = 16

// ErrMatch is returned for a Match block, which is not modelled.
var ErrMatch = errors.New("Match blocks are not modelled") //nolint:staticcheck // Match is the keyword

// Config holds the values of all keywords, lower case, defaults included.
type Config struct {
	values map[string]string
	set    map[string]bool
}

// kind says what values a keyword takes.
type kind int

const (
	text kind = iota
	yesNo
	number
	span
	rootLogin
	list // one that is given again adds to the list
)

// keyword is one that sshd knows, with what holds when no file sets it.
type keyword struct {
	kind kind
	def  string
}

func keywords() map[string]keyword {
	return map[string]keyword{
		"port": {text, ""}, "listenaddress": {text, ""}, "hostkey": {text, ""}, "hostcertificate": {text, ""},
		"addressfamily": {text, "any"}, "acceptenv": {list, ""}, "subsystem": {text, ""}, "banner": {text, "none"},
		"authorizedkeysfile":    {text, ".ssh/authorized_keys .ssh/authorized_keys2"},
		"authorizedkeyscommand": {text, "none"}, "authorizedkeyscommanduser": {text, "none"},
		"trustedusercakeys": {text, "none"}, "authorizedprincipalsfile": {text, "none"}, "revokedkeys": {text, "none"},
		"allowusers": {list, ""}, "denyusers": {list, ""}, "allowgroups": {list, ""}, "denygroups": {list, ""},
		"passwordauthentication": {yesNo, "yes"}, "kbdinteractiveauthentication": {yesNo, "yes"},
		"challengeresponseauthentication": {yesNo, ""}, "pubkeyauthentication": {yesNo, "yes"},
		"permitemptypasswords": {yesNo, "no"}, "hostbasedauthentication": {yesNo, "no"},
		"gssapiauthentication": {yesNo, "no"}, "kerberosauthentication": {yesNo, "no"}, "usepam": {yesNo, "no"},
		"strictmodes": {yesNo, "yes"}, "permitrootlogin": {rootLogin, "prohibit-password"},
		"maxauthtries": {number, "6"}, "maxsessions": {number, "10"}, "maxstartups": {text, "10:30:100"},
		"logingracetime": {span, "120"}, "clientaliveinterval": {span, "0"}, "clientalivecountmax": {number, "3"},
		"allowagentforwarding": {yesNo, "yes"}, "allowtcpforwarding": {text, "yes"}, "gatewayports": {text, "no"},
		"x11forwarding": {yesNo, "no"}, "permittunnel": {text, "no"}, "permituserenvironment": {text, "no"},
		"allowstreamlocalforwarding": {text, "yes"}, "disableforwarding": {yesNo, "no"}, "printmotd": {yesNo, "yes"},
		"printlastlog": {yesNo, "yes"}, "tcpkeepalive": {yesNo, "yes"}, "usedns": {yesNo, "no"}, "compression": {text, "yes"},
		"loglevel": {text, "INFO"}, "syslogfacility": {text, "AUTH"}, "permitlisten": {text, "any"}, "permitopen": {text, "any"},
		"authenticationmethods": {text, "any"}, "ciphers": {text, ""}, "macs": {text, ""}, "kexalgorithms": {text, ""},
		"hostkeyalgorithms": {text, ""}, "pubkeyacceptedalgorithms": {text, ""}, "x11displayoffset": {number, "10"},
		"ignorerhosts": {text, "yes"}, "unusedconnectiontimeout": {text, "none"}, "persourcepenalties": {text, ""},
	}
}

// Read reads a file and what it includes, below a folder that stands for the
// root ("" on the Mac itself).
func Read(root, file string) (*Config, error) {
	c := &Config{values: map[string]string{}, set: map[string]bool{}}
	for name, k := range keywords() {
		c.values[name] = k.def
	}
	r := reader{root: root, c: c}
	if err := r.file(file, 0); err != nil {
		return nil, err
	}
	if r.bad > 0 {
		return nil, fmt.Errorf("%s%s: terminating, %d bad configuration options", r.complaints, file, r.bad)
	}
	return c, nil
}

type reader struct {
	root       string
	c          *Config
	bad        int
	complaints string
}

func (r *reader) file(name string, depth int) error {
	data, err := os.ReadFile(filepath.Join(r.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: No such file or directory", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, line := range strings.Split(string(data), "\n") {
		words, ok := split(line)
		if !ok {
			return fmt.Errorf("%s line %d: invalid quotes", name, i+1)
		}
		if len(words) == 0 {
			continue
		}
		if err := r.line(name, i+1, words, depth); err != nil {
			return err
		}
	}
	return nil
}

// split cuts a line into words; double quotes keep blanks, # starts a comment,
// and one = may stand after the keyword.
func split(line string) (words []string, ok bool) {
	line = strings.TrimSpace(line)
	for line != "" && line[0] != '#' {
		word, rest := "", ""
		if line[0] == '"' {
			end := strings.IndexByte(line[1:], '"')
			if end < 0 {
				return nil, false
			}
			word, rest = line[1:end+1], line[end+2:]
		} else {
			end := strings.IndexAny(line, " \t")
			if len(words) == 0 {
				end = strings.IndexAny(line, " \t=")
			}
			if end < 0 {
				end = len(line)
			}
			word, rest = line[:end], line[end:]
		}
		line = strings.TrimLeft(rest, " \t\r")
		if len(words) == 0 {
			line = strings.TrimLeft(strings.TrimPrefix(line, "="), " \t")
		}
		words = append(words, strings.TrimSuffix(word, "\r"))
	}
	return words, true
}

func (r *reader) line(file string, n int, words []string, depth int) error {
	name := strings.ToLower(words[0])
	k, known := keywords()[name]
	switch {
	case name == "match":
		return fmt.Errorf("%s line %d: %w", file, n, ErrMatch)
	case name == "include":
		return r.include(file, n, words[1:], depth)
	case !known:
		r.bad++
		r.complaints += fmt.Sprintf("%s: line %d: Bad configuration option: %s\n", file, n, words[0])
		return nil
	case len(words) < 2:
		return fmt.Errorf("%s line %d: missing argument.", file, n) //nolint:staticcheck // sshd's own words
	}
	value := strings.Join(words[1:], " ")
	if !k.kind.takes(value) {
		return fmt.Errorf("%s line %d: unsupported option %q.", file, n, value) //nolint:staticcheck // sshd's own words
	}
	if name == "challengeresponseauthentication" {
		name = "kbdinteractiveauthentication" // its older name
	}
	r.c.put(name, value, k.kind)
	return nil
}

func (c *Config) put(name, value string, k kind) {
	switch {
	case k == list && c.set[name]:
		c.values[name] += " " + value
	case !c.set[name]:
		c.values[name] = value
	}
	c.set[name] = true
}

func (r *reader) include(file string, n int, patterns []string, depth int) error {
	if depth >= maxDepth {
		return fmt.Errorf("%s line %d: Too many recursive configuration includes", file, n)
	}
	for _, p := range patterns {
		if !filepath.IsAbs(p) {
			p = filepath.Join("/etc/ssh", p)
		}
		found, err := filepath.Glob(filepath.Join(r.root, p))
		if err != nil {
			return fmt.Errorf("%s line %d: %w", file, n, err)
		}
		slices.Sort(found)
		for _, f := range found {
			if err := r.file(strings.TrimPrefix(f, filepath.Clean(r.root)), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k kind) takes(value string) bool {
	switch k {
	case yesNo:
		return value == "yes" || value == "no"
	case rootLogin:
		return slices.Contains([]string{"yes", "no", "prohibit-password", "without-password", "forced-commands-only"}, value)
	case number:
		n, err := strconv.Atoi(value)
		return err == nil && n >= 0
	case span:
		_, ok := parseSpan(value)
		return ok
	}
	return true
}

// parseSpan reads sshd's time format: seconds, or numbers with units.
func parseSpan(s string) (time.Duration, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return time.Duration(n) * time.Second, n >= 0
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

// Get is the value of a keyword.
func (c *Config) Get(name string) string { return c.values[name] }

// Yes reports whether a keyword is set to yes.
func (c *Config) Yes(name string) bool { return c.values[name] == "yes" }

// LoginGrace is how long a client may take to log in; 0 means for ever.
func (c *Config) LoginGrace() time.Duration {
	d, _ := parseSpan(c.values["logingracetime"])
	return d
}

// MaxAuthTries is how many attempts one connection has.
func (c *Config) MaxAuthTries() int {
	n, _ := strconv.Atoi(c.values["maxauthtries"])
	return n
}

// MayLogIn reports whether the lists of users let one in.
func (c *Config) MayLogIn(user string) bool {
	if user == "root" && c.values["permitrootlogin"] == "no" {
		return false
	}
	if lists(c.values["denyusers"], user) {
		return false
	}
	return c.values["allowusers"] == "" || lists(c.values["allowusers"], user)
}

// RootByPassword reports whether root may log in with a password.
func (c *Config) RootByPassword() bool { return c.values["permitrootlogin"] == "yes" }

func lists(patterns, user string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(p string) bool {
		hit, err := path.Match(p, user)
		return err == nil && hit
	})
}

// KeyFiles are the files of authorized keys of a user with a home.
func (c *Config) KeyFiles(user, home string) []string {
	var out []string
	for _, f := range strings.Fields(c.values["authorizedkeysfile"]) {
		if f == "none" {
			continue
		}
		f = strings.NewReplacer("%%", "%", "%h", home, "%u", user).Replace(f)
		if !filepath.IsAbs(f) {
			f = filepath.Join(home, f)
		}
		out = append(out, f)
	}
	return out
}
