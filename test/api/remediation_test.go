package api

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// TestRemediationTimes: a step takes some time, or none; core copies what a template
// says into each remediation, so both are held to it.
func TestRemediationTimes(t *testing.T) {
	for name, c := range map[string]struct {
		spec infrav1.ScalewayAppleSiliconRemediationSpec
		says string
	}{
		"nothing said":     {spec: infrav1.ScalewayAppleSiliconRemediationSpec{}},
		"both left out":    {spec: infrav1.ScalewayAppleSiliconRemediationSpec{AgentRestartTimeoutSeconds: ptr.To[int32](0), RebootTimeoutSeconds: ptr.To[int32](0)}},
		"restart below 0":  {infrav1.ScalewayAppleSiliconRemediationSpec{AgentRestartTimeoutSeconds: ptr.To[int32](-1)}, "agentRestartTimeoutSeconds"},
		"a reboot below 0": {infrav1.ScalewayAppleSiliconRemediationSpec{RebootTimeoutSeconds: ptr.To[int32](-900)}, "rebootTimeoutSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Name: "r-" + uuid.NewString(), Namespace: "default"}
			template := &infrav1.ScalewayAppleSiliconRemediationTemplate{ObjectMeta: meta}
			template.Spec.Template.Spec = c.spec
			remediation := &infrav1.ScalewayAppleSiliconRemediation{ObjectMeta: meta, Spec: c.spec}
			for kind, err := range map[string]error{
				"template": api.Create(t.Context(), template), "remediation": api.Create(t.Context(), remediation),
			} {
				switch {
				case c.says == "" && err != nil:
					t.Errorf("a %s is refused: %v", kind, err)
				case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
					t.Errorf("a %s: got %v, want a refusal that names %s", kind, err, c.says)
				}
			}
		})
	}
}
