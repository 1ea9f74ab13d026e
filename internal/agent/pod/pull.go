package pod

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/image"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// Images brings images to the host. *image.Store is the one there.
type Images interface {
	Ensure(ctx context.Context, r image.Request) (image.Result, error)
}

// reasonNeverPull is of an image that is not here and may not be pulled.
const reasonNeverPull = "ErrImageNeverPull"

// backOffShown is how long the error of a pull is shown before the back-off is.
const backOffShown = time.Second

// imagePuller brings one Pod's image to the host.
type imagePuller struct {
	images   Images
	inputs   Inputs
	pod      *object
	progress *progress
	report   *reporter
	clock    clock.Clock
	log      *slog.Logger

	// reportedMissing are the missing pull secrets that an event named, after the attempt.
	reportedMissing string
}

// pull brings the image here, as often as it takes, and returns its name by digest. The
// back-off is that of one image: another one of the Pod is tried at once.
func (u *imagePuller) pull(ctx context.Context) (string, error) {
	failures := 0
	for {
		c := u.pod.current().Spec.Containers[0]
		if failures > 0 && c.Image != u.progress.Image {
			failures = 0
			u.report.showProgress()
		}
		u.progress.Image = c.Image
		ref, err := u.pullOnce(ctx, c)
		if err == nil {
			if failures > 0 {
				u.report.showProgress()
			}
			return ref, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		failures++
		if err := u.backOff(ctx, c, failures, err); err != nil {
			return "", err
		}
	}
}

// backOff shows first what went wrong, and then that it is waited for. Only
// ErrImagePull backs off visibly: the others need a person, and keep their name. It is over
// once the Pod wants another image.
func (u *imagePuller) backOff(ctx context.Context, c corev1.Container, failures int, why error) error {
	reason := image.Reason(why)
	u.log.Warn("image not pulled", "image", c.Image, "reason", reason, "err", why)
	if reason == reasonNeverPull {
		u.report.event(corev1.EventTypeWarning, reason, fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image))
	} else {
		u.report.event(corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, why))
	}
	u.report.event(corev1.EventTypeWarning, "Failed", "Error: "+reason)
	u.report.showWaiting(reason, why.Error())
	if other, err := u.awaitOther(ctx, c.Image, backOffShown); other || err != nil {
		return err
	}
	if reason == "ErrImagePull" {
		u.report.showWaiting("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: %v", c.Image, why))
		u.report.event(corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", c.Image))
		u.report.event(corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
	}
	_, err := u.awaitOther(ctx, c.Image, state.PullDelay(failures)-backOffShown)
	return err
}

// awaitOther waits for d, or until the Pod wants another image than the one that was tried.
func (u *imagePuller) awaitOther(ctx context.Context, tried string, d time.Duration) (bool, error) {
	end := u.clock.Now().Add(d)
	for {
		p, changed := u.pod.observe()
		if p.Spec.Containers[0].Image != tried {
			return true, nil
		}
		again, err := wait.Or(ctx, u.clock, changed, max(0, end.Sub(u.clock.Now())))
		switch {
		case err != nil:
			return false, err
		case !again:
			return false, context.Cause(ctx)
		}
	}
}

func (u *imagePuller) pullOnce(ctx context.Context, c corev1.Container) (string, error) {
	secrets, err := u.inputs.PullSecrets(ctx, u.pod.current())
	if err != nil {
		return "", err
	}
	u.reportMissing(secrets)
	got, err := u.images.Ensure(ctx, image.Request{
		Ref: c.Image, Policy: c.ImagePullPolicy, PullSecrets: secrets,
		Pulling: func() {
			u.report.event(corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
		},
		Waits:    func(behind string) { u.reportQueued(c.Image, behind) },
		Progress: func(percent int, quiet time.Duration) { u.reportProgress(c.Image, percent, quiet) },
	})
	if err != nil {
		return "", err
	}
	u.progress.ImageID = got.Ref // <repository>@sha256:…
	if !got.Pulled {
		u.report.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", c.Image))
		return got.Ref, nil
	}
	took := got.Took.Round(time.Millisecond)
	u.log.Info("image pulled", "image", c.Image, "digest", got.Digest, "took", took)
	u.report.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q in %s", c.Image, took))
	return got.Ref, nil
}

// reportQueued says that another image comes first from the registry; "": no more.
func (u *imagePuller) reportQueued(wanted, behind string) {
	if behind == "" {
		u.report.showProgress()
		return
	}
	message := fmt.Sprintf("image %q waits for the pull of %q from the same registry", wanted, behind)
	u.report.showWaiting(state.InitialReason(u.pod.current()), message)
	u.report.event(corev1.EventTypeNormal, "Pulling", "The pull of "+message)
}

// reportProgress says how far a pull has come: images are large, and take long.
func (u *imagePuller) reportProgress(wanted string, percent int, quiet time.Duration) {
	message := fmt.Sprintf("image %q is being pulled: %d %% have come", wanted, percent)
	if quiet = quiet.Truncate(time.Minute); quiet > 0 {
		message += fmt.Sprintf(", and nothing for %d min", int(quiet.Minutes()))
	}
	u.report.showWaiting(state.InitialReason(u.pod.current()), message)
}

// reportMissing says once in each attempt which pull secrets of the Pod are not there:
// the pull goes on without them, and may need them.
func (u *imagePuller) reportMissing(there []corev1.Secret) {
	var missing []string
	for _, name := range pullSecretNames(u.pod.current()) {
		if !slices.ContainsFunc(there, func(s corev1.Secret) bool { return s.Name == name }) {
			missing = append(missing, name)
		}
	}
	names := strings.Join(missing, ", ")
	reported := fmt.Sprint(u.progress.Attempt, " ", names)
	if names == "" || reported == u.reportedMissing {
		return
	}
	u.reportedMissing = reported
	u.report.event(corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
		"There is no Secret "+names+" in the Pod's namespace, which imagePullSecrets names; the image is pulled without")
}
