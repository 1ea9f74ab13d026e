package pod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/admission"
)

// refuseEphemeralContainers says of each ephemeral container, which may be added to a
// running Pod, that nothing comes of it. The Pod goes on.
func refuseEphemeralContainers(ctx context.Context, pod *object, report *reporter) {
	for told := 0; ; {
		p, changed := pod.observe()
		// They can be added, and never be taken away.
		for ; told < len(p.Spec.EphemeralContainers); told++ {
			report.event(corev1.EventTypeWarning, admission.ReasonUnsupported, fmt.Sprintf(
				"This node runs a Pod as one macOS VM and cannot honour: spec.ephemeralContainers[%d] (%s); the Pod goes on without it",
				told, p.Spec.EphemeralContainers[told].Name))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
