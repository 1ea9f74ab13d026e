package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// terminal is how wide the tables may be that people are told to look at.
const terminal = 120

// severalKinds is a command that prints tables of several kinds.
var severalKinds = regexp.MustCompile("kubectl [^\n`#]*get [a-z]+(?:,[a-z]+)+[^\n`#]*")

// Of several kinds kubectl writes each with its full name before every row, which with the
// name of a Host are 101 characters.
func TestTablesAreOfOneKind(t *testing.T) {
	texts := pages(t)
	for _, path := range [][]string{{"charts", "macfleet", "templates", "NOTES.txt"}, {"cmd", "macfleet", "up.go"}} {
		file := filepath.Join(append([]string{root}, path...)...)
		texts[file] = read(t, file)
	}
	outputs := 0
	for path, text := range texts {
		for _, command := range severalKinds.FindAllString(text, -1) {
			if strings.Contains(command, " -o ") {
				outputs++
				continue
			}
			t.Errorf("%s: %q wraps each row: one command a kind", strings.TrimPrefix(path, root+"/"), command)
		}
	}
	if outputs == 0 {
		t.Error("no command for several kinds found: the search is broken")
	}
}

// table is what stands before the columns of a kind, and the widest usual cell of each.
type table struct {
	first   []string
	longest map[string]string
}

func tables() map[string]table {
	const machine, age = "macfleet-builders-x7k2p-9qxlm", "123d"
	return map[string]table{
		"hosts": {
			[]string{"fr-par-1-01234567-89ab-cdef-0123-456789abcdef"},
			map[string]string{"Phase": "Quarantined", "Type": "M4-M", "Claim": machine, "Kept out": "Maintenance", "Age": age},
		},
		"machines": { // with -A
			[]string{"macfleet-system", machine},
			map[string]string{"Phase": "Bootstrapping", "Reason": "NoHostInFailureDomain", "Age": age},
		},
	}
}

func TestTablesFitATerminal(t *testing.T) {
	for kind, shown := range tables() {
		cells := shown.first
		for _, name := range columns(t, kind) {
			widest, known := shown.longest[name]
			if !known {
				t.Errorf("%s: how wide is the column %s?", kind, name)
			}
			cells = append(cells, widest+strings.Repeat(" ", max(0, len(name)-len(widest))))
		}
		if width := len(strings.Join(cells, "   ")); width > terminal {
			t.Errorf("%s: rows of %d characters, %d fit: a column should be for -o wide", kind, width, terminal)
		}
	}
}

// columns are those that kubectl shows of a kind without -o wide.
func columns(t *testing.T, kind string) []string {
	t.Helper()
	var crd struct {
		Spec struct {
			Versions []struct {
				Columns []struct {
					Name     string `json:"name"`
					Priority int    `json:"priority"`
				} `json:"additionalPrinterColumns"`
			} `json:"versions"`
		} `json:"spec"`
	}
	file := "infrastructure.cluster.x-k8s.io_scalewayapplesilicon" + kind + ".yaml"
	if err := yaml.Unmarshal([]byte(read(t, root, "charts", "macfleet", "crds", file)), &crd); err != nil || len(crd.Spec.Versions) != 1 {
		t.Fatalf("%s: %d versions, %v", file, len(crd.Spec.Versions), err)
	}
	var names []string
	for _, c := range crd.Spec.Versions[0].Columns {
		if c.Priority == 0 {
			names = append(names, c.Name)
		}
	}
	return names
}
