package charts

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/macfleet/macfleet/internal/booktest"
)

const aboutTheAPI = `
All kinds and fields, as the CRDs of the chart have them; ` + "`kubectl explain`" + ` says the same of a cluster's own. A field that is required is so where the object around it is there. A default that is no word of the API is what the manager does without the field. What the conditions say is on [the page of reasons](../operate/reasons.md), what the phases of a host mean on [theirs](../operate/phases.md), and [How it works](../concepts.md) is where to begin.

| kind | what it is |
|---|---|
`

// TestThePageOfTheAPIIsTheCRDs also fails where a kind or a field has no words.
func TestThePageOfTheAPIIsTheCRDs(t *testing.T) {
	found, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	p := &apiPage{t: t, kinds: map[string]apiextensionsv1.JSONSchemaProps{}}
	var crds []apiextensionsv1.CustomResourceDefinition
	for _, object := range found {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			t.Fatal(err)
		}
		crds = append(crds, crd)
		p.kinds[crd.Spec.Names.Kind] = *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	slices.SortFunc(crds, func(a, b apiextensionsv1.CustomResourceDefinition) int {
		return strings.Compare(a.Spec.Names.Kind, b.Spec.Names.Kind)
	})
	var index, sections string
	for _, crd := range crds {
		kind := crd.Spec.Names.Kind
		words, _, _ := strings.Cut(booktest.Words(p.kinds[kind].Description), ". ")
		index += fmt.Sprintf("| [`%s`](#%s) | %s |\n", kind, strings.ToLower(kind), strings.TrimSuffix(strings.TrimPrefix(words, kind+" "), "."))
		sections += p.section(crd)
	}
	booktest.Hold(t, "..", "reference/api.md", booktest.Head("The API, field by field", "the chart's CRDs")+aboutTheAPI+index+sections)
}

// apiPage knows all kinds, so that a template of one need not repeat it.
type apiPage struct {
	t     *testing.T
	kinds map[string]apiextensionsv1.JSONSchemaProps
	kind  string
	rows  [][]string
	rules []string
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
	p.kind, p.rules = names.Kind, nil
	p.check("", schema)
	spec := p.fields("spec", schema)
	if of, has := schema.Properties["spec"]; has {
		text += "\n" + booktest.Words(p.words("spec", of)) + "\n"
	}
	text += booktest.Table([]string{"what you say", "type", "default", "meaning"}, spec)
	status := p.fields("status", schema)
	for i, row := range status { // where nobody leaves anything out
		status[i] = slices.Delete(row, 2, 3)
	}
	text += booktest.Table([]string{"what is reported", "type", "meaning"}, status)
	if len(p.rules) > 0 {
		text += "\nThe API server also refuses an object for this:\n\n" + strings.Join(p.rules, "")
	}
	return text
}

// fields are the rows of a part of a kind.
func (p *apiPage) fields(part string, kind apiextensionsv1.JSONSchemaProps) [][]string {
	p.rows = nil
	p.check(part, kind.Properties[part])
	p.below(part, kind.Properties[part])
	return p.rows
}

// below adds rows for the fields of an object, and for what is in them.
func (p *apiPage) below(path string, object apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		field, at := object.Properties[name], path+"."+name
		if name == "metadata" {
			p.rows = append(p.rows, []string{booktest.Code(at), "object", "", "labels and annotations of what is made from this"})
			continue
		}
		words, value := booktest.Default(p.words(at, field))
		if value = booktest.Words(value); slices.Contains(object.Required, name) {
			value = "required"
		}
		kept := p.keptElsewhere(path, name, field)
		p.rows = append(p.rows, []string{booktest.Code(at), typeOf(field), value, booktest.Words(words) + kept})
		p.check(at, field)
		if kept == "" {
			p.inside(at, field)
		}
	}
}

// inside adds what a list or a map has in it.
func (p *apiPage) inside(at string, field apiextensionsv1.JSONSchemaProps) {
	if !isCondition(field) {
		p.below(at, field)
	}
	switch {
	case field.Items != nil && field.Items.Schema != nil && !isCondition(*field.Items.Schema):
		p.check(at+"[]", *field.Items.Schema)
		p.below(at+"[]", *field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		p.check(at+".<key>", *field.AdditionalProperties.Schema)
		p.below(at+".<key>", *field.AdditionalProperties.Schema)
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
