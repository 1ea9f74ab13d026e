package pf

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// ruleset is what one anchor holds.
type ruleset struct {
	rules   [sections][]*rule
	private [sections][]*rule // put in by system daemons, beside pfctl
	ticket  uint64            // of the newest transaction
	open    bool
}

// all are the rules of a section, in the order they are looked at.
func (r *ruleset) all(s section) []*rule {
	return slices.Concat(r.rules[s], r.private[s])
}

func (r *ruleset) empty() bool {
	for s := range sections {
		if len(r.all(s)) > 0 {
			return false
		}
	}
	return !r.open
}

// Errors of a load.
var (
	errBusy   = errors.New("Resource busy")                                    //nolint:staticcheck // the kernel's words
	errSyntax = errors.New("Syntax error in config file: pf rules not loaded") //nolint:staticcheck // pfctl's words
)

// ReadFile reads a file that a load names.
type ReadFile func(path string) ([]byte, error)

// load is one run of `pfctl -f`: the tickets it got, first come first, and
// what it has to say.
type load struct {
	f       *Filter
	read    ReadFile
	dry     bool
	tickets []ticket
	says    []string // on stderr
}

type ticket struct {
	anchor string
	number uint64
	file   *file
}

// Load replaces the rules of an anchor, the main ruleset's when it is empty, by
// those of a text. Syntax errors are *Complaint, joined.
func (f *Filter) Load(anchor, name, text string, read ReadFile) error {
	l := load{f: f, read: read}
	return l.main(anchor, name, text)
}

func (l *load) main(anchor, name, text string) error {
	if err := l.add(anchor, name, text); err != nil {
		l.rollback()
		return err
	}
	if err := l.loads(anchor); err != nil {
		l.rollback()
		return err
	}
	if l.dry {
		return nil
	}
	return l.commit()
}

// loads does what `load anchor` in the main file asks for; elsewhere it is
// passed over.
func (l *load) loads(anchor string) error {
	if anchor != "" {
		return nil
	}
	for _, want := range l.tickets[0].file.loads {
		data, err := l.read(want.path)
		if err != nil {
			return fmt.Errorf("%s: %w", want.path, err)
		}
		if err := l.add(want.anchor, want.path, string(data)); err != nil {
			return err
		}
	}
	return nil
}

// add begins a transaction on an anchor and defines the tables of a file in it.
func (l *load) add(anchor, name, text string) error {
	parsed, err := parse(name, text, l.f.o.Interfaces())
	if err != nil {
		return err
	}
	l.begin(anchor, parsed)
	complaints := parsed.complaints
	for _, d := range parsed.tables {
		if err := l.define(anchor, d); err != nil {
			complaints = append(complaints, &Complaint{name, d.line, fmt.Sprintf("cannot define table %s: %v", d.name, err)})
		}
	}
	if len(complaints) == 0 {
		return nil
	}
	slices.SortStableFunc(complaints, func(a, b *Complaint) int { return a.Line - b.Line })
	errs := make([]error, 0, len(complaints)+1)
	for _, c := range complaints {
		errs = append(errs, c)
	}
	return errors.Join(append(errs, errSyntax)...)
}

func (l *load) begin(anchor string, parsed *file) {
	f := l.f
	f.mu.Lock()
	t := ticket{anchor: anchor, file: parsed}
	if !l.dry {
		rs := f.ruleset(anchor)
		f.tickets++
		rs.ticket, rs.open = f.tickets, true
		t.number = rs.ticket
		f.forget(anchor)
	}
	l.tickets = append(l.tickets, t)
	race := f.beliefs.RaceBusy && !l.dry
	f.mu.Unlock()
	if race {
		f.o.Window()
	}
}

// forget drops what earlier transactions on the anchor have defined.
func (f *Filter) forget(anchor string) {
	for k, t := range maps.Clone(f.tables) {
		if k.anchor == anchor {
			t.pending = nil
			f.tables.settle(k)
		}
	}
}

// ticketFor is the first ticket this load got for an anchor, even where it got
// a newer one: that is how pfctl looks it up.
func (l *load) ticketFor(anchor string) uint64 {
	i := slices.IndexFunc(l.tickets, func(t ticket) bool { return t.anchor == anchor })
	return l.tickets[i].number
}

