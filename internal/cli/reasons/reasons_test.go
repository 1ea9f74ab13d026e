package reasons

import (
	"slices"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/docs/operate"
)

const page = "# T\n\n## A thing waits: `Condition`\n\n| reason | it means | you |\n|---|---|---|\n" +
	"| `One`, `Two` | see [a page](hosts.md#x) \\| more | end it: `macfleet host wipe $HOST`, or (`kubectl get x`) wait |\n" +
	"| `Three` | waits | |\n\n| condition | reason | it means | you |\n|---|---|---|---|\n| `Other` | `One` | other | [do](#a-thing-waits-condition) |\n"

func read(text string) Book {
	book := Book{machines: map[string]Entry{}, recipes: map[string][]string{}}
	for _, row := range rowsOf(text) {
		book.add(row)
	}
	return book
}

func TestRowsAreRead(t *testing.T) {
	book := read(page)
	e, found := book.Find("Two", "Condition")
	if !found || e.Means != "see a page | more" || e.You != "end it, or wait" && e.You != "end it or wait" || e.Page != "hosts.md#x" {
		t.Errorf("%v %+v", found, e)
	}
	if want := []string{"macfleet host wipe $HOST", "kubectl get x"}; !slices.Equal(e.Commands, want) {
		t.Errorf("commands %q, want %q", e.Commands, want)
	}
	if e, found := book.Find("Three", "Condition"); !found || e.You != "" || e.Page != "reasons.md#a-thing-waits-condition" {
		t.Errorf("%v %+v", found, e)
	}
	if e, found := book.Find("One", "Nothing", "Other"); !found || e.Means != "other" || e.Page != "reasons.md#a-thing-waits-condition" {
		t.Errorf("%v %+v", found, e)
	}
	if _, found := book.Find("One", "Nothing"); found {
		t.Error("a condition without rows has one")
	}
}

// A reason of two conditions means what its own says.
func TestTheBookIsRead(t *testing.T) {
	book := Read()
	for _, c := range []struct{ condition, reason, says string }{
		{"UpToDate", "Held", "guests run"},
		{"RolledOut", "Held", "all that is left"},
		{"Remediated", "Held", "storm guard"},
		{"Available", "Stranded", "vanished"},
		{"LicenseSlotsHealthy", "SlotsLeaked", "a reboot would help"},
	} {
		if e, found := book.Find(c.reason, c.condition); !found || !strings.Contains(e.Means, c.says) {
			t.Errorf("%s %s: %v %+v", c.condition, c.reason, found, e)
		}
	}
	if e, found := book.MachinePhase("Lost"); !found || !strings.Contains(e.Means, "not this Machine's") {
		t.Errorf("phase Lost: %v %+v", found, e)
	}
	if got, _ := book.Find("Stranded", "Available"); !slices.Equal(got.Commands, []string{"macfleet host release $HOST"}) {
		t.Errorf("the recipe of a stranded host: %q", got.Commands)
	}
	if !book.Asks("Stranded", "Available") || book.Asks("NoAvailableHost", "HostClaimed") || !Passes("NoAvailableHost") || book.Asks("Claiming", "HostClaimed") {
		t.Error("who needs a person")
	}
}

// Where to read on is shown beside a text: a link that only ends its sentence is no part of it.
func TestNoTextEndsInTheNameOfAPage(t *testing.T) {
	for cell, want := range map[string]string{
		"delete it: [the storm guard](hosts.md#x)":                "delete it",
		"delete it (`kubectl delete x`): [the guard](hosts.md#x)": "delete it",
		"ask: [the guard](hosts.md#x). Else wait":                 "ask. Else wait",
		"when it stays, [add Macs](hosts.md#x)":                   "when it stays, add Macs",
		"this one: [have it join](hosts.md#x), which ends guests": "this one: have it join, which ends guests",
	} {
		if got := prose(cell); got != want {
			t.Errorf("%s: %q, want %q", cell, got, want)
		}
	}
	book := Read()
	for _, c := range []struct{ condition, reason, you string }{
		{"DestructionHeld", "StormGuard", "look for the one cause; to go on with one Mac at once, delete its Machine"},
		{"Available", "Retiring", "nothing waits for it"},
		{"HostClaimed", "NoAvailableHost", "when it stays, add Macs, or ask for less"},
	} {
		if e, _ := book.Find(c.reason, c.condition); e.You != c.you {
			t.Errorf("%s: %q, want %q", c.reason, e.You, c.you)
		}
	}
}

// Who has no Mac may ask for fewer, by a command that is there to be copied.
func TestNoMacIsFreeSaysHowToAskForLess(t *testing.T) {
	_, section, _ := strings.Cut(operate.Hosts, "\n## No Mac is free\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !strings.Contains(section, "scale machinedeployment FLEET --replicas=N") {
		t.Error("docs/operate/hosts.md#no-mac-is-free names no command to ask for less")
	}
}

// A row has the commands of a section that it links to, where it quotes none: they must not
// give a Mac back to the vendor for what a wipe mends.
func TestOnlyARowThatSaysSoGivesAMacBack(t *testing.T) {
	recipes := Read().recipes
	for _, row := range rowsOf(operate.Reasons) {
		book := Book{machines: map[string]Entry{}, recipes: recipes}
		book.add(row)
		for _, e := range book.entries {
			text := strings.Join(row.cells, " ")
			if strings.Contains(strings.Join(e.Commands, " "), "--terminate") && !strings.Contains(text, "--terminate") {
				t.Errorf("%s %q: %q", row.section, e.Reasons, e.Commands)
			}
		}
	}
}

// What is typed one after the other must be one recipe, for the one case that a row tells of.
func TestCommandsAreTheRowsOwn(t *testing.T) {
	book := Read()
	for _, c := range []struct {
		condition, reason string
		commands          []string
	}{
		{"Bootstrapped", "MissingSudoPassword", []string{"macfleet host wipe $HOST"}},
		{"Bootstrapped", "NotWiped", []string{"macfleet host quarantine $HOST --end"}},
		// Whether the other cluster lives, a person knows: it has guests that this ends.
		{"Bootstrapped", "DifferentCluster", nil},
		{"HostClaimed", "DifferentCluster", nil},
		{"KubeconfigAvailable", "DifferentCluster", nil},
		{"Wiped", "ReinstallFailed", []string{"macfleet host quarantine $HOST --end"}},
		{"Wiped", "WipeTimedOut", []string{"macfleet host quarantine $HOST --end"}},
	} {
		if e, found := book.Find(c.reason, c.condition); !found || !slices.Equal(e.Commands, c.commands) {
			t.Errorf("%s %s: %v %q, want %q", c.condition, c.reason, found, e.Commands, c.commands)
		}
	}
}
