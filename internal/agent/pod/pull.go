package pod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/image"
)

// Images brings images to the host. *image.Store is the one there.
type Images interface {
	Ensure(ctx context.Context, r image.Request) (image.Result, error)
}

// backOffShown is how long the error of a pull is shown before the back-off is.
const backOffShown = time.Second

// pull brings the image here, as often as it takes, and returns its name by digest.
func (w *worker) pull(ctx context.Context) (string, error) {
	for failures := 1; ; failures++ {
		c := w.current().Spec.Containers[0]
		w.rec.Image = c.Image
		ref, err := w.pullOnce(ctx, c)
		if err == nil {
			if failures > 1 {
				w.showNow()
			}
			return ref, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err := w.backOffPull(ctx, c, failures, err); err != nil {
			return "", err
		}
	}
}

// backOffPull shows first what went wrong, and then that it is waited for. Only
// ErrImagePull backs off visibly: the others need a person, and keep their name.
func (w *worker) backOffPull(ctx context.Context, c corev1.Container, failures int, why error) error {
	reason := image.Reason(why)
	w.log.Warn("image not pulled", "image", c.Image, "reason", reason, "err", why)
	w.event(corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, why))
	w.waiting(reason, why.Error())
	if !wait(ctx, w.clock, backOffShown) {
		return context.Cause(ctx)
	}
	if reason == "ErrImagePull" {
		w.waiting("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: %v", c.Image, why))
		w.event(corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", c.Image))
	}
	if !wait(ctx, w.clock, pullDelay(failures)-backOffShown) {
		return context.Cause(ctx)
	}
	return nil
}

// waitsForPull says that another image comes first from the registry; "": no more.
func (w *worker) waitsForPull(wanted, behind string) {
	if behind == "" {
		w.showNow()
		return
	}
	message := fmt.Sprintf("image %q waits for the pull of %q from the same registry", wanted, behind)
	w.waiting(w.patient(), message)
	w.event(corev1.EventTypeNormal, "Pulling", "The pull of "+message)
}

func (w *worker) pullOnce(ctx context.Context, c corev1.Container) (string, error) {
	secrets, err := w.inputs.PullSecrets(ctx, w.current())
	if err != nil {
		return "", err
	}
	w.tellMissing(secrets)
	got, err := w.images.Ensure(ctx, image.Request{
		Ref: c.Image, Policy: c.ImagePullPolicy, PullSecrets: secrets,
		Pulling: func() { w.event(corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image)) },
		Waits:   func(behind string) { w.waitsForPull(c.Image, behind) },
	})
	if err != nil {
		return "", err
	}
	w.rec.ImageID = got.Digest
	if !got.Pulled {
		w.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", c.Image))
		return got.Ref, nil
	}
	took := got.Took.Round(time.Millisecond)
	w.log.Info("image pulled", "image", c.Image, "digest", got.Digest, "took", took)
	w.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q in %s", c.Image, took))
	return got.Ref, nil
}
