package house

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// retired is a word that names are not made of any more.
type retired struct {
	word string
	// say is what to write instead.
	say string
	// below, when set, are the only folders that the word is retired in: elsewhere it has its one meaning.
	below []string
}

// retiredWords are as they stand in a name, of which aB and a_b are two words each.
// Words of several parts are written as in Go: giveUp.
var retiredWords = []retired{
	// What the standard library has.
	{word: "cmpOr", say: "cmp.Or"},
	{word: "firstOf", say: "cmp.Or"},
	{word: "orDefault", say: "cmp.Or"},

	// Fifteen words for three effects: clear hostRef, clear claimRef, drop the finalizer.
	{word: "mourn", say: "handleServerGone"},
	{word: "yield", say: "handleReleasing", below: []string{"internal/controller"}},
	{word: "lose", say: "handleClaimLost"},
	{word: "aim", say: "selectHost"},
	{word: "hold", say: "reconcileClaim", below: []string{"internal/controller/machine"}},
	{word: "intend", say: "setHostRef", below: []string{"internal/controller"}},
	{word: "part", say: "releaseHost", below: []string{"internal/controller"}},
	{word: "forsake", say: "abandonClaim"},
	{word: "letGo", say: "removeFinalizer", below: []string{"internal/controller"}},
	{word: "farewell", say: "release"},
	{word: "outlive", say: "what is kept, and after what"},
	{word: "dropHost", say: "clearHostRef"},
	{word: "dropIntent", say: "clearHostRef"},
	{word: "unstage", say: "clearBootstrap"},

	// Of reconcilers.
	{word: "quietly", say: "requeueOnConflict", below: []string{"internal/controller"}},
	{word: "standing", say: "claimOwnership"},
	{word: "climb", say: "recover"},
	{word: "giveUp", say: "releaseUnhealthyHost, or requestReplacement", below: []string{"internal/controller"}},
	{word: "spoken", say: "eventlimit"},
	{word: "wish", say: "requirements, or request"},
	{word: "fitness", say: "preflight"},
	{word: "Lot", say: "RendezvousScore"},
	{word: "census", say: "collector"},
	{word: "hasten", say: "triggerList"},
	{word: "nowhere", say: "unknownZone"},
	{word: "handOver", say: "move"},

	// Of Pods.
	{word: "inside", say: "runGuestCommands", below: []string{"internal/agent"}},
	{word: "given", say: "inputs", below: []string{"internal/agent"}},
	{word: "fence", say: "firewall"},
	{word: "patience", say: "firewallRetry", below: []string{"internal/agent/pod"}},
	{word: "lived", say: "containerRecord"},
	{word: "remains", say: "exitEvidence", below: []string{"internal/agent/pod"}},
	{word: "traces", say: "reconstruct", below: []string{"internal/agent/pod"}},
	{word: "tend", say: "refreshVolumes"},
	{word: "settle", say: "reportStarted", below: []string{"internal/agent/pod"}},

	// Of converge.
	{word: "kick", say: "restartLoginwindow"},
	{word: "life", say: "jobHealth", below: []string{"internal/converge"}},
	{word: "blame", say: "recordFailure"},
	{word: "forgive", say: "clearFailures"},
	{word: "owed", say: "pendingRestart"},
	{word: "birth", say: "startedProcess"},
	{word: "wayBack", say: "rollbackTarget"},

	// Words that have one meaning, and it is another.
	{word: "journal", say: "checkpoint for a Pod, disk marker for a Mac"},
	{word: "turn", say: "update permit", below: []string{"internal/rollout", "internal/controller/profile", "internal/machine"}},
}

func TestNamesAreMadeOfWordsInUse(t *testing.T) {
	for _, file := range sources(t, "internal", "cmd") {
		for _, name := range namesOf(file) {
			for _, r := range retiredWords {
				if r.holdsIn(file.folder()) && r.standsIn(name) {
					t.Errorf("%s: %s is made of %q; say %s", file.path, name, r.word, r.say)
				}
			}
		}
	}
}

func (r retired) holdsIn(folder string) bool {
	return r.below == nil || slices.ContainsFunc(r.below, func(below string) bool { return within(folder, below) })
}

// standsIn says whether the word's parts stand in the name, next to each other.
func (r retired) standsIn(name string) bool {
	return strings.Contains("-"+strings.Join(partsOf(name), "-")+"-", "-"+strings.Join(partsOf(r.word), "-")+"-")
}

// TestMessagesNameNoShim: who reads an event, a status or an error of kubectl knows no shims.
func TestMessagesNameNoShim(t *testing.T) {
	word := regexp.MustCompile(`(?i)\bshims?\b`)
	for _, file := range sources(t, "internal/agent") {
		ast.Inspect(file.File, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && strings.Contains(literal.Value, " ") && word.MatchString(literal.Value) {
				t.Errorf("%s: %s says shim; say the process that runs a VM", file.path, literal.Value)
			}
			return true
		})
	}
}

// namesOf are the file's own name, and the names that it declares for its package:
// types, functions, methods, constants and variables, exported or not.
func namesOf(file source) []string {
	names := []string{strings.TrimSuffix(filepath.Base(file.path), ".go")}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, namesIn(spec)...)
			}
		}
	}
	return names
}

func namesIn(spec ast.Spec) []string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return []string{s.Name.Name}
	case *ast.ValueSpec:
		var names []string
		for _, name := range s.Names {
			names = append(names, name.Name)
		}
		return names
	}
	return nil
}

// partsOf are the words of a name, in small letters: tookOver_HTTPS is took, over, https.
func partsOf(name string) []string {
	var parts []string
	var part []rune
	end := func() {
		if len(part) > 0 {
			parts, part = append(parts, strings.ToLower(string(part))), nil
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		startsWord := unicode.IsUpper(r) && (i == 0 || !unicode.IsUpper(runes[i-1]) || (i+1 < len(runes) && unicode.IsLower(runes[i+1])))
		switch {
		case r == '_':
			end()
			continue
		case startsWord:
			end()
		}
		part = append(part, r)
	}
	end()
	return parts
}

func TestRetiredWordsCatch(t *testing.T) {
	for _, c := range []struct {
		word, name string
		stands     bool
	}{
		{"mourn", "mourn", true},
		{"mourn", "mournServer", true},
		{"mourn", "Mourning", false},
		{"look", "look_other", true},
		{"look", "lookup", false},
		{"giveUp", "giveUp", true},
		{"giveUp", "mayGiveUpNow", true},
		{"giveUp", "giveBackUp", false},
		{"Lot", "HTTPLot", true},
		{"Lot", "Slot", false},
	} {
		if got := (retired{word: c.word}).standsIn(c.name); got != c.stands {
			t.Errorf("%q stands in %q = %v, want %v", c.word, c.name, got, c.stands)
		}
	}
	somewhere := retired{word: "traces", below: []string{"internal/agent/pod"}}
	if !somewhere.holdsIn("internal/agent/pod/state") || somewhere.holdsIn("internal/agent/podium") {
		t.Error("a word retired below a folder holds there and nowhere else")
	}
}
