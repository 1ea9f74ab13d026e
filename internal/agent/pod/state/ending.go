package state

import (
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
)

// PreStopID is the command of a preStop hook. It is none of the attempt's own.
const PreStopID = "prestop"

// Ending is how far the end of a command has come that has a grace period.
type Ending struct {
	// Since is when it began, by this host's clock.
	Since time.Time `json:"since"`
	// Hooked: the preStop hook is done. Signaled: the command was told to end.
	Hooked   bool `json:"hooked,omitempty"`
	Signaled bool `json:"signaled,omitempty"`
}

const (
	// stopPart of a grace is left for the guest to go down in, between these bounds.
	stopPart            = 10
	stopLeast, stopMost = 500 * time.Millisecond, 10 * time.Second
	// TermLeast is left for the command after a preStop hook that took all of its time.
	TermLeast = 2 * time.Second
)

// StopMargin is what of a whole grace is left for the guest after its command.
func StopMargin(whole time.Duration) time.Duration {
	return min(stopMost, max(stopLeast, whole/stopPart))
}

// CommandToEnd is the container's command that runs now; empty: none does.
func (s CommandProgress) CommandToEnd() string {
	if s.ID == SetupID || !s.Begun || s.Exit != nil {
		return ""
	}
	return s.ID
}

// PreStop is the hook of a container; nil: it has none.
func PreStop(c corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PreStop
}

// HookArgv is the command that a hook is in the guest. A request by HTTP is made there,
// where the container's ports are.
func HookArgv(c corev1.Container, h corev1.LifecycleHandler) ([]string, error) {
	switch {
	case h.Exec != nil:
		return h.Exec.Command, nil
	case h.HTTPGet != nil:
		return httpGetArgv(c, *h.HTTPGet)
	}
	return nil, fmt.Errorf("the hook of container %s says nothing to do", c.Name)
}

// httpGetArgv sends a request, to which any answer is a success, whatever its status.
func httpGetArgv(c corev1.Container, g corev1.HTTPGetAction) ([]string, error) {
	port, err := action.Port(g.Port, &c)
	if err != nil {
		return nil, err
	}
	host, scheme, path := g.Host, "http", g.Path
	if host == "" {
		host = "127.0.0.1"
	}
	if g.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	if len(path) == 0 || path[0] != '/' {
		path = "/" + path
	}
	argv := []string{"/usr/bin/curl", "--silent", "--show-error", "--insecure", "--location", "--globoff", "--output", "/dev/null"}
	for _, h := range g.HTTPHeaders {
		argv = append(argv, "--header", h.Name+": "+h.Value)
	}
	return append(argv, scheme+"://"+net.JoinHostPort(host, strconv.Itoa(port))+path), nil
}
