package docs

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schema is what this test needs of a JSON schema.
type schema struct {
	Properties map[string]schema `json:"properties"`
	Additional json.RawMessage   `json:"additionalProperties"`
	Type       any               `json:"type"`
}

// value is how a page names one of the chart's values; <name> stands for any key.
var value = regexp.MustCompile(`^([a-z][A-Za-z]*(?:\.[A-Za-z<>]+)+)(?:$|[:= ])`)

// firstCells are those of a table's rows.
var firstCells = regexp.MustCompile(`(?m)^\|[^|]*\|`)

func TestChartValuesInTheBookExist(t *testing.T) {
	var chart schema
	if err := json.Unmarshal([]byte(read(t, root, "charts", "macfleet", "values.schema.json")), &chart); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for path, page := range pages(t) {
		if filepath.Base(path) == "requirements.md" {
			continue // it names the values of the first system, too
		}
		if filepath.Base(path) == "migrate.md" {
			page = firstCells.ReplaceAllString(page, "|") // they are the first system's
		}
		for _, match := range quoted.FindAllStringSubmatch(page, -1) {
			named := value.FindStringSubmatch(match[1])
			if named == nil {
				continue
			}
			keys := strings.Split(named[1], ".")
			if _, ours := chart.Properties[keys[0]]; !ours {
				continue
			}
			seen++
			if !chart.has(keys) {
				t.Errorf("%s: the chart has no value %s", strings.TrimPrefix(path, root+"/"), named[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d values found in the book: the search is broken", seen)
	}
}

// has reports that the schema knows such a value.
func (s schema) has(keys []string) bool {
	if len(keys) == 0 {
		return true
	}
	if next, found := s.Properties[keys[0]]; found {
		return next.has(keys[1:])
	}
	var any schema
	if len(s.Additional) > 0 && s.Additional[0] == '{' {
		return json.Unmarshal(s.Additional, &any) == nil && any.has(keys[1:])
	}
	return len(s.Properties) == 0 && s.Type == "object" // such as resources: anything
}

func TestSchemaKnowsItsValues(t *testing.T) {
	var s schema
	if err := json.Unmarshal([]byte(`{"properties": {"a": {"properties": {"b": {"type": "string"}}, "additionalProperties": false},
		"m": {"additionalProperties": {"properties": {"x": {"type": "string"}}}}, "free": {"type": "object"}}}`), &s); err != nil {
		t.Fatal(err)
	}
	known := []string{"a", "a.b", "m.<name>.x", "free.cpu"}
	for _, path := range append(slices.Clone(known), "a.c", "a.b.c", "m.<name>.y", "z") {
		if got, want := s.has(strings.Split(path, ".")), slices.Contains(known, path); got != want {
			t.Errorf("has(%s) = %v", path, got)
		}
	}
}
