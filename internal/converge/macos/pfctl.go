package macos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"unicode"
)

// localFirewall is the packet filter of this Mac, through its command. It never turns pf
// off, nor on without a reference, and never loads the main ruleset.
type localFirewall struct{}

var _ Firewall = localFirewall{}

const (
	pfctlCommand    = "/sbin/pfctl"
	ifconfigCommand = "/sbin/ifconfig"
)

// State implements Firewall.
func (localFirewall) State(ctx context.Context) (FirewallState, error) {
	info, _, err := pfctl(ctx, "", "-s", "info")
	if err != nil {
		return FirewallState{}, err
	}
	s := FirewallState{}
	if s.Enabled, err = ParsePFStatus(info); err != nil {
		return s, err
	}
	refs, _, err := pfctl(ctx, "", "-s", "References")
	s.Tokens = ParsePFTokens(refs)
	return s, err
}

// Rules implements Firewall.
func (localFirewall) Rules(ctx context.Context, anchor string) ([]string, error) {
	out, _, err := pfctl(ctx, "", in(anchor, "-s", "rules")...)
	if isAbsentAnchor(err) {
		return nil, nil
	}
	return numericPorts(printedLines(out)), err
}

// Check implements Firewall.
func (localFirewall) Check(ctx context.Context, anchor, rules string) error {
	_, _, err := pfctl(ctx, rules, in(anchor, "-nf", "-")...)
	return err
}

// errMainRuleset is a bug of the caller.
var errMainRuleset = errors.New("the main ruleset is not ours to load: rules of other programs live in it")

// Load implements Firewall.
func (localFirewall) Load(ctx context.Context, anchor, rules string) error {
	if anchor == "" {
		return errMainRuleset
	}
	// The optimizer would put rules in another order and make tables of them.
	_, _, err := pfctl(ctx, rules, in(anchor, "-o", "none", "-f", "-")...)
	return err
}

// Tables implements Firewall.
func (localFirewall) Tables(ctx context.Context, anchor string) ([]string, error) {
	out, _, err := pfctl(ctx, "", in(anchor, "-s", "Tables")...)
	if isAbsentAnchor(err) {
		return nil, nil
	}
	return printedLines(out), err
}

// KillTable implements Firewall.
func (localFirewall) KillTable(ctx context.Context, anchor, table string) error {
	_, _, err := pfctl(ctx, "", in(anchor, "-t", table, "-T", "kill")...)
	if isAbsentTable(err) || isAbsentAnchor(err) {
		return nil
	}
	return err
}

// FlushTables implements Firewall.
func (localFirewall) FlushTables(ctx context.Context, anchor string) error {
	_, _, err := pfctl(ctx, "", in(anchor, "-F", "Tables")...)
	if isAbsentAnchor(err) {
		return nil
	}
	return err
}

// Enable implements Firewall.
func (localFirewall) Enable(ctx context.Context) (string, error) {
	out, noise, err := pfctl(ctx, "", "-E")
	if err != nil {
		return "", err
	}
	return ParsePFToken(noise + "\n" + out)
}

// Release implements Firewall.
func (localFirewall) Release(ctx context.Context, token string) error {
	_, _, err := pfctl(ctx, "", "-X", token)
	return err
}

// KillStates implements Firewall.
func (localFirewall) KillStates(ctx context.Context, cidr string) error {
	_, _, err := pfctl(ctx, "", "-k", cidr)
	return err
}

// Addresses implements Firewall.
func (localFirewall) Addresses(ctx context.Context) ([]netip.Addr, error) {
	out, err := run(ctx, ifconfigCommand)
	if err != nil {
		return nil, fmt.Errorf("reading the Mac's addresses: %w", err)
	}
	addrs := parseAddresses(out)
	if len(addrs) == 0 {
		return nil, fmt.Errorf("reading the Mac's addresses: ifconfig names none: %q", firstLine(out))
	}
	return addrs, nil
}

// in puts the scope before the rest; the main ruleset has none.
func in(anchor string, args ...string) []string {
	if anchor == "" {
		return args
	}
	return append([]string{"-a", anchor}, args...)
}

// pfctl runs the command. It says much on its standard error when all is well.
func pfctl(ctx context.Context, input string, args ...string) (stdout, stderr string, err error) {
	stdout, stderr, err = execute(ctx, pfctlCommand, input, args...)
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		err = pfRefusal(strings.Join(args, " "), stderr)
	}
	return stdout, stderr, err
}

