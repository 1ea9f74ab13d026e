package charts

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/macfleet/macfleet/internal/booktest"
)

const aboutTheAPI = `
All kinds and fields, as the CRDs of the chart have them; ` + "`kubectl explain`" + ` says the same of a cluster's own. A field that is required is so where the object around it is there. A default that is no word of the API is what the manager does without the field.

Of each kind one table has what is for you to write, and the other what macfleet writes: its part of ` + "`spec`" + `, and the status. Leave that as it is, but where [a recipe](../operate/hosts.md) says otherwise; of hosts and Machines the API server [keeps others from changing it](../install.md#who-may-do-what), but for cluster administrators. [Annotations, labels and finalizers](#annotations-labels-and-finalizers) are in two tables, too, at the end.

What the conditions say is on [the page of reasons](../operate/reasons.md), what the phases of a host mean on [theirs](../operate/phases.md), and [How it works](../concepts.md) is where to begin.

| kind | what it is |
|---|---|
`

// TestThePageOfTheAPIIsTheCRDs also fails where a kind or a field has no words.
func TestThePageOfTheAPIIsTheCRDs(t *testing.T) {
	p := &apiPage{t: t, kinds: map[string]apiextensionsv1.JSONSchemaProps{}}
	crds := sortedCRDs(t)
	for _, crd := range crds {
		p.kinds[crd.Spec.Names.Kind] = schemaOf(crd)
	}
	var index, sections string
	for _, crd := range crds {
		kind := crd.Spec.Names.Kind
		words, _, _ := strings.Cut(booktest.Words(p.kinds[kind].Description), ". ")
		index += fmt.Sprintf("| [`%s`](#%s) | %s |\n", kind, strings.ToLower(kind), strings.TrimSuffix(strings.TrimPrefix(words, kind+" "), "."))
		sections += p.section(crd)
	}
	booktest.Hold(t, "..", "reference/api.md", booktest.Head("The API, field by field", "the chart's CRDs and api/")+aboutTheAPI+index+sections+keySection(t))
}

// What the policies keep people from is said to be macfleet's, and nothing else of these kinds is.
func TestThePageAgreesWithThePolicies(t *testing.T) {
	policies := chartFile(t, "templates/policies.yaml")
	ofHosts := regexp.MustCompile(`range list ("[^}]*")`).FindStringSubmatch(policies)
	if ofHosts == nil {
		t.Fatal("no list of what is macfleet's of a host: the search is broken")
	}
	want := map[string][]string{"ScalewayAppleSiliconHost": strings.Fields(strings.ReplaceAll(ofHosts[1], `"`, ""))}
	for _, match := range regexp.MustCompile(`object\.\?spec\.\?(\w+)\.hasValue`).FindAllStringSubmatch(policies, -1) {
		want["ScalewayAppleSiliconMachine"] = append(want["ScalewayAppleSiliconMachine"], match[1])
	}
	for _, crd := range sortedCRDs(t) {
		want, kept := want[crd.Spec.Names.Kind]
		if !kept {
			continue
		}
		var got []string
		for name, field := range schemaOf(crd).Properties["spec"].Properties {
			if _, own := owner(field.Description); own {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: macfleet writes %q by the words of api/, and %q by the policies", crd.Spec.Names.Kind, got, want)
		}
	}
}

// sortedCRDs are those of the chart, by kind.
func sortedCRDs(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	found, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	var crds []apiextensionsv1.CustomResourceDefinition
	for _, object := range found {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			t.Fatal(err)
		}
		crds = append(crds, crd)
	}
	slices.SortFunc(crds, func(a, b apiextensionsv1.CustomResourceDefinition) int {
		return strings.Compare(a.Spec.Names.Kind, b.Spec.Names.Kind)
	})
	return crds
}

func schemaOf(crd apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// ofMacfleet ends the words of what macfleet writes, with all that is in it.
var ofMacfleet = regexp.MustCompile(`\s*Written by\s+macfleet\.$`)

// owner takes out of words whether they are about what macfleet writes.
func owner(said string) (words string, macfleets bool) {
	words = ofMacfleet.ReplaceAllString(strings.TrimSpace(said), "")
	return words, words != strings.TrimSpace(said)
}

// apiPage knows all kinds, so that a template of one need not repeat it.
type apiPage struct {
	t     *testing.T
	kinds map[string]apiextensionsv1.JSONSchemaProps
	kind  string
	// yours are rows of what people write, and own of what macfleet does.
	yours, own [][]string
	rules      []string
}

func (p *apiPage) section(crd apiextensionsv1.CustomResourceDefinition) string {
	names := crd.Spec.Names
	scope := "in a namespace"
	if crd.Spec.Scope == apiextensionsv1.ClusterScoped {
		scope = "the cluster's"
	}
	schema := p.kinds[names.Kind]
	text := fmt.Sprintf("\n## %s\n\n%s\n\n`%s/%s`, %s, `kubectl get %s` for short.\n", names.Kind, booktest.Words(p.words(names.Kind, schema)),
		crd.Spec.Group, crd.Spec.Versions[0].Name, scope, names.ShortNames[0])
	p.kind, p.yours, p.own, p.rules = names.Kind, nil, nil, nil
	p.check("", schema)
	p.fields("spec", schema, false)
	p.fields("status", schema, true)
	if of, has := schema.Properties["spec"]; has {
		text += "\n" + booktest.Words(p.words("spec", of)) + "\n"
	}
	text += booktest.Table([]string{"for you to write", "type", "default", "meaning"}, p.yours)
	text += booktest.Table([]string{"what macfleet writes", "type", "meaning"}, p.own)
	if len(p.rules) > 0 {
		text += "\nThe API server also refuses an object for this:\n\n" + strings.Join(p.rules, "")
	}
	return text
}

// fields adds the rows of a part of a kind.
func (p *apiPage) fields(part string, kind apiextensionsv1.JSONSchemaProps, own bool) {
	p.check(part, kind.Properties[part])
	p.below(part, kind.Properties[part], own)
}

// below adds rows for the fields of an object, and for what is in them. own: it is macfleet's.
func (p *apiPage) below(path string, object apiextensionsv1.JSONSchemaProps, own bool) {
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		field, at := object.Properties[name], path+"."+name
		if name == "metadata" {
			p.yours = append(p.yours, []string{booktest.Code(at), "object", "", "labels and annotations of what is made from this"})
			continue
		}
		said, macfleets := owner(p.words(at, field))
		words, value := booktest.Default(said)
		if value = booktest.Words(value); slices.Contains(object.Required, name) {
			value = "required"
		}
		kept := p.keptElsewhere(path, name, field)
		if words = booktest.Words(words) + kept; own || macfleets {
			p.own = append(p.own, []string{booktest.Code(at), typeOf(field), words}) // it leaves nothing out
		} else {
			p.yours = append(p.yours, []string{booktest.Code(at), typeOf(field), value, words})
		}
		p.check(at, field)
		if kept == "" {
			p.inside(at, field, own || macfleets)
		}
	}
}

