package pod

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// changedError ends an attempt whose image is not the Pod's any more.
type changedError struct{ container string }

func (e *changedError) Error() string {
	return "Container " + e.container + " definition changed, will be restarted"
}

// awaitChange returns a changedError once the Pod wants another image than the one
// that runs; nil when ctx ends. A change that this node cannot honour is told of, and
// the machine runs on.
func (w *worker) awaitChange(ctx context.Context, running string) error {
	told := int64(-1)
	for {
		p, changed := w.observe()
		if running != "" && wantsOther(p, running) {
			fields := Unsupported(p)
			if len(fields) == 0 {
				return &changedError{p.Spec.Containers[0].Name}
			}
			if told != p.Generation {
				told = p.Generation
				w.event(corev1.EventTypeWarning, reasonUnsupported,
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

func wantsOther(p *corev1.Pod, image string) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c corev1.Container) bool { return c.Image != image })
}

// stopChanged stops a machine so that another takes its place, whatever the restart
// policy says. What ended by itself meanwhile has its own end.
func (w *worker) stopChanged(ctx context.Context, why *changedError) (end, error) {
	if own := w.readEnd(whyUnrecorded); own.Reason != reasonUnknown {
		return own, nil
	}
	w.log.Info("VM stopped, as the Pod wants another image", "machine", w.rec.machine())
	w.event(corev1.EventTypeNormal, "Killing", why.Error())
	if err := w.stop(ctx, w.rec.machine(), w.dir(), w.grace); err != nil {
		return end{}, err
	}
	e := w.readEnd(whyUnrecorded)
	e.Replaced = true
	return e, nil
}