// noises are lines that pfctl writes whether it works or not.
var noises = []string{
	"No ALTQ support in kernel", "ALTQ related functions disabled", "pfctl: Use of -f option",
	"present in the main ruleset", "See /etc/pf.conf for further details",
}

// pfRefusal reads why pfctl failed.
func pfRefusal(verb, text string) *FirewallError {
	f := &FirewallError{Verb: verb}
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = clean(line); line != "" && !isNoise(line) {
			kept = append(kept, line)
		}
	}
	f.Text = cmp.Or(firstLine(strings.Join(kept, "; ")), "it does not say why")
	lower := strings.ToLower(text)
	f.Busy = strings.Contains(lower, "resource busy") || strings.Contains(lower, "device busy")
	// pfctl calls every failure to load a syntax error in its last line.
	f.Syntax = !f.Busy && strings.Contains(lower, "syntax error")
	return f
}

func isNoise(line string) bool {
	for _, n := range noises {
		if strings.Contains(line, n) {
			return true
		}
	}
	return false
}

// clean replaces what does not print: the text ends in reports and logs.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s))
}

func isAbsentAnchor(err error) bool {
	var refused *FirewallError
	return errors.As(err, &refused) && strings.Contains(refused.Text, "Anchor") && strings.Contains(refused.Text, "not exist")
}

func isAbsentTable(err error) bool {
	var refused *FirewallError
	return errors.As(err, &refused) && strings.Contains(refused.Text, "Table does not exist")
}

// printedLines are the lines that hold something.
func printedLines(text string) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = clean(line); line != "" && !isNoise(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// ParsePFStatus reads whether pf is enabled from `pfctl -s info`. Text that does
// not say so is an error: not to know is not off.
func ParsePFStatus(text string) (bool, error) {
	for line := range strings.SplitSeq(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "Status:" {
			continue
		}
		switch fields[1] {
		case "Enabled":
			return true, nil
		case "Disabled":
			return false, nil
		}
	}
	return false, fmt.Errorf("pfctl does not say whether pf is enabled: %q", firstLine(clean(text)))
}

// maxTokens bounds what is read of a list of references.
const maxTokens = 1024

// ParsePFTokens reads the tokens from `pfctl -s References`: a table of process,
// its name (which may hold spaces), token, and since when, as in 2 days 01:23:45.
func ParsePFTokens(text string) []string {
	var tokens []string
	for line := range strings.SplitSeq(text, "\n") {
		fields := strings.Fields(line)
		n := len(fields)
		// Three words for the time, one for the token, two before it.
		if n < 6 || !isNumber(fields[0]) || !strings.HasPrefix(fields[n-2], "day") {
			continue
		}
		if token := fields[n-4]; isNumber(token) && len(tokens) < maxTokens {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// ParsePFToken reads the token that `pfctl -E` gives.
func ParsePFToken(text string) (string, error) {
	for line := range strings.SplitSeq(text, "\n") {
		name, value, found := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); found && strings.TrimSpace(name) == "Token" && isNumber(value) {
			return value, nil
		}
	}
	return "", fmt.Errorf("pfctl gave no token: %q", firstLine(clean(text)))
}

// isNumber reports an unsigned number of 64 bits, as tokens are.
func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

// parseAddresses reads the addresses from ifconfig, with their zone.
func parseAddresses(text string) []netip.Addr {
	var addrs []netip.Addr
	for line := range strings.SplitSeq(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 || (fields[0] != "inet" && fields[0] != "inet6") {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// numericPorts undoes what pfctl does to ports: it prints the name of a service
// where this Mac has one. What has no number stays as it is.
func numericPorts(rules []string) []string {
	for i, rule := range rules {
		words := strings.Fields(rule)
		for j := 2; j < len(words); j++ {
			if words[j-2] != "port" || words[j-1] != "=" || isNumber(words[j]) {
				continue
			}
			if n, err := portOf(rule, words[j]); err == nil {
				words[j] = strconv.Itoa(n)
			}
		}
		rules[i] = strings.Join(words, " ")
	}
	return rules
}

func portOf(rule, name string) (int, error) {
	first, second := "tcp", "udp"
	if strings.Contains(rule, " proto udp ") {
		first, second = second, first
	}
	n, err := net.LookupPort(first, name)
	if err != nil {
		n, err = net.LookupPort(second, name)
	}
	return n, err
}
