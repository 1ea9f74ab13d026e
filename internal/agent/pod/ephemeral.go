package pod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// refuseEphemeralContainers says of each ephemeral container, which may be added to a
// Pod that runs or has ended, that nothing comes of it, as its status does. The Pod goes on.
func refuseEphemeralContainers(ctx context.Context, pod *object, report *reporter) {
	for told := 0; ; {
		p, changed := pod.observe()
		// They can be added, and never be taken away.
		for ; told < len(p.Spec.EphemeralContainers); told++ {
			report.event(corev1.EventTypeWarning, state.ReasonUnsupported, fmt.Sprintf(
				"spec.ephemeralContainers[%d] (%s) does not run: %s", told, p.Spec.EphemeralContainers[told].Name, state.MessageEphemeral))
		}
		report.showEphemeral()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
