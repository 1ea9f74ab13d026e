package pod

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// imageChangedError ends an attempt whose image is not the Pod's any more.
type imageChangedError struct{ container string }

func (e *imageChangedError) Error() string {
	return "Container " + e.container + " definition changed, will be restarted"
}

// awaitImageChange returns an imageChangedError once the Pod wants another image than the one
// that runs; nil when ctx ends. A change that this node cannot honour is reported, and
// the VM runs on.
func awaitImageChange(ctx context.Context, pod *object, report *reporter, running string) error {
	told := int64(-1)
	for {
		p, changed := pod.observe()
		if running != "" && wantsOtherImage(p, running) {
			fields := admission.Unsupported(p)
			if len(fields) == 0 {
				return &imageChangedError{p.Spec.Containers[0].Name}
			}
			if told != p.Generation {
				told = p.Generation
				report.event(corev1.EventTypeWarning, state.ReasonUnsupported,
					fmt.Sprintf("The VM runs on with image %q, as this node cannot honour: %s", running, strings.Join(fields, ", ")))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func wantsOtherImage(p *corev1.Pod, image string) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c corev1.Container) bool { return c.Image != image })
}
