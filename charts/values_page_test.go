package charts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/macfleet/macfleet/internal/booktest"
)

const aboutTheValues = `
All values of the chart, from the comments of [its values.yaml](../../charts/macfleet/values.yaml). [Install it](../install.md#the-chart) says which you need. A value that the chart does not know, or of another type, is refused. The release's full name is the release's own, with ` + "`-macfleet`" + ` after it unless that is in it.
`

// described begins the comment of a value, as helm-docs has it.
const described = "# -- "

// TestThePageOfValuesIsTheFile also fails where a value has no words, or no type.
func TestThePageOfValuesIsTheFile(t *testing.T) {
	p := &valuesPage{t: t, said: map[string]bool{}}
	if err := json.Unmarshal([]byte(chartFile(t, "values.schema.json")), &p.schema); err != nil {
		t.Fatal(err)
	}
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(chartFile(t, "values.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	sections := p.sections(file.Content[0].Content)
	p.unsaid("", p.schema)
	booktest.Hold(t, "..", "reference/values.md", booktest.Head("The chart's values", "values.yaml and its schema")+aboutTheValues+sections)
}

type valuesPage struct {
	t      *testing.T
	schema schema
	rows   [][]string
	// said are the values that have a row.
	said map[string]bool
}

var heads = []string{"value", "type", "default", "meaning"}

// sections are those of the values that have others in them; the others come first.
func (p *valuesPage) sections(values []*yaml.Node) string {
	var text string
	var alone [][]string
	for i := 0; i < len(values); i += 2 {
		key, value := values[i], values[i+1]
		p.rows = nil
		p.add(key.Value, key, value)
		if value.Kind != yaml.MappingNode {
			alone = append(alone, p.rows...)
			continue
		}
		text += "\n## " + key.Value + "\n"
		if key.HeadComment != "" && !strings.HasPrefix(key.HeadComment, described) {
			text += "\n" + booktest.Words(plain(key.HeadComment)) + "\n"
		}
		if key.Value == "fleets" {
			p.addFleet(key.HeadComment)
		}
		text += booktest.Table(heads, p.rows)
	}
	return booktest.Table(heads, alone) + text
}

// add adds the row of a value, or those of what is in it.
func (p *valuesPage) add(path string, key, value *yaml.Node) {
	words, _, _ := strings.Cut(key.HeadComment, "\n#\n") // an example follows
	switch {
	case strings.HasPrefix(words, described):
		p.row(path, booktest.Code(flow(value)), plain(strings.TrimPrefix(words, described)))
	case value.Kind == yaml.MappingNode && len(value.Content) > 0:
		for i := 0; i < len(value.Content); i += 2 {
			p.add(path+"."+value.Content[i].Value, value.Content[i], value.Content[i+1])
		}
	default:
		p.t.Errorf("values.yaml: %s has no comment that begins with %q", path, described)
	}
}

// inBook is a page of the book, as the file names it.
var inBook = regexp.MustCompile(`docs/([a-z/-]+\.md)`)

func (p *valuesPage) row(path, value, words string) {
	p.said[path] = true
	of, found := p.schema.at(strings.Split(path, "."))
	if !found {
		p.t.Errorf("values.schema.json does not know %s", path)
	}
	if strings.TrimSpace(words) == "" {
		p.t.Errorf("values.yaml: %s has no words", path)
	}
	p.rows = append(p.rows, []string{booktest.Code(path), of.words(), value, inBook.ReplaceAllString(booktest.Words(words), "[docs/$1](../$1)")})
}

// exampleLine is one of the example of a fleet: indentation, key, value, comment.
var exampleLine = regexp.MustCompile(`^#( +)(?:([A-Za-z0-9]+):)?(.*?)(?: *# (.*))?$`)

// addFleet adds the rows of what a fleet may have, which its example says line by line. A line
// that has no word is of the value around it.
func (p *valuesPage) addFleet(comment string) {
	_, example, _ := strings.Cut(comment, "\n#\n")
	var path []string
	var words []string
	flush := func() {
		if text := strings.Join(words, " "); text != "" {
			text, value := booktest.Default(text)
			if short, required := strings.CutSuffix(text, "; required"); required {
				text, value = short, "required"
			}
			p.row(strings.Join(path, "."), booktest.Words(value), text)
		}
		words = nil
	}
	for line := range strings.SplitSeq(example, "\n") {
		m := exampleLine.FindStringSubmatch(line)
		if m == nil {
			p.t.Fatalf("values.yaml: the example of a fleet has the line %q", line)
		}
		if m[2] != "" {
			flush()
			depth := (len(m[1]) - 3) / 2 // as many spaces are before fleets, and two more before what is in it
			path = append(slices.Clone(path[:min(depth, len(path))]), m[2])
			if depth == 1 {
				path[1] = "<name>"
			}
		}
		if m[4] != "" {
			words = append(words, m[4])
		}
	}
	flush()
}

// unsaid finds values that the schema lets through and the page does not have. Those of the
// first system have no type, and Helm's own two are nobody's here.
func (p *valuesPage) unsaid(path string, of schema) {
	old := of.Type == nil && of.Enum == nil && of.AnyOf == nil
	if path != "" && (old || p.covers(path) || path == "global" || path == "enabled") {
		return
	}
	if below := of.below(); len(below) > 0 {
		for name, child := range below {
			p.unsaid(strings.TrimPrefix(path+"."+name, "."), child)
		}
		return
	}
	p.t.Errorf("values.yaml does not say %s, which the schema knows", path)
}

// covers says whether a value's own row speaks of all that is in it: nothing in it has one.
func (p *valuesPage) covers(path string) bool {
	for said := range p.said {
		if strings.HasPrefix(said, path+".") {
			return false
		}
	}
	return p.said[path]
}

// schema is what the page needs of a JSON schema.
type schema struct {
	Properties       map[string]schema
	Additional       json.RawMessage `json:"additionalProperties"`
	Items            *schema
	Type             any
	Enum             []any
	AnyOf            []schema
	Minimum, Maximum *int64
}

// below are the values in a value; <name> stands for any name.
func (s schema) below() map[string]schema {
	var each schema
	if len(s.Additional) > 0 && s.Additional[0] == '{' && json.Unmarshal(s.Additional, &each) == nil && len(each.Properties) > 0 {
		return map[string]schema{"<name>": each}
	}
	return s.Properties
}

func (s schema) at(path []string) (schema, bool) {
	if len(path) == 0 {
		return s, true
	}
	next, found := s.below()[path[0]]
	if !found {
		return schema{}, false
	}
	return next.at(path[1:])
}

// words are the type, as a person says it.
func (s schema) words() string {
	switch {
	case len(s.AnyOf) > 0:
		return s.AnyOf[0].words()
	case len(s.Enum) > 0:
		var values []string
		for _, value := range s.Enum {
			values = append(values, booktest.Code(cmp.Or(fmt.Sprint(value), `""`)))
		}
		return strings.Join(values, ", ")
	case s.Items != nil:
		return "list of " + s.Items.words() + "s"
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%v, %d to %d", s.Type, *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("%v, %d or more", s.Type, *s.Minimum)
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Type), "[]"), " ", " or ")
}

// plain is a comment without its signs, on one line.
func plain(comment string) string {
	return strings.TrimPrefix(strings.ReplaceAll(comment, "\n# ", " "), "# ")
}

// flow is a value on one line.
func flow(value *yaml.Node) string {
	quiet(value)
	text, err := yaml.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

func quiet(value *yaml.Node) {
	value.HeadComment, value.LineComment, value.FootComment = "", "", ""
	value.Style |= yaml.FlowStyle
	for _, child := range value.Content {
		quiet(child)
	}
}

func chartFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("macfleet", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