func (l *load) define(anchor string, d definition) error {
	for _, p := range d.files {
		data, err := l.read(p)
		if err != nil {
			return err
		}
		for _, word := range strings.Fields(string(data)) {
			if prefix, _, ok := parsePrefix(strings.TrimPrefix(word, "!")); ok {
				d.entries = append(d.entries, entry{prefix: prefix, not: word[0] == '!'})
			}
		}
	}
	if l.dry {
		return nil
	}
	f := l.f
	f.mu.Lock()
	defer f.mu.Unlock()
	rs := f.ruleset(anchor)
	if !rs.open || rs.ticket != l.ticketFor(anchor) || f.heldByPersistence(anchor, d.name) {
		return errBusy
	}
	f.tables.table(tableKey{anchor, d.name}).pending = &d
	return nil
}

func (f *Filter) heldByPersistence(anchor, name string) bool {
	if !f.beliefs.PersistIsBusy {
		return false
	}
	for _, scope := range []string{anchor, ""} {
		if t := f.tables[tableKey{scope, name}]; t != nil && t.active && t.persist {
			return true
		}
	}
	return false
}

// commit swaps whole lists. In the main ruleset that purges what system daemons
// put in beside pfctl.
func (l *load) commit() error {
	f := l.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range l.tickets {
		rs := f.ruleset(t.anchor)
		if !rs.open || rs.ticket != l.ticketFor(t.anchor) {
			l.rollbackLocked()
			return fmt.Errorf("DIOCADDRULE: %w", errBusy)
		}
	}
	for _, t := range l.tickets {
		f.swap(t)
		l.collisions(t)
	}
	f.prune()
	return nil
}

func (f *Filter) swap(t ticket) {
	rs := f.ruleset(t.anchor)
	old := *rs
	rs.open, rs.rules, rs.private = false, t.file.rules, [sections][]*rule{}
	for s := range sections {
		f.tables.refer(t.anchor, rs.rules[s], 1)
	}
	for k, table := range f.tables {
		if d := table.pending; d != nil && k.anchor == t.anchor {
			table.active, table.pending = true, nil
			table.persist, table.constant, table.entries = d.persist, d.constant, d.entries
		}
	}
	for s := range sections {
		f.tables.refer(t.anchor, old.rules[s], -1)
		f.tables.refer(t.anchor, old.private[s], -1)
	}
	for k := range maps.Clone(f.tables) {
		f.tables.settle(k)
	}
}

// collisions warns of a table that now exists in an anchor and in the main
// ruleset.
func (l *load) collisions(t ticket) {
	if t.anchor == "" {
		return
	}
	for _, d := range t.file.tables {
		if main := l.f.tables[tableKey{"", d.name}]; main != nil && main.active {
			l.says = append(l.says, fmt.Sprintf("pfctl: warning: namespace collision with <%s> global table.", d.name))
		}
	}
}

func (l *load) rollback() {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.rollbackLocked()
}

// rollbackLocked closes what is still ours to close.
func (l *load) rollbackLocked() {
	for _, t := range l.tickets {
		rs := l.f.anchors[t.anchor]
		if rs == nil || l.dry || rs.ticket != t.number {
			continue
		}
		rs.open = false
		l.f.forget(t.anchor)
	}
	l.f.prune()
}

// ruleset finds or makes an anchor.
func (f *Filter) ruleset(anchor string) *ruleset {
	rs, ok := f.anchors[anchor]
	if !ok {
		rs = &ruleset{}
		f.anchors[anchor] = rs
	}
	return rs
}

// prune drops anchors with nothing in them.
func (f *Filter) prune() {
	for name, rs := range f.anchors {
		if name != "" && rs.empty() && !f.hasTables(name) {
			delete(f.anchors, name)
		}
	}
}

func (f *Filter) hasTables(anchor string) bool {
	for k := range f.tables {
		if k.anchor == anchor {
			return true
		}
	}
	return false
}

// children are the anchors right below one, by name. An anchor exists when it
// or one below it holds something, or a rule calls it.
func (f *Filter) children(parent string) []string {
	found := map[string]bool{}
	for name := range f.known() {
		for name != "" && name != "." {
			up := path.Dir(name)
			if up == "." {
				up = ""
			}
			if up == parent {
				found[name] = true
			}
			name = up
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// known are all anchors with something in them and those that rules call.
func (f *Filter) known() map[string]bool {
	known := map[string]bool{}
	for name, rs := range f.anchors {
		known[name] = true
		for s := range sections {
			for _, r := range rs.all(s) {
				if r.call != "" {
					known[strings.TrimSuffix(resolve(name, r.call), "/*")] = true
				}
			}
		}
	}
	return known
}

// resolve makes the name in an anchor point absolute.
func resolve(anchor, call string) string {
	if strings.HasPrefix(call, "/") {
		return strings.TrimPrefix(call, "/")
	}
	return path.Join(anchor, call)
}