// inside adds what a list or a map has in it.
func (p *apiPage) inside(at string, field apiextensionsv1.JSONSchemaProps, own bool) {
	if !isCondition(field) {
		p.below(at, field, own)
	}
	switch {
	case field.Items != nil && field.Items.Schema != nil && !isCondition(*field.Items.Schema):
		p.check(at+"[]", *field.Items.Schema)
		p.below(at+"[]", *field.Items.Schema, own)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		p.check(at+".<key>", *field.AdditionalProperties.Schema)
		p.below(at+".<key>", *field.AdditionalProperties.Schema, own)
	}
}

// keptElsewhere leads from the template of a kind to the kind itself.
func (p *apiPage) keptElsewhere(path, name string, field apiextensionsv1.JSONSchemaProps) string {
	of := strings.TrimSuffix(p.kind, "Template")
	if path+"."+name != "spec.template.spec" || of == p.kind || len(field.Properties) == 0 {
		return ""
	}
	var same []string
	for _, name := range slices.Sorted(maps.Keys(field.Properties)) {
		if !reflect.DeepEqual(field.Properties[name], p.kinds[of].Properties["spec"].Properties[name]) {
			return ""
		}
		same = append(same, booktest.Code(name))
	}
	return fmt.Sprintf(" Of the fields in [`%s`](#%s)'s `spec` it has %s.", of, strings.ToLower(of), strings.Join(same, ", "))
}

// check adds the rules that no type says.
func (p *apiPage) check(at string, field apiextensionsv1.JSONSchemaProps) {
	if at != "" {
		at = booktest.Code(at) + ": "
	}
	for _, rule := range field.XValidations {
		says := booktest.Words(rule.Message)
		if parts := strings.Split(rule.MessageExpression, "'"); len(parts) > 1 { // a format, and what is put into it
			says = booktest.Words(strings.ReplaceAll(parts[1], "%d", "…"))
		}
		p.rules = append(p.rules, "- "+at+says+"\n")
	}
	if field.Pattern != "" {
		p.rules = append(p.rules, "- "+at+"does not match "+booktest.Code(field.Pattern)+"\n")
	}
}

// words are what a field says of itself.
func (p *apiPage) words(at string, field apiextensionsv1.JSONSchemaProps) string {
	if strings.TrimSpace(field.Description) == "" {
		p.t.Errorf("%s: %s has no words: write a comment above it in api/", p.kind, at)
	}
	return field.Description
}

// isCondition says whether this is Kubernetes' own kind of condition, which needs no row.
func isCondition(s apiextensionsv1.JSONSchemaProps) bool {
	_, transition := s.Properties["lastTransitionTime"]
	return transition
}

// typeOf is a type with its bounds, as a person says it.
func typeOf(s apiextensionsv1.JSONSchemaProps) string {
	switch {
	case len(s.Enum) > 0:
		var values []string
		for _, value := range s.Enum {
			values = append(values, booktest.Code(strings.Trim(string(value.Raw), `"`)))
		}
		return strings.Join(values, ", ")
	case s.Items != nil && s.Items.Schema != nil:
		return listOf(s)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of " + several(*s.AdditionalProperties.Schema)
	}
	return strings.Trim(kindOf(s)+", "+bounds(s), ", ")
}

func listOf(s apiextensionsv1.JSONSchemaProps) string {
	of := "list of " + several(*s.Items.Schema)
	if isCondition(*s.Items.Schema) {
		of = "list of conditions"
	}
	if s.MaxItems != nil {
		of += fmt.Sprintf(", %d at most", *s.MaxItems)
	}
	return of
}

// several is the type of what is in a list or a map.
func several(s apiextensionsv1.JSONSchemaProps) string {
	of := strings.ReplaceAll(kindOf(s), " or ", "s or ") + "s"
	if b := bounds(s); b != "" {
		of += " (" + b + ")"
	}
	return of
}

func kindOf(s apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.XIntOrString:
		return "integer or string"
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

func bounds(s apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%v to %v", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("%v or more", *s.Minimum)
	case s.MaxLength != nil:
		return fmt.Sprintf("%d characters at most", *s.MaxLength)
	}
	return ""
}
