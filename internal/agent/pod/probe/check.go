package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
	"github.com/macfleet/macfleet/internal/agent/pod/env"
)

// result of one probe of a container.
type result struct {
	healthy bool
	// warning: healthy, but people should know.
	warning bool
	message string
}

func failure(format string, args ...any) result {
	return result{message: fmt.Sprintf(format, args...)}
}

// check makes one probe, within its timeout. That of a command counts from the beginning;
// that of a connection from when the guest runs what connects, as a busy Mac takes long to
// start a program in it. An error says that the probe could not be made.
func check(ctx context.Context, spec *corev1.Probe, c *corev1.Container, guest action.Runner) (result, error) {
	limit := timeout(spec)
	ctx, cancel := context.WithCancel(ctx) // its connections end with it
	defer cancel()
	switch {
	case spec.Exec != nil:
		argv, err := env.Static(spec.Exec.Command, c.Env)
		if err != nil {
			return failure("command: %s", err), nil
		}
		return checkExec(ctx, argv, guest, limit)
	case spec.HTTPGet != nil:
		return checkHTTP(ctx, spec.HTTPGet, c, guest, limit)
	case spec.TCPSocket != nil:
		return checkTCP(ctx, spec.TCPSocket, c, guest, limit)
	case spec.GRPC != nil:
		return checkGRPC(ctx, spec.GRPC, action.Opened(ctx, guest, "", int(spec.GRPC.Port)), limit), nil
	}
	return result{}, action.ErrNoHandler
}

func checkExec(ctx context.Context, argv []string, guest action.Runner, limit time.Duration) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	output, code, err := guest.Exec(ctx, argv)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failure("command timed out: %q timed out after %s", strings.Join(argv, " "), limit), nil
	case err != nil:
		return result{}, err
	}
	return result{healthy: code == 0, message: string(output)}, nil
}

func checkTCP(ctx context.Context, a *corev1.TCPSocketAction, c *corev1.Container, guest action.Runner, limit time.Duration) (result, error) {
	port, err := action.Port(a.Port, c)
	if err != nil {
		return result{}, err
	}
	if err := guest.Connect(ctx, a.Host, port, limit); err != nil {
		return failure("%v", err), nil
	}
	return result{healthy: true}, nil
}

// maxRedirects on the same host are followed.
const maxRedirects = 10

// checkHTTP takes statuses from 200 to 399 for healthy. A redirect to another host is not
// followed, as that is not the container.
func checkHTTP(ctx context.Context, a *corev1.HTTPGetAction, c *corev1.Container, guest action.Runner, limit time.Duration) (result, error) {
	request, err := action.Request(ctx, a, c, "probe")
	if err != nil {
		return result{}, err
	}
	if guest, err = action.OpenedFor(request, guest); err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request = request.WithContext(ctx)
	client := http.Client{
		Timeout:   limit,
		Transport: action.Transport(ctx, guest),
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case r.URL.Hostname() != via[0].URL.Hostname():
				return http.ErrUseLastResponse
			case len(via) >= maxRedirects:
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			return nil
		},
	}
	response, err := client.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) && ctx.Err() != nil && !failed.Timeout() {
		failed.Err = ctx.Err() // the connection through the guest goes with ctx, and may be the first to fail
	}
	if err != nil {
		return failure("%v", err), nil
	}
	defer response.Body.Close()
	body, err := action.Body(response)
	switch {
	case err != nil:
		return result{}, err
	case response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest:
		// Whatever the server has to say is for whoever may talk to it.
		return failure("HTTP probe failed with statuscode: %d", response.StatusCode), nil
	case response.StatusCode >= http.StatusMultipleChoices:
		return result{healthy: true, warning: true, message: "Probe terminated redirects, Response body: " + body}, nil
	}
	return result{healthy: true, message: body}, nil
}
