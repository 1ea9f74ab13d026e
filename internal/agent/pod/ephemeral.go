package pod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// refuseEphemeral says of each ephemeral container, which may be added to a Pod that
// runs, that nothing comes of it. The Pod goes on.
func (w *worker) refuseEphemeral(ctx context.Context) {
	for told := 0; ; {
		p, changed := w.observe()
		// They can be added, and never be taken away.
		for ; told < len(p.Spec.EphemeralContainers); told++ {
			w.event(corev1.EventTypeWarning, reasonUnsupported, fmt.Sprintf(
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
