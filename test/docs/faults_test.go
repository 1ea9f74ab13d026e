package docs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// faultSources say in code which faults the sandbox can bring about.
var faultSources = []struct {
	path  []string
	name  *regexp.Regexp
	least int // that there are fewer is a broken search
}{
	{[]string{"cmd", "macfleet", "fault.go"}, regexp.MustCompile(`Var\(&\w+(?:\.\w+)?, "([a-z]+)"`), 10},
	{[]string{"sandbox", "scaleway", "garbage.go"}, regexp.MustCompile(`Garbage\w+ += "([a-z-]+)"`), 6},
	{[]string{"sandbox", "scaleway", "knobs.go"}, regexp.MustCompile("json:\"([a-z_]+)\"`"), 7},
	{[]string{"sandbox", "scaleway", "rights.go"}, regexp.MustCompile(`Rights = "([a-z-]+)"`), 3},
	{[]string{"sandbox", "mac", "tart", "plan.go"}, regexp.MustCompile(`FaultKind = "([a-z-]+)"`), 28},
}

// chooseCalls are flags that say which calls a fault meets, or of which kind it is.
var chooseCalls = []string{"call", "method", "path", "server", "count", "probability", "after", "error", "garbage"}

var (
	errorKinds = regexp.MustCompile(`(?s)var errorKinds = \[\]string\{(.*?)\n\}`)
	inQuotes   = regexp.MustCompile(`"([a-z_]+)"`)
)

// sandboxFaults are the faults of the sandbox by name; those that are a flag have its dashes.
func sandboxFaults(t *testing.T) []string {
	t.Helper()
	kinds := errorKinds.FindString(read(t, filepath.Join(root, "sandbox", "scaleway", "fault.go")))
	var faults []string
	for _, match := range inQuotes.FindAllStringSubmatch(kinds, -1) {
		faults = append(faults, match[1])
	}
	if len(faults) < 11 {
		t.Errorf("the vendor's errors are %q: the search is broken", faults)
	}
	for _, source := range faultSources {
		found := source.name.FindAllStringSubmatch(read(t, filepath.Join(append([]string{root}, source.path...)...)), -1)
		if len(found) < source.least {
			t.Errorf("%v: only %d faults found, want %d: the search is broken", source.path, len(found), source.least)
		}
		for _, match := range found {
			switch name := match[1]; {
			case source.path[0] != "cmd":
				faults = append(faults, name)
			case !slices.Contains(chooseCalls, name):
				faults = append(faults, "--"+name)
			}
		}
	}
	return faults
}

// firing is an alert in a cell, and after how long it fires.
var firing = regexp.MustCompile("`([A-Z][A-Za-z]+)` (at once|[0-9]+ (?:min|h))")

// troubleNamed is a trouble of test/e2e: by its own name, or that of its first alert.
var troubleNamed = regexp.MustCompile(`(?m)^\t+\{?(?:name: "([^"]+)", )?alerts: \[\]string\{"(\w+)"`)

// troubles are those in which alerts were seen to fire, by name.
func troubles(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, match := range troubleNamed.FindAllStringSubmatch(read(t, filepath.Join(root, "test", "e2e", "alerts_troubles_test.go")), -1) {
		names = append(names, cmp.Or(match[1], match[2]))
	}
	if len(names) < 13 {
		t.Fatalf("the troubles are %q: the search is broken", names)
	}
	return names
}

// silent is the second cell of a fault for which no alert fires.
const silent = "none"

