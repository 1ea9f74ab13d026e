// Package reasons is what the book says about the reasons of conditions and about events,
// read from the book's own tables: what each means, what a person can do, which command to
// type, and where to read on. It knows no objects: that is for explain.
package reasons

import (
	"slices"

	"github.com/macfleet/macfleet/docs/operate"
)

// Entry is a row of the page of reasons.
type Entry struct {
	// Section is the heading that the row stands below.
	Section string
	// Conditions that have this reason; empty: an event has this name.
	Conditions []string
	Reasons    []string
	Means      string
	// Next is what happens by itself, where the book says that of the reason.
	Next string
	// You is what a person can do; empty: nothing is asked of anybody.
	You string
	// Commands to type, with $HOST, $MACHINE, $NS and the like for names.
	Commands []string
	// Page is where to read on, below the book's folder operate.
	Page string
}

// Book is the page of reasons, read.
type Book struct {
	entries  []Entry
	machines map[string]Entry
	recipes  map[string][]string
}

// OfPods is the condition of the reasons that Pods and their containers have.
const OfPods = "Pod"

// eventsOn is the column of tables of events that names their object.
const eventsOn = "on"

// Read reads the book.
func Read() Book {
	book := Book{machines: map[string]Entry{}, recipes: map[string][]string{}}
	for page, text := range map[string]string{"hosts.md": operate.Hosts, "rollouts.md": operate.Rollouts} {
		for anchor, commands := range recipesOf(text) {
			book.recipes[page+"#"+anchor] = commands
		}
	}
	for _, row := range rowsOf(operate.Reasons) {
		book.add(row)
	}
	return book
}

// add takes up a row of one of the page's three forms of tables.
func (b *Book) add(r row) {
	head := func(name string) string {
		if i := slices.Index(r.head, name); i >= 0 && i < len(r.cells) {
			return r.cells[i]
		}
		return ""
	}
	entry := Entry{Section: plain(r.section), Means: plain(head("it means")), Page: "reasons.md#" + anchor(r.section)}
	if phase := head("PHASE"); phase != "" {
		entry.You = plain(head("next"))
		b.machines[quoted(phase)[0]] = entry
		return
	}
	entry.Reasons, entry.Next = quoted(head("reason")), plain(head("next"))
	entry.Conditions = quoted(head("condition"))
	if event := head("event"); event != "" && head(eventsOn) != "" {
		entry.Reasons = quoted(event)
	} else if head("condition") == "" {
		entry.Conditions = quoted(r.section)
	}
	you := head("you")
	entry.You = prose(you)
	entry.Commands = commandsIn(you)
	for i, link := range linksIn(you + " " + head("it means")) {
		if i == 0 {
			entry.Page = link
		}
		if len(entry.Commands) == 0 {
			entry.Commands = b.recipes[link]
		}
	}
	b.entries = append(b.entries, entry)
}

// Find has the row of a condition's reason. conditions are those that may be meant: of a
// Machine's Ready all the others, whose reason it repeats.
func (b Book) Find(reason string, conditions ...string) (Entry, bool) {
	for _, condition := range conditions {
		for _, e := range b.entries {
			if slices.Contains(e.Reasons, reason) && slices.Contains(e.Conditions, condition) {
				return e, true
			}
		}
	}
	return Entry{}, false
}

// Any has the first row of a reason, of whatever condition or event.
func (b Book) Any(reason string) (Entry, bool) {
	for _, e := range b.entries {
		if slices.Contains(e.Reasons, reason) {
			return e, true
		}
	}
	return Entry{}, false
}

// MachinePhase has the row of a Machine's phase; its You is what comes next.
func (b Book) MachinePhase(phase string) (Entry, bool) {
	entry, found := b.machines[phase]
	return entry, found
}
