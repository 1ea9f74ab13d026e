package pf

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// print is -s. What goes wrong here leaves the exit code alone, as in pfctl.
func (r *run) print() {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	switch r.show {
	case "rules":
		r.printRules(normalization, filtering)
	case "nat":
		r.printRules(translation, redirection)
	case "dummynet":
		r.printRules(shaping)
	case "Anchors":
		for _, name := range r.f.children(r.anchor) {
			fmt.Fprintf(&r.out, "  %s\n", name)
		}
	case "Tables":
		r.printTables()
	case "References":
		r.printReferences()
	case "states":
		for _, s := range r.f.sessions {
			fmt.Fprintln(&r.out, s)
		}
	case "info":
		r.printInfo()
	}
}

func (r *run) printRules(which ...section) {
	rs := r.f.anchors[r.anchor]
	if rs == nil && r.f.known()[r.anchor] {
		return
	}
	if rs == nil {
		fmt.Fprintln(&r.err, "pfctl: DIOCGETRULES: Invalid argument")
		return
	}
	for _, s := range which {
		for _, rule := range rs.all(s) {
			fmt.Fprintln(&r.out, rule.text(r.f.beliefs.ServiceNames))
		}
	}
}

func (r *run) printTables() {
	if r.f.anchors[r.anchor] == nil && len(r.f.tables.tableNames(r.anchor)) == 0 {
		fmt.Fprintln(&r.err, "pfctl: Anchor or Ruleset does not exist.")
		return
	}
	for _, name := range r.f.tables.tableNames(r.anchor) {
		fmt.Fprintln(&r.out, name)
	}
}

func (r *run) printReferences() {
	now := r.f.o.Now()
	fmt.Fprintf(&r.out, "TOKENS:\n%-9s%-29s%-25s%s\n", "PID", "Process Name", "TOKEN", "TIMESTAMP")
	for _, ref := range r.f.refs {
		fmt.Fprintf(&r.out, "%-9d%-29s%-25d%s\n", ref.PID, ref.Process, ref.Token, uptime(now.Sub(ref.Taken)))
	}
}

func (r *run) printInfo() {
	status := "Disabled"
	if r.f.enabled() {
		status = "Enabled for " + uptime(r.f.o.Now().Sub(r.f.since))
	}
	fmt.Fprintf(&r.out, "%-48s%s\n\nState Table                          Total             Rate\n", "Status: "+status, "Debug: Urgent")
	fmt.Fprintf(&r.out, "  %-25s%14d%18s\n", "current entries", len(r.f.sessions), "")
}

// uptime prints a duration as pfctl does: 2 days 03:04:05.
func uptime(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%d days %02d:%02d:%02d", s/86400, s/3600%24, s/60%60, s%60)
}

var (
	errNoTable  = errors.New("Table does not exist.") //nolint:staticcheck // pfctl's words
	errNoneSuch = errors.New("no table given")
)

// tables is -T.
func (r *run) tables() {
	if r.table == "" {
		r.fail(rcFailed, errNoneSuch)
		return
	}
	entries, err := r.entries()
	if err != nil {
		r.fail(rcFailed, err)
		return
	}
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	k := tableKey{r.anchor, r.table}
	t := f.tables[k]
	missing := t == nil || !t.active
	switch r.verb {
	case "kill":
		r.say("%s deleted.\n", plural(f.tables.kill(k), "table"))
		f.prune()
		return
	case "add":
		r.addTo(k, entries)
		return
	case "replace":
		if !missing {
			t.entries = nil
		}
		r.addTo(k, entries)
		return
	}
	if missing {
		r.fail(rcNoTable, errNoTable)
		return
	}
	switch r.verb {
	case "show":
		for _, e := range t.entries {
			fmt.Fprintf(&r.out, "   %s\n", e)
		}
	case "flush":
		r.say("%d addresses deleted.\n", len(t.entries))
		t.entries = nil
	case "delete":
		before := len(t.entries)
		t.entries = slices.DeleteFunc(t.entries, func(e entry) bool { return slices.Contains(entries, e) })
		r.say("%d/%d addresses deleted.\n", before-len(t.entries), len(entries))
	case "test":
		r.unmodelled, r.rc = "-T test", rcUsage
	}
}

func (r *run) entries() ([]entry, error) {
	var out []entry
	for _, word := range r.words {
		text, not := word, false
		if word[0] == '!' {
			text, not = word[1:], true
		}
		prefix, _, ok := parsePrefix(text)
		if !ok {
			return nil, fmt.Errorf("could not parse host specification %s", word)
		}
		out = append(out, entry{prefix: prefix, not: not})
	}
	return out, nil
}

func (r *run) addTo(k tableKey, entries []entry) {
	r.f.ruleset(k.anchor)
	created, added := r.f.tables.add(k, entries)
	if created {
		r.say("1 table created.\n")
	}
	r.say("%d/%d addresses added.\n", added, len(entries))
}
