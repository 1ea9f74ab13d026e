package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Judge says how the live rules, as pfctl prints them, differ from the wanted ones;
// empty means that they do the same. Both are read into rules and compared in
// order, so that spelling does not count and everything else does. A wanted rule
// for self stands for one live rule an address; addresses the Mac has now (own) must
// all be among them, those of before may be.
func Judge(live []string, wanted []Rule, own []netip.Addr) []string {
	rules := make([]Rule, 0, len(live))
	for _, line := range live {
		r, err := parse(line)
		if err != nil {
			return []string{"a rule that is not ours: " + err.Error()}
		}
		rules = append(rules, r)
	}
	for _, w := range wanted {
		if w.To == self {
			covered, rest := takeSelf(rules, w)
			if missing := uncovered(own, covered, w.Family); missing != "" {
				return []string{fmt.Sprintf("the Mac's address %s is open: rule %q does not cover it", missing, w)}
			}
			rules = rest
			continue
		}
		if len(rules) == 0 {
			return []string{fmt.Sprintf("rule %q is missing", w)}
		}
		if rules[0] != w {
			return []string{fmt.Sprintf("rule %q stands in the place of %q", rules[0], w)}
		}
		rules = rules[1:]
	}
	if len(rules) > 0 {
		return []string{fmt.Sprintf("%d rules too many, the first is %q", len(rules), rules[0])}
	}
	return nil
}

// sameBut reports whether live rules differ from the wanted ones at most in the
// addresses that self stands for: then loading them closes nothing that was open
// on purpose.
func sameBut(live []string, wanted []Rule) bool { return len(Judge(live, wanted, nil)) == 0 }

// takeSelf takes the rules that are w for one address each.
func takeSelf(rules []Rule, w Rule) (covered []netip.Addr, rest []Rule) {
	for len(rules) > 0 {
		addr, err := netip.ParseAddr(rules[0].To)
		one := rules[0]
		one.To = self
		if err != nil || one != w {
			break
		}
		covered = append(covered, addr)
		rules = rules[1:]
	}
	return covered, rules
}

// uncovered is an address of the family that no rule covers. Link-local addresses
// have a rule of their own, and those of loopback do not leave the Mac.
func uncovered(own, covered []netip.Addr, fam string) string {
	for _, a := range own {
		a = a.Unmap().WithZone("")
		if family(a) != fam || a.IsLoopback() || a.IsLinkLocalUnicast() || slices.Contains(covered, a) {
			continue
		}
		return a.String()
	}
	return ""
}

// parents is how the main ruleset calls our anchor.
const parents = `anchor "com.apple/*"`

// NotCalled begins what JudgeMain says of a main ruleset without the call.
const NotCalled = `the main ruleset does not call com.apple/*`

// JudgeMain says why the main ruleset does not call our anchor, or calls it too
// late; empty means that it does.
func JudgeMain(live []string) string {
	for _, line := range live {
		words := strings.Join(strings.Fields(line), " ")
		if rest, found := strings.CutPrefix(words, parents); found {
			if rest = strings.TrimSpace(rest); rest != "" && rest != "all" {
				return fmt.Sprintf("the main ruleset calls com.apple/* for some packets only: %.120q", words)
			}
			return ""
		}
		if isQuick(words) {
			return fmt.Sprintf("a rule of the main ruleset comes before com.apple/*: %.120q", words)
		}
	}
	return NotCalled + `, where the rules for guests are`
}

// isQuick reports a filter rule that ends the evaluation of what it matches.
func isQuick(words string) bool {
	fields := strings.Fields(words)
	return len(fields) > 0 && (fields[0] == "pass" || fields[0] == "block") && slices.Contains(fields, "quick")
}
