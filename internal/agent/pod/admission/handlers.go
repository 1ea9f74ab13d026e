package admission

import (
	corev1 "k8s.io/api/core/v1"
)

// probes are the fields of a container for its probes.
func probes() []string { return []string{"livenessProbe", "readinessProbe", "startupProbe"} }

// unsupportedHandlers looks at the probes and hooks of a container that is a command in the
// guest.
func unsupportedHandlers(path string, c corev1.Container) []string {
	var found []string
	for _, p := range []struct {
		name string
		spec *corev1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
		if p.spec != nil {
			found = append(found, unsupportedProbe(path+"."+p.name, *p.spec)...)
		}
	}
	if c.Lifecycle == nil {
		return found
	}
	found = append(found, unsupportedIn(path+".lifecycle", *c.Lifecycle, "postStart", "preStop")...)
	for _, h := range []struct {
		name    string
		handler *corev1.LifecycleHandler
	}{{"postStart", c.Lifecycle.PostStart}, {"preStop", c.Lifecycle.PreStop}} {
		if h.handler != nil {
			found = append(found, unsupportedHook(path+".lifecycle."+h.name, *h.handler)...)
		}
	}
	return found
}

func unsupportedProbe(path string, p corev1.Probe) []string {
	found := unsupportedIn(path, p, "exec", "httpGet", "tcpSocket", "grpc",
		"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold", "terminationGracePeriodSeconds")
	if p.Exec != nil {
		found = append(found, unsupportedIn(path+".exec", *p.Exec, "command")...)
	}
	if p.TCPSocket != nil {
		found = append(found, unsupportedIn(path+".tcpSocket", *p.TCPSocket, "port", "host")...)
	}
	if p.GRPC != nil {
		found = append(found, unsupportedIn(path+".grpc", *p.GRPC, "port", "service")...)
	}
	return append(found, unsupportedGet(path+".httpGet", p.HTTPGet)...)
}

// unsupportedHook refuses tcpSocket, which the API keeps and no kubelet runs.
func unsupportedHook(path string, h corev1.LifecycleHandler) []string {
	found := unsupportedIn(path, h, "exec", "httpGet", "sleep")
	if h.Exec != nil {
		found = append(found, unsupportedIn(path+".exec", *h.Exec, "command")...)
	}
	return append(found, unsupportedGet(path+".httpGet", h.HTTPGet)...)
}

func unsupportedGet(path string, g *corev1.HTTPGetAction) []string {
	if g == nil {
		return nil
	}
	return unsupportedIn(path, *g, "path", "port", "host", "scheme", "httpHeaders")
}
