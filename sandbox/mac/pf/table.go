package pf

import (
	"net/netip"
	"slices"
	"strings"
)

// tableKey names a table: the same name in two scopes is two tables.
type tableKey struct{ anchor, name string }

// table is a kernel's table. It lives for as long as it is active, about to be,
// or referred to by a rule.
type table struct {
	active   bool
	pending  *definition // of the transaction that is open
	persist  bool
	constant bool
	refs     int
	entries  []entry
}

// entry is an address or a network, or an exception from one.
type entry struct {
	prefix netip.Prefix
	not    bool
}

func (e entry) String() string {
	text := e.prefix.String()
	if e.prefix.IsSingleIP() {
		text = e.prefix.Addr().String()
	}
	if e.not {
		return "!" + text
	}
	return text
}

// tables are all of them, of every scope.
type tables map[tableKey]*table

// table finds or makes a table.
func (all tables) table(k tableKey) *table {
	t, ok := all[k]
	if !ok {
		t = &table{}
		all[k] = t
	}
	return t
}

// settle is what the kernel does after each change of a table's flags: one that
// is neither persistent nor referred to is not active, an inactive one is empty,
// and one that is nothing any more is gone.
func (all tables) settle(k tableKey) {
	t, ok := all[k]
	if !ok {
		return
	}
	if t.refs == 0 && !t.persist {
		t.active = false
	}
	if !t.active {
		t.persist, t.constant, t.entries = false, false, nil
	}
	if !t.active && t.pending == nil && t.refs == 0 {
		delete(all, k)
	}
}

// refer counts the rules of a ruleset that use tables, up or down.
func (all tables) refer(anchor string, rules []*rule, by int) {
	for _, r := range rules {
		for _, s := range []side{r.from, r.to} {
			if s.host.table == "" {
				continue
			}
			k := tableKey{anchor, s.host.table}
			all.table(k).refs += by
			all.settle(k)
		}
	}
}

// kill is -T kill: the table of that one scope, if it is active.
func (all tables) kill(k tableKey) int {
	t, ok := all[k]
	if !ok || !t.active {
		return 0
	}
	t.active = false
	all.settle(k)
	return 1
}

// flushTables is -F Tables: the active ones of that one scope. One that a rule
// refers to stays behind as an empty shell.
func (f *Filter) flushTables(anchor string) int {
	n := 0
	for _, name := range f.tables.tableNames(anchor) {
		k := tableKey{anchor, name}
		if f.beliefs.FlushKeepsPersist && f.tables[k].persist {
			f.tables[k].entries = nil
			continue
		}
		n += f.tables.kill(k)
	}
	return n
}

// tableNames are the active tables of one scope, sorted.
func (all tables) tableNames(anchor string) []string {
	var names []string
	for k, t := range all {
		if k.anchor == anchor && t.active {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return names
}

// add is -T add: a table that is missing is made, and persistent.
func (all tables) add(k tableKey, entries []entry) (created bool, added int) {
	t := all.table(k)
	if !t.active {
		t.active, t.persist, created = true, true, true
	}
	for _, e := range entries {
		if !slices.Contains(t.entries, e) {
			t.entries = append(t.entries, e)
			added++
		}
	}
	slices.SortFunc(t.entries, func(a, b entry) int { return strings.Compare(a.String(), b.String()) })
	return created, added
}

// holds says whether a table that a rule of that scope names has the address:
// the scope's own table if it is active, else the main one's. The longest
// network decides.
func (all tables) holds(k tableKey, a netip.Addr) bool {
	t := all[k]
	if t == nil || !t.active {
		t = all[tableKey{"", k.name}]
	}
	if t == nil || !t.active {
		return false
	}
	best, holds := -1, false
	for _, e := range t.entries {
		if e.prefix.Contains(a) && e.prefix.Bits() > best {
			best, holds = e.prefix.Bits(), !e.not
		}
	}
	return holds
}
