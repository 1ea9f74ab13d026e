// Package hook runs the lifecycle hooks of a container, postStart and preStop, that are no
// commands. When they run, and what their failure means, is the worker's, as are commands.
package hook

import (
	"context"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// Runner runs the hooks of one container.
type Runner struct {
	// Container names the ports.
	Container corev1.Container
	Guest     action.Runner
	Clock     clock.Clock
	// FellBack is told when a request by HTTPS was answered by HTTP and then sent again so,
	// as a kubelet does. May be nil.
	FellBack func(host string)
}

// Run runs one hook to its end, which may be that of ctx: a hook has no time limit of its
// own. Nothing that the hook has written or was answered is part of the error.
func (r Runner) Run(ctx context.Context, h *corev1.LifecycleHandler) error {
	switch {
	case h.HTTPGet != nil:
		return r.get(ctx, h.HTTPGet)
	case h.Sleep != nil:
		return wait.For(ctx, r.Clock, time.Duration(h.Sleep.Seconds)*time.Second)
	}
	return action.ErrNoHandler
}

// get sends a request. Any answer is a success, whatever its status.
func (r Runner) get(ctx context.Context, a *corev1.HTTPGetAction) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := action.Request(ctx, a, &r.Container, "lifecycle")
	if err != nil {
		return err
	}
	err = r.send(request)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return err
	}
	again := request.Clone(ctx)
	again.URL.Scheme = "http"
	// What was to go encrypted does not go in the clear.
	again.Header.Del("Authorization")
	if r.send(again) != nil {
		return err
	}
	if r.FellBack != nil {
		r.FellBack(request.URL.Host)
	}
	return nil
}

func (r Runner) send(request *http.Request) error {
	client := http.Client{Transport: action.Transport(request.Context(), r.Guest)}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = action.Body(response)
	return nil
}
