package main

import (
	"maps"
	"net/http"
	"strings"
	"sync"
)

// requests counts requests to the API server by their verbs and resources.
type requests struct {
	mu sync.Mutex
	by map[string]int
}

// count is a transport that counts what passes.
func (r *requests) count(next http.RoundTripper) http.RoundTripper {
	return counting{r, next}
}

type counting struct {
	requests *requests
	next     http.RoundTripper
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	c.requests.add(request.Method + " " + resource(request.URL.Path))
	return c.next.RoundTrip(request)
}

func (r *requests) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int{}
	}
	r.by[what]++
}

// since is what has been counted after an earlier look; nil looks from the start.
func (r *requests) since(before map[string]int) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := maps.Clone(r.by)
	for what, n := range before {
		if out[what] -= n; out[what] == 0 {
			delete(out, what)
		}
	}
	return out
}

// resource is a path without its group, namespace and name.
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2 // api/v1
	if parts[0] == "apis" {
		skip = 3
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	switch len(parts) {
	case 0:
		return "discovery"
	case 1, 2:
		return parts[0]
	}
	return parts[0] + "/" + parts[2]
}

func sum(counts map[string]int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}
