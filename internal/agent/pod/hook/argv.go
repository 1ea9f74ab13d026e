package hook

import (
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
)

// Argv is the command that a hook is in the guest. A request by HTTP is made there,
// where the container's ports are.
func Argv(c corev1.Container, h corev1.LifecycleHandler) ([]string, error) {
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