// Who breaks the sandbox finds which alert that fires: a fault that is new needs a row, and an
// alert that none of them fires has nothing that it is seen with.
func TestEachFaultSaysWhichAlertItFires(t *testing.T) {
	_, section, found := strings.Cut(read(t, book, "operate", "observability.md"), "### Which alert a fault fires\n")
	if !found {
		t.Fatal("docs/operate/observability.md has no table of faults")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	delays, seen := alertDelays(t), troubles(t)
	told, fired := map[string]bool{}, map[string]bool{}
	for _, r := range rows(section) {
		for _, match := range quoted.FindAllStringSubmatch(r.cells[0], -1) {
			told[match[1]] = true
		}
		for _, match := range firing.FindAllStringSubmatch(r.cells[1], -1) {
			fired[match[1]] = true
		}
		for _, complaint := range faultComplaints(r, delays, seen) {
			t.Errorf("%s: %s", r.cells[0], complaint)
		}
	}
	for _, trouble := range seen {
		if !strings.Contains(section, "`"+trouble+"` |") && !strings.Contains(section, "`"+trouble+"`, `") {
			t.Errorf("no fault is seen with the trouble %s", trouble)
		}
	}
	page := read(t, book, "sandbox.md")
	for _, fault := range sandboxFaults(t) {
		if !told[fault] {
			t.Errorf("docs/operate/observability.md does not say which alert %s fires", fault)
		}
		if !regexp.MustCompile("[`\"]" + regexp.QuoteMeta(fault) + "[`\" =]").MatchString(page) {
			t.Errorf("docs/sandbox.md does not know %s", fault)
		}
	}
	for name := range delays {
		if !fired[name] {
			t.Errorf("no fault is said to fire %s", name)
		}
	}
}

// faultComplaints says what is wrong with one row of the faults.
func faultComplaints(r row, delays map[string]time.Duration, troubles []string) []string {
	if len(r.cells) < 3 || r.cells[2] == "" {
		return []string{"it does not say why"}
	}
	var found []string
	if len(r.cells) == 4 {
		for _, match := range quoted.FindAllStringSubmatch(r.cells[3], -1) {
			if !slices.Contains(troubles, match[1]) {
				found = append(found, "no such trouble: "+match[1])
			}
		}
	}
	fires := firing.FindAllStringSubmatch(r.cells[1], -1)
	if len(fires) == 0 && r.cells[1] != silent {
		found = append(found, "neither an alert with its time, nor \""+silent+"\"")
	}
	for _, match := range fires {
		delay, is := delays[match[1]]
		if want := written(delay); !is || match[2] != want {
			found = append(found, fmt.Sprintf("%s fires after %s, not %s", match[1], want, match[2]))
		}
	}
	return found
}

func written(d time.Duration) string {
	switch {
	case d == 0:
		return "at once"
	case d%time.Hour == 0:
		return fmt.Sprint(int(d.Hours()), " h")
	}
	return fmt.Sprint(int(d.Minutes()), " min")
}

// longWait is the part of an expression that waits for seconds of its own.
var longWait = regexp.MustCompile(`_wait_seconds\{.*\}\) > (\d+)`)

// alertDelays says of each alert for how long it must have been so, its expression's own part included.
func alertDelays(t *testing.T) map[string]time.Duration {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr, For string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, "charts", "macfleet", "files", "alerts.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	delays := map[string]time.Duration{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			delay, err := time.ParseDuration(rule.For + "0s")
			if err != nil {
				t.Fatalf("%s: %v", rule.Alert, err)
			}
			if wait := longWait.FindStringSubmatch(rule.Expr); wait != nil {
				seconds, _ := strconv.Atoi(wait[1])
				delay += time.Duration(seconds) * time.Second
			}
			delays[rule.Alert] = delay
		}
	}
	return delays
}

func TestFaultComplaints(t *testing.T) {
	delays := map[string]time.Duration{"MacLost": 5 * time.Minute, "MacLosesSlots": 2 * time.Hour, "RolloutHalted": 0}
	for text, says := range map[string]string{
		"| `drop` | `MacLost` 5 min | since | `MacLost` |":               "",
		"| `drop` | `MacLosesSlots` 2 h, `RolloutHalted` at once | so |": "",
		"| `drop` | none | it ends by itself |":                          "",
		"| `drop` | none | |":                                            "does not say why",
		"| `drop` | | since |":                                           "neither an alert",
		"| `drop` | `MacLost` | since |":                                 "neither an alert",
		"| `drop` | `MacLost` 10 min | since |":                          "fires after 5 min",
		"| `drop` | `MacFound` 5 min | since |":                          "MacFound",
		"| `drop` | `MacLost` 5 min | since | `MacBurns` |":              "no such trouble",
	} {
		found := rows("| what | fires | because | seen |\n|---|---|---|---|\n" + text)
		if len(found) != 1 {
			t.Fatalf("%q is read as %d rows", text, len(found))
		}
		got := strings.Join(faultComplaints(found[0], delays, []string{"MacLost"}), "; ")
		if (says == "") != (got == "") || !strings.Contains(got, says) {
			t.Errorf("%s: complaints = %q, want %q", text, got, says)
		}
	}
}
