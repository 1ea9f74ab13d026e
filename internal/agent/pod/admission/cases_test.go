package admission

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/admissiontest"
)

// ofMainOnly are fields that an init container cannot have here, or nowhere.
func ofMainOnly() []string { return append(probes(), "lifecycle", "resizePolicy") }

// TestTheCasesHaveAllThatIsHonoured: a field that is honoured, and that no case sets, may
// be missing in the chart's policy, which would then refuse what the agent takes.
func TestTheCasesHaveAllThatIsHonoured(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range admissiontest.Cases() {
		if len(c.Fields) > 0 {
			continue
		}
		p := c.Pod()
		for _, init := range p.Spec.InitContainers {
			noteSet("Init", reflect.ValueOf(init), seen)
		}
		p.Spec.InitContainers = slices.Repeat([]corev1.Container{{}}, len(p.Spec.InitContainers))
		noteSet("", reflect.ValueOf(p.Spec), seen)
	}
	for name, fields := range knownFields {
		for _, field := range strings.Fields(fields) {
			// No API server takes it by default, or none in a Pod that is made.
			if field == "schedulingGroup" || field == "ephemeralContainers" {
				continue
			}
			if !seen[name+"."+field] {
				t.Errorf("no case that is honoured sets %s.%s", name, field)
			}
			if name == "Container" && !slices.Contains(ofMainOnly(), field) && !seen["InitContainer."+field] {
				t.Errorf("no case that is honoured sets %s of an init container", field)
			}
		}
	}
}

// noteSet notes which fields of which types are set in v, and in all that it holds.
func noteSet(prefix string, v reflect.Value, seen map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			noteSet(prefix, v.Elem(), seen)
		}
	case reflect.Slice:
		for i := range v.Len() {
			noteSet(prefix, v.Index(i), seen)
		}
	case reflect.Struct:
		name := prefix + v.Type().Name()
		if v.Type() == reflect.TypeFor[corev1.VolumeSource]() {
			name = prefix + "Volume" // to who writes it
		}
		for i := range v.NumField() {
			field, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if v.Type().Field(i).IsExported() && isSet(v.Field(i)) {
				seen[name+"."+field] = true
				noteSet(prefix, v.Field(i), seen)
			}
		}
	}
}
