package server

import (
	"net/http"
	"slices"
	"strings"
)

// kind is what a request asks for.
type kind string

const (
	kindUnknown         kind = ""
	kindHealth          kind = "healthz"
	kindPods            kind = "pods"
	kindLogs            kind = "containerLogs"
	kindExec            kind = "exec"
	kindAttach          kind = "attach"
	kindRun             kind = "run"
	kindPortForward     kind = "portForward"
	kindStats           kind = "stats/summary"
	kindMetrics         kind = "metrics"
	kindResourceMetrics kind = "metrics/resource"
	kindProbeMetrics    kind = "metrics/probes"
	// kindContainerMetrics has a kubelet's path.
	kindContainerMetrics kind = "metrics/cadvisor"
)

// route is a request, read once: who may send it and who answers it are decided from
// the same reading.
type route struct {
	kind kind
	// namespace, pod, uid and container are what its path names. uid may be empty.
	namespace, pod, uid, container string
	// verb of the Kubernetes API that it stands for, and the subresources of the Node of
	// which one must be allowed.
	verb         string
	subresources []string
	// allowed are the methods that there are for it.
	allowed []string
}

// routeOf reads a request.
func routeOf(method, path string) route {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	r := route{verb: verbOf(method), subresources: subresourcesOf(parts), allowed: []string{http.MethodGet}}
	// A kubelet has no other spelling of them.
	if strings.Contains(path, "//") || !strings.HasPrefix(path, "/") {
		return r
	}
	if k := kind(strings.Join(parts, "/")); slices.Contains(plainKinds, k) {
		r.kind = k
		return r
	}
	r.ofContainer(parts)
	return r
}

// plainKinds have no names in their paths.
var plainKinds = []kind{kindHealth, kindPods, kindStats, kindMetrics, kindResourceMetrics, kindProbeMetrics, kindContainerMetrics}

// ofContainer reads paths as /exec/<namespace>/<pod>[/<uid>]/<container>.
func (r *route) ofContainer(parts []string) {
	names := parts[1:]
	withUID := 4
	switch k := kind(parts[0]); k {
	case kindLogs:
		withUID = -1 // no path of a log has a UID
	case kindPortForward:
		// A Pod and no container.
		names = append(slices.Clone(names), "")
	case kindExec, kindAttach, kindRun:
	default:
		return
	}
	switch len(names) {
	case withUID:
		r.namespace, r.pod, r.uid, r.container = names[0], names[1], names[2], names[3]
	case 3:
		r.namespace, r.pod, r.container = names[0], names[1], names[2]
	default:
		return
	}
	r.kind = kind(parts[0])
	if r.kind == kindLogs {
		return
	}
	// Whatever the method: a WebSocket begins with a GET, and reading a node is not
	// running commands on it.
	r.verb = "create"
	r.allowed = []string{http.MethodGet, http.MethodPost}
	if r.kind == kindRun {
		r.allowed = []string{http.MethodPost}
	}
}

func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet:
		return "get"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// subresourcesOf are a kubelet's: some have a narrower one that is tried first.
func subresourcesOf(parts []string) []string {
	switch parts[0] {
	case "pods", "runningpods":
		return []string{"pods", "proxy"}
	case "healthz":
		return []string{"healthz", "proxy"}
	case "configz":
		return []string{"configz", "proxy"}
	case "stats", "metrics", "checkpoint", "statusz":
		return []string{parts[0]}
	case "logs":
		return []string{"log"}
	case "flagz":
		return []string{"configz"}
	}
	return []string{"proxy"}
}
