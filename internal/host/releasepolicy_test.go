package host_test

import (
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// Requirement 000: hosts of the pool go back to it, ordered ones and those that a
// person has marked are given back to the vendor.
func TestRequirement000_ReleasePolicy(t *testing.T) {
	const none = "\x00"
	for name, row := range map[string]struct {
		annotation string
		spec       infrav1.ReleasePolicy
		ordered    bool
		want       infrav1.ReleasePolicy
		unknown    string
	}{
		"adopted":                        {none, "", false, infrav1.Recycle, ""},
		"ordered":                        {none, "", true, infrav1.Terminate, ""},
		"the spec's word":                {none, infrav1.Detach, false, infrav1.Detach, ""},
		"the spec before how it came":    {none, infrav1.Recycle, true, infrav1.Recycle, ""},
		"annotated":                      {"terminate", "", false, infrav1.Terminate, ""},
		"annotation before the spec":     {"recycle", infrav1.Terminate, true, infrav1.Recycle, ""},
		"detach for one Machine":         {"detach", infrav1.Recycle, false, infrav1.Detach, ""},
		"any case":                       {" TerMinate ", "", false, infrav1.Terminate, ""},
		"nonsense leaves the default":    {"destroy", "", false, infrav1.Recycle, "destroy"},
		"nonsense leaves the spec's":     {"destroy", infrav1.Detach, true, infrav1.Detach, "destroy"},
		"no policy of Machines":          {"reinstall", "", true, infrav1.Terminate, "reinstall"},
		"an empty annotation is no word": {"", infrav1.Terminate, false, infrav1.Terminate, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &infrav1.ScalewayAppleSiliconMachine{}
			m.Spec.ReleasePolicy = row.spec
			if row.annotation != none {
				m.Annotations = map[string]string{infrav1.ReleasePolicyAnnotation: row.annotation}
			}
			policy, unknown := host.ReleasePolicy(m, row.ordered)
			if policy != row.want || unknown != row.unknown {
				t.Errorf("%s, unknown %q; want %s, %q", policy, unknown, row.want, row.unknown)
			}
		})
	}
}
