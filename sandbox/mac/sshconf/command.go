package sshconf

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// rcUsage and rcBad are the exit codes of a form that is not modelled and of a
// configuration that sshd does not take.
const (
	rcUsage = 64
	rcBad   = 255
)

// SSHD runs the sshd command with args (without its name) for a user: -t and -T,
// with -f. address is where the Mac's SSH answers.
func SSHD(uid int, dir string, args []string, address, port string) wire.Answer {
	test, show, file := false, false, MainFile
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-t":
			test = true
		case args[i] == "-T":
			show = true
		case args[i] == "-f" && i+1 < len(args):
			i++
			file = args[i]
		default:
			test, show = false, false
			i = len(args)
		}
	}
	if test == show {
		what := "sshd " + strings.Join(args, " ")
		return wire.Answer{RC: rcUsage, Stderr: "sshd: not modelled: " + what + "\n", Unmodelled: what}
	}
	if uid != wire.RootUID {
		return wire.Answer{RC: 1, Stderr: "sshd: no hostkeys available -- exiting.\n"}
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	c, err := Read("", file)
	if err != nil {
		return wire.Answer{RC: rcBad, Stderr: err.Error() + "\n"}
	}
	if test {
		return wire.Answer{}
	}
	return wire.Answer{Stdout: c.effective(address, port)}
}

// effective is what sshd -T prints: a keyword and its value a line; users that
// are allowed or denied have a line each.
func (c *Config) effective(address, port string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "port %s\nlistenaddress %s\n", port, net.JoinHostPort(address, port))
	for _, name := range slices.Sorted(maps.Keys(c.values)) {
		value := c.values[name]
		switch {
		case value == "" || name == "port" || name == "listenaddress":
		case keywords()[name].kind == list:
			for _, v := range strings.Fields(value) {
				fmt.Fprintf(&b, "%s %s\n", name, v)
			}
		case keywords()[name].kind == span:
			d, _ := parseSpan(value)
			fmt.Fprintf(&b, "%s %d\n", name, int(d.Seconds()))
		case name == "permitrootlogin" && value == "prohibit-password":
			fmt.Fprintln(&b, "permitrootlogin without-password")
		default:
			fmt.Fprintf(&b, "%s %s\n", name, value)
		}
	}
	return b.String()
}
